"""Output of the command line. Control characters in names from data or configs are escaped, never sent to the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from counterpoise.errors import printable
from counterpoise.system.screen import screen as screen


class Plain:
    """A stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    @property
    def rich_proxied_file(self) -> TextIO:
        """The wrapped stream, under the name that Rich uses: it writes its own escapes, and `screen` cleans the text."""
        return self._stream

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click would bypass `write`
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def plain_output() -> Iterator[None]:
    """Within it, all output is plain text."""
    import sys

    out, err = (stream and cast("TextIO", Plain(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield
