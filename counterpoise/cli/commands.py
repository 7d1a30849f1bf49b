"""All commands. Heavy imports are inside the commands, so that --help is fast."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from counterpoise.cli import (
    advise,
    check,
    compare,
    data,
    describe,
    experiments,
    flower,
    init,
    privacy,
    report,
    runs,
    trained,
    watch,
)
from counterpoise.cli.interrupt import OUT_OF_MEMORY, check_memory_limit
from counterpoise.cli.terminal import plain_output
from counterpoise.errors import CounterpoiseError, is_out_of_memory, one_line, short
from counterpoise.system.allocator import keep_memory
from counterpoise.version import __version__

HELP = """
Federated learning under class imbalance.

For a start:
  counterpoise demo                               methods side by side
  counterpoise init mine.csv --label y            an experiment and a sweep for your table
  counterpoise advise experiment.toml             which method for your data
  counterpoise compare sweep.toml                 your own sweep, to a table and a report
  counterpoise ls methods                         available methods
  counterpoise show fedcm                         formula, paper, parameters
  counterpoise run experiment.toml local.lr=0.05  one run, a value changed
  counterpoise check my_part.py:my_part           a part of your own, against the contracts
  counterpoise resume runs/001-fedavg-digits      continue an interrupted run
  counterpoise watch runs                         progress of runs
  counterpoise predict runs/001-fedavg-digits new.csv -o predictions.csv
                                                  classes and probabilities of new data
  counterpoise export runs/001-fedavg-digits DIR  the model as ONNX, plain PyTorch, safetensors
  counterpoise data inspect mine.csv --label y    how skewed your data is
  counterpoise privacy runs/001-fedavg-digits     what the server learned of its clients

Exit codes: 0 done, 2 config or usage, 3 data, 4 stopped but can be resumed, 5 refused for security.
"""

NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)  # not a valid file name
INTERRUPTED = 130  # typer's exit code for an uncaught Ctrl-C
NO_SHELL = 1  # typer's exit code for a shell without completion
UsageError: Any = typer.BadParameter.__base__  # click's in older versions of typer, its own in newer ones

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},  # for subcommands too
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


init.add_to(app)
experiments.add_to(app)
advise.add_to(app)
compare.add_to(app)
describe.add_to(app)
check.add_to(app)
runs.add_to(app)
report.add_to(app)
privacy.add_to(app)
trained.add_to(app)
watch.add_to(app)
app.add_typer(data.app, name="data")
app.add_typer(flower.app, name="flower")


def run_command() -> NoReturn:
    """Run a command; its output is plain text, apart from our own colours."""
    keep_memory()  # each step and each batch of a scoring takes what the one before gave back
    with plain_output():
        _run_command()


def _run_command() -> NoReturn:
    """Every failure but Ctrl-C is one line and an exit code, never a traceback."""
    try:
        code = _call()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(2 if code == NO_SHELL else code)
    except CounterpoiseError as error:
        _fail(str(error), error.exit_code)
    except UsageError as error:
        _explain_usage(error)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        os._exit(0)  # the reader of our output has closed it
    except Exception as error:
        if os.environ.get("COUNTERPOISE_TRACEBACK") and not isinstance(error, OSError):
            raise
        _fail(*_told(error))


def _told(error: Exception) -> tuple[str, int]:
    """What is said of an error that is none of ours, and the exit code."""
    if is_out_of_memory(error):
        return f"{OUT_OF_MEMORY}; run the command again", 4
    if isinstance(error, OSError):
        place = short(Path(os.fsdecode(error.filename))) if error.filename else "output"
        return f"{place}: {error.strerror or error}", 2 if error.errno in NO_NAME else 4
    if "embedded null" in str(error):
        return "a name of a file or folder must not contain the character NUL", 2
    what = f"{type(error).__name__}: {error}"
    return f"{what}. This should not happen: COUNTERPOISE_TRACEBACK=1 shows where; please report it", 4


def _call() -> int:
    check_memory_limit()
    try:
        code: int = app(prog_name="counterpoise", standalone_mode=False)
        sys.stdout.flush()  # here, since errors at interpreter exit cannot be caught
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # how rich reports a closed output
            raise BrokenPipeError from None
        code = int(end.code or 0)  # shell completion exits by itself
        sys.stdout.flush()
    return code


def _explain_usage(error: Any) -> NoReturn:
    if type(error).__name__ == "NoArgsIsHelpError":  # by name, since typer does not export it
        if error.message:  # with rich the help stands there already, and an empty line would follow
            error.show()
        sys.exit(2)
    command = error.ctx.command_path if error.ctx else "counterpoise"
    # New versions of click would add a second suggestion to that of typer.
    words = error.message if "Did you mean" in error.message else error.format_message()
    _fail(f"{words}{'' if words.endswith(('.', '?')) else '.'} See `{command} --help`.", 2)


def _fail(message: str, code: int) -> NoReturn:
    with suppress(OSError):  # if the terminal is closed, the exit code remains
        typer.echo(f"error: {one_line(message)}", err=True)
    sys.exit(code)
