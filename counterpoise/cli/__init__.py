"""Entry point of the command line; slow imports come where Ctrl-C is caught."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoise.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run a command; every failure is one line and an exit code, never a traceback."""
    try:
        from counterpoise.cli.commands import run_command

        run_command()
    except KeyboardInterrupt:
        from counterpoise.cli.interrupt import ignore_further_interrupts
        from counterpoise.errors import RunError

        ignore_further_interrupts()
        sys.stderr.write("error: stopped\n")
        sys.exit(RunError.exit_code)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'counterpoise.cli' has no attribute {name!r}")
    from counterpoise.cli.commands import app

    return app
