"""Ctrl-C, SIGTERM, a closed terminal and a lack of memory end in one line."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
OUT_OF_MEMORY = "out of memory; use a smaller model, batch or cohort, or raise the limit of `ulimit -v`"

LEAST = 1 << 30  # bytes: with less, libraries crash or hang without a message


def check_memory_limit() -> None:
    """Refuse a memory limit below what the program itself needs; --help works without."""
    from counterpoise.errors import RunError

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    shows_help = len(sys.argv) < 2 or {"--help", "-h", "--version"} & {*sys.argv}
    if not shows_help and limit != resource.RLIM_INFINITY and limit < LEAST:
        raise RunError(
            f"out of memory: the limit (ulimit -v) must be at least {LEAST >> 20} MiB, not {limit >> 20}; raise it and run the command again"
        )


@contextmanager
def interruptible(resume_hint: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a lack of memory end in one line that says how to continue."""
    from counterpoise.errors import RunError, is_out_of_memory

    with _stop_signals():
        try:
            yield
        except KeyboardInterrupt:
            ignore_further_interrupts()
            raise RunError(f"stopped; {resume_hint()}") from None
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise RunError(f"{OUT_OF_MEMORY}; {resume_hint()}") from None


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Termination signals act like Ctrl-C; one that is ignored, as under nohup, stays ignored."""
    ours = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() != ours:
            os._exit(1)  # a worker process, which inherited this handler: only the parent reports
        signal.signal(number, signal.SIG_IGN)  # a closed shell may send it twice
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in STOPS}
    handled = {number: known for number, known in before.items() if known is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, known in handled.items():
            signal.signal(number, known)


def ignore_further_interrupts() -> None:
    """A second Ctrl-C during shutdown would print a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
