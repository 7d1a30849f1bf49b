"""Clients in worker processes, one thread each: the loop engine on all cores, with the same result.

Workers are forked, so they see the data and the method without copies. Trees travel through shared memory, and a line
of JSON says where they lie.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

import torch

from counterpoise.client import Broadcast, Result
from counterpoise.core.part import Task
from counterpoise.core.tree import Tree
from counterpoise.engines.loop import stack_results, train_task
from counterpoise.engines.memories import Memory
from counterpoise.engines.slab import Slab, as_places
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import RunError

LOST = (EOFError, BrokenPipeError, ConnectionResetError)
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names of its settings
KEEP = 1 << 30  # bytes that a worker's allocator keeps rather than giving pages back after each step


class ProcessTrainer:
    """Hands each task to the next idle worker; results are put back in the order of the tasks."""

    def __init__(self, work: Workplace, processes: int) -> None:
        self._news = Slab()
        self._workers: list[Worker] = []
        for _ in range(processes):
            self._workers.append(Worker(work, self._news, self._workers))

    def __call__(self, tasks: Sequence[Task], memories: Sequence[Memory], broadcast: Broadcast) -> Result:
        tree = {"params": broadcast.params, "buffers": broadcast.buffers, "shared": broadcast.shared}
        news = {"round": broadcast.round, "lr": broadcast.lr, "places": self._news.write(tree)}
        try:
            return self._share_out(tasks, memories, news)
        except LOST:
            raise RunError(
                "a worker process ended while it trained a client (out of memory?); engine.processes = 1 needs the least"
            ) from None

    def _share_out(self, tasks: Sequence[Task], memories: Sequence[Memory], news: dict[str, Any]) -> Result:
        waiting = list(range(len(tasks)))[::-1]
        doing: dict[Worker, int] = {}
        results: dict[int, Result] = {}
        for worker in self._workers[: len(tasks)]:
            worker.tell(news)
            doing[worker] = waiting.pop()
            worker.give(tasks[doing[worker]], memories[doing[worker]])
        while doing:
            ready = wait([worker.line for worker in doing])
            for worker in [worker for worker in doing if worker.line in ready]:
                results[doing.pop(worker)] = worker.take()
                if waiting:
                    doing[worker] = waiting.pop()
                    worker.give(tasks[doing[worker]], memories[doing[worker]])
        return stack_results([results[index] for index in range(len(tasks))])

    def close(self) -> None:
        """End the workers."""
        if self._workers:
            self._news.close()
        for worker in self._workers:
            worker.dismiss()
        self._workers = []


class Worker:
    """A forked process, seen from the one that hired it."""

    def __init__(self, work: Workplace, news: Slab, others: Sequence[Worker]) -> None:
        context = multiprocessing.get_context("fork")
        self.line, theirs = context.Pipe()
        self._to, self._from = Slab(), Slab()
        ours = [*(other.line for other in others), self.line]
        self._process: ForkProcess = context.Process(
            target=_serve, args=(work, theirs, ours, news, self._to, self._from), daemon=True
        )
        self._process.start()
        theirs.close()

    def tell(self, news: dict[str, Any]) -> None:
        self.line.send_bytes(json.dumps({"news": news}).encode())

    def give(self, task: Task, memory: Memory) -> None:
        job = {"client": task.client, "knobs": dict(task.knobs), "places": self._to.write(memory)}
        self.line.send_bytes(json.dumps({"job": job}).encode())

    def take(self) -> Result:
        tree = self._from.read(as_places(json.loads(self.line.recv_bytes())))
        return Result(
            tree["delta"],
            tree.get("buffers", {}),
            tree.get("upload", {}),
            tree.get("memory", {}),
            tree["loss"],
        )

    def dismiss(self) -> None:
        # Said aloud: another simulation's workers may hold a copy of this line, so that closing it would not be noticed.
        with suppress(*LOST):
            self.line.send_bytes(json.dumps({"end": True}).encode())
        self.line.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._to.close()
        self._from.close()


def can_fork() -> bool:
    """Whether workers can be forked: beside a GPU, autograd keeps threads that a fork would break."""
    return hasattr(os, "memfd_create") and not torch.cuda.is_available()


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _serve(
    work: Workplace, line: Connection, inherited: Sequence[Connection], news: Slab, to: Slab, back: Slab
) -> None:
    """A worker's life: jobs until the line closes. Inherited ends are closed so that it notices."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _keep_memory()
    torch.set_num_threads(1)
    for end in inherited:
        end.close()
    broadcast: Broadcast | None = None
    try:
        while True:
            message = json.loads(line.recv_bytes())
            if "end" in message:
                return
            if "news" in message:
                broadcast = _read_news(message["news"], news)
            elif broadcast is not None:
                job = message["job"]
                result = train_task(
                    work, Task(job["client"], job["knobs"]), to.read(as_places(job["places"])), broadcast
                )
                line.send_bytes(json.dumps(back.write(result._asdict())).encode())
    except LOST:
        return


def _read_news(news: dict[str, Any], slab: Slab) -> Broadcast:
    tree: Tree = slab.read(as_places(news["places"]))
    return Broadcast(
        news["round"], news["lr"], tree["params"], tree.get("buffers", {}), tree.get("shared", {})
    )


def _keep_memory() -> None:
    """Keep freed memory: by default the same pages are given back and zeroed again in every step."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, KEEP)
        mallopt(TRIM_THRESHOLD, KEEP)
