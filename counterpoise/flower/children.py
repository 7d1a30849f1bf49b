"""Clients on this machine as child processes: restarted when they exit, stopped when this process exits."""

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
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
POLL = 0.2  # seconds between two checks of the children
SHORT_LIFE = 60.0  # seconds; a child that exits sooner has failed
MOST_FAILURES = 20  # in a row, after which a child is not restarted


@dataclass
class Child:
    """A running program in its own process group."""

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
    """Start a program; `env` is added to our environment."""
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
    """The command of this program, with the current interpreter."""
    return [sys.executable, "-c", "from counterpoise.cli import main; main()"]


def stop(children: Sequence[Child]) -> None:
    """Stop these programs and all that they started: SIGTERM, then SIGKILL."""
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
    """Restart children when they exit, until this block ends; then stop them."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL):
            for child in children:
                if not child.alive() and child.failures < MOST_FAILURES:
                    _restart(child)

    # The death signal follows the thread that started the child, so that thread must live as long as the block.
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
    LOG.warning("%s exited with status %s and is restarted; its log: %s", child.name, status, child.log)
    if child.failures == MOST_FAILURES:
        LOG.warning("%s exited %d times in a row and is not restarted", child.name, child.failures)
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
    """Have the kernel signal this process when its parent exits (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
