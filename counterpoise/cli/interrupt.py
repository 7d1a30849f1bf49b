"""Ctrl-C, a polite kill, a terminal that is closed, and memory that runs out, told in one line."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
OUT_OF_MEMORY = "out of memory; a smaller model, batch or cohort needs less, and `ulimit -v` may set a limit"

LEAST = 1 << 30  # bytes: with less, libraries end or hang before anybody can say why


def check_memory_limit() -> None:
    """Refuse a limit under which not even the program has room; a look at the help needs none of it."""
    from counterpoise.errors import RunError

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    looks = len(sys.argv) < 2 or {"--help", "-h", "--version"} & {*sys.argv}
    if not looks and limit != resource.RLIM_INFINITY and limit < LEAST:
        raise RunError(
            f"out of memory: the limit (ulimit -v) is {limit >> 20} MiB, and {LEAST >> 20} are the least that is needed; raise it and give the command again"
        )


@contextmanager
def interruptible(resume_hint: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and a polite kill end in one line that says how to go on, and so does a lack of memory."""
    from counterpoise.errors import RunError, is_out_of_memory

    with _heard():
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
def _heard() -> Iterator[None]:
    """The signals that ask a program to end do what Ctrl-C does; one that is ignored, as under nohup, stays ignored."""
    ours = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() != ours:
            os._exit(1)  # a worker process, which inherited this: only its parent has something to say
        signal.signal(
            number, signal.SIG_IGN
        )  # a shell that is closed passes on what its terminal sent before
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in STOPS}
    heard = {number: known for number, known in before.items() if known is not signal.SIG_IGN}
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, known in heard.items():
            signal.signal(number, known)


def ignore_further_interrupts() -> None:
    """One Ctrl-C is enough: of more, as the program takes its leave, the reader would see a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
