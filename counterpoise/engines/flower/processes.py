"""Flower's own programs as child processes that end when we end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from counterpoise.errors import ConfigError, RunError

PR_SET_PDEATHSIG = 1
GRACE = 10.0  # seconds between a polite end and kill


class Child(NamedTuple):
    """A program that was started, in a process group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def alive(self) -> bool:
        return self.process.poll() is None


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Flower without telemetry or update checks, its files under `home`, and our interpreter's programs first."""
    own = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return {**os.environ, **own, **(extra or {})}


def start(name: str, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Child:
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [program(command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=dict(env),
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    return Child(name, process, log)


def call(command: Sequence[str], env: Mapping[str, str], timeout: float = 120.0) -> str:
    """Run a program to its end; what it says is the error where it fails."""
    try:
        done = subprocess.run(
            [program(command[0]), *command[1:]], env=dict(env), capture_output=True, timeout=timeout, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunError(f"`{' '.join(command[:2])}` did not end within {timeout:g} s") from None
    output = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode != 0:
        # Its errors come in boxes drawn of lines.
        words = [line.strip("│╭╮╰╯─ ") for line in output.splitlines()]
        raise RunError(f"`{' '.join(command[:2])}` failed: {' '.join(word for word in words if word)[-300:]}")
    return output


def program(name: str) -> str:
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise ConfigError("Flower is not installed; legal: pip install 'counterpoise[flower]'")
    return str(path)


def stop(children: Sequence[Child]) -> None:
    """End these programs with everything they started: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            _signal_group(child, number)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(_group_alive(child) for child in children):
            for child in children:
                child.process.poll()
            time.sleep(0.1)
        if not any(_group_alive(child) for child in children):
            return


@contextmanager
def children() -> Iterator[list[Child]]:
    """Programs that end with this block, whatever happens in it."""
    started: list[Child] = []
    try:
        yield started
    finally:
        stop(started)


def _signal_group(child: Child, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process.pid, number)


def _group_alive(child: Child) -> bool:
    try:
        os.killpg(child.process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_port(host: str, port: int) -> None:
    """Refuse a port that another program has: clients would call that one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}); legal: an address of this machine and a free port"
        ) from None


def wait_for_port(child: Child, host: str, port: int, seconds: float = 60.0) -> None:
    """Until the program listens."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not child.alive():
            raise RunError(f"{child.name} ended at once; its log: {child.log}")
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(0.2)
    raise RunError(f"{child.name} did not listen within {seconds:g} s; its log: {child.log}")


def process_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
        state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        return True
    return state != "Z"


def end_process(number: int, word: bytes) -> None:
    """Kill a process whose command has this word: a number alone may belong to another program by now."""
    try:
        ours = word in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return
    if ours:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Have this process sent a signal when the one that started it is gone; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
