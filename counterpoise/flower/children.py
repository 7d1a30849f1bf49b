"""Clients on this machine as child processes: started again when they end, and ended when we end."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

LOG = logging.getLogger("counterpoise")
PR_SET_PDEATHSIG = 1
GRACE = 10.0  # seconds between a polite end and kill
POLL = 0.2  # seconds between two looks at the children
SHORT_LIFE = 60.0  # seconds; a child that ends sooner has failed
MOST_FAILURES = 20  # in a row, after which a child is left alone


@dataclass
class Child:
    """A program that runs, in a process group of its own."""

    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str]
    process: subprocess.Popen[bytes]
    began: float
    failures: int = 0

    def alive(self) -> bool:
        return self.process.poll() is None


def start(
    name: str, command: Sequence[str], log: Path, env: Mapping[str, str] = MappingProxyType({})
) -> Child:
    """A program at work; `env`: what its environment has beside ours."""
    log.parent.mkdir(parents=True, exist_ok=True)
    return Child(name, command, log, env, _launch(command, log, env), time.monotonic())


def _launch(command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as stream:
        return subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


def program() -> list[str]:
    """This program, by the interpreter that runs it."""
    return [sys.executable, "-c", "from counterpoise.cli import main; main()"]


def stop(children: Sequence[Child]) -> None:
    """End these programs with everything they started: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            _signal_group(child, number)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(_group_alive(child) for child in children):
            for child in children:
                child.process.poll()
            time.sleep(0.05)
        if not any(_group_alive(child) for child in children):
            return


@contextmanager
def kept_alive(children: Sequence[Child]) -> Iterator[Sequence[Child]]:
    """Children that are started again when they end, until this block ends, whatever happens in it."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL):
            for child in children:
                if not child.alive() and child.failures < MOST_FAILURES:
                    _restart(child)

    # A child gets its parent's death from the thread that started it: that thread must live as long as the block.
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield children
    finally:
        done.set()
        thread.join()
        stop(children)


def _restart(child: Child) -> None:
    lived = time.monotonic() - child.began
    child.failures = 1 if lived > SHORT_LIFE else child.failures + 1
    status = child.process.returncode
    LOG.warning("%s ended with status %s and is started again; its log: %s", child.name, status, child.log)
    if child.failures == MOST_FAILURES:
        LOG.warning("%s ended %d times in a row and is left alone", child.name, child.failures)
        return
    child.process, child.began = _launch(child.command, child.log, child.env), time.monotonic()


def _signal_group(child: Child, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process.pid, number)


def _group_alive(child: Child) -> bool:
    try:
        os.killpg(child.process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Have this process sent a signal when the one that started it is gone; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
