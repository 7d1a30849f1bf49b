"""Ctrl-C and a polite kill, told in one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interruptible(way_on: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and a polite kill end in one line that says how to go on."""
    from counterpoise.errors import RunError

    ours = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() != ours:
            os._exit(1)  # a worker process, which inherited this: only its parent has something to say
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        hear_no_more()
        raise RunError(f"stopped; {way_on()}") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def hear_no_more() -> None:
    """One Ctrl-C is enough: of more, as the program takes its leave, the reader would see a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
