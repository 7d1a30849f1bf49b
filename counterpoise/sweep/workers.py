"""Worker processes that take run after run, so that each pays for its start once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from signal import SIGKILL

from counterpoise.sweep.execute import Event, Executor, Group, share_out


def in_workers(groups: Sequence[Group], processes: int) -> Generator[Event]:
    """In so many processes of this machine."""
    yield from share_out(groups, WorkerPool(processes))


class WorkerPool(Executor["Worker"]):
    """Workers, started when there is work for them."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._idle: list[Worker] = []
        self._all: list[Worker] = []

    def submit(self, group: Group) -> Worker:
        if not self._idle:
            self._idle.append(Worker())
            self._all.append(self._idle[-1])
        worker = self._idle.pop()
        worker.submit(group)
        return worker

    def collect(self, busy: Sequence[Worker]) -> list[tuple[Worker, list[str | None] | str]]:
        ready = wait([worker.answers.fileno() for worker in busy])
        answered = [(worker, worker.take()) for worker in busy if worker.answers.fileno() in ready]
        self._idle += [worker for worker, answer in answered if isinstance(answer, list)]
        return answered

    def close(self) -> None:
        for worker in self._all:
            worker.stop()


class Worker:
    """One process, seen from the one that started it."""

    def __init__(self) -> None:
        # A session of its own: Ctrl-C reaches the sweep alone, and it is the end of our lines that ends the worker.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "counterpoise.sweep.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self.answers = self._process.stdin, self._process.stdout

    def submit(self, group: Group) -> None:
        with suppress(BrokenPipeError):  # it ended, as `take` will say
            self._orders.write(json.dumps([one._asdict() for one in group]).encode() + b"\n")

    def take(self) -> list[str | None] | str:
        """The error of each run, or one line on why the worker ended."""
        line = self.answers.readline()
        if line.endswith(b"\n"):
            return list(json.loads(line))
        code = self._process.wait()
        return (
            f"the process of this run ended with code {code}{' (out of memory?)' if code == -SIGKILL else ''}"
        )

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._orders.close()
        self.answers.close()
