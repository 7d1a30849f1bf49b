"""Worker processes that execute many runs each, so that start-up is paid once per worker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from signal import SIGKILL

from counterpoise.sweep.execute import Executor
from counterpoise.sweep.orders import Group


class WorkerPool(Executor["Worker"]):
    """Workers, started when needed; within ``with`` they stay for what comes next."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._idle: list[Worker] = []
        self._all: list[Worker] = []

    def start(self) -> None:
        """All workers now: they take seconds to get ready."""
        while len(self._all) < self.places:
            self._hire()

    def _hire(self) -> None:
        self._idle.append(Worker())
        self._all.append(self._idle[-1])

    def submit(self, group: Group) -> Worker:
        if not self._idle:
            self._hire()
        worker = self._idle.pop()
        worker.submit(group)
        return worker

    def collect(self, busy: Sequence[Worker]) -> list[tuple[Worker, list[str | None] | str]]:
        ready = wait([worker.answers.fileno() for worker in busy])
        answered = [(worker, worker.take()) for worker in busy if worker.answers.fileno() in ready]
        self._idle += [worker for worker, answer in answered if isinstance(answer, list)]
        self.stop([worker for worker, answer in answered if isinstance(answer, str)])  # it was lost
        return answered

    def stop(self, busy: Sequence[Worker]) -> None:
        for worker in busy:
            worker.stop()
            self._all.remove(worker)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._idle.clear()
        self.stop(self._all[:])


class Worker:
    """The parent's side of a worker process."""

    def __init__(self) -> None:
        # In a new session, so that Ctrl-C reaches only the sweep; closing standard input ends the worker.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "counterpoise.sweep.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self.answers = self._process.stdin, self._process.stdout

    def submit(self, group: Group) -> None:
        with suppress(BrokenPipeError):  # it ended: `take` reports it
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
