"""Clients in worker processes, one thread each: the loop engine on all cores, with the same result.

Workers are forked, so they see the data and the method without copies. Trees are passed through shared
memory, and a JSON message says where each tensor lies.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, NamedTuple

import torch
from torch import Tensor

from counterpoise.core.messages import Broadcast, Result, Task
from counterpoise.core.tree import SEPARATOR, bytes_of, unflatten
from counterpoise.engines.loop import train_task
from counterpoise.engines.memories import Memory
from counterpoise.engines.opening import Workload
from counterpoise.engines.slab import Slab, as_places
from counterpoise.engines.workplace import Workplace, check_replies_fit
from counterpoise.errors import RunError, is_out_of_memory
from counterpoise.system.allocator import keep_memory

LOST = (EOFError, BrokenPipeError, ConnectionResetError)
PRIVATE = f"private{SEPARATOR}"  # how paths of memory begin that does not stack
DEPTH = 2  # jobs that a worker has at a time


class ProcessTrainer:
    """Hands each task to the first free worker; results are stacked in the order of the tasks."""

    def __init__(self, work: Workplace, processes: int) -> None:
        self._broadcast = Slab()
        self._workers: list[Worker] = []
        for _ in range(processes):
            self._workers.append(Worker(work, self._broadcast, self._workers))

    def train(self, loads: Sequence[Workload]) -> list[Result]:
        return [self._train(load.tasks, load.memories, load.broadcast) for load in loads]

    def _train(self, tasks: Sequence[Task], memories: Sequence[Memory], broadcast: Broadcast) -> Result:
        places = self._broadcast.write(broadcast.to_tree())
        sent = {"round": broadcast.round, "lr": broadcast.lr, "places": places}
        try:
            return self._distribute(tasks, memories, sent)
        except LOST:
            raise RunError(
                "a worker process ended while it trained a client (out of memory?); engine.processes = 1 needs the least memory"
            ) from None

    def _distribute(self, tasks: Sequence[Task], memories: Sequence[Memory], sent: dict[str, Any]) -> Result:
        waiting, stacked = deque(range(len(tasks))), dict[str, Tensor]()
        private: list[Memory] = [{} for _ in tasks]
        active = self._workers[: len(tasks)]

        def submit(worker: Worker) -> None:
            if waiting:
                index = waiting.popleft()
                worker.submit(index, tasks[index], memories[index])

        for worker in active:
            worker.send(sent)
        for worker in active * DEPTH:  # a second job, so that no worker idles while a result is fetched
            submit(worker)
        while busy := [worker for worker in active if worker.jobs]:
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                worker.fetch(stacked, private)
                submit(worker)
        return Result.from_tree(unflatten(stacked))._replace(private=tuple(private))

    def close(self) -> None:
        """End the workers."""
        if self._workers:
            self._broadcast.close()
        for worker in self._workers:
            worker.stop()
        self._workers = []


class Channel(NamedTuple):
    """Shared memory for a job to a worker, and for its result."""

    to: Slab
    back: Slab


class Worker:
    """A forked process, seen from the one that started it."""

    def __init__(self, work: Workplace, sent: Slab, others: Sequence[Worker]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.jobs: deque[int] = deque()  # rows of the results to come, the next one first
        self._slabs = [Channel(Slab(), Slab()) for _ in range(DEPTH)]
        self._given = 0
        ours = [*(other.pipe for other in others), self.pipe]
        self._process: ForkProcess = context.Process(
            target=_serve, args=(work, theirs, ours, sent, self._slabs), daemon=True
        )
        self._process.start()
        theirs.close()

    def send(self, sent: dict[str, Any]) -> None:
        self.pipe.send_bytes(json.dumps({"sent": sent}).encode())

    def submit(self, row: int, task: Task, memory: Memory) -> None:
        slab = self._given % DEPTH
        places = self._slabs[slab].to.write(memory)
        job = {"client": task.client, "knobs": dict(task.knobs), "places": places, "slab": slab}
        self.pipe.send_bytes(json.dumps({"job": job}).encode())
        self.jobs.append(row)
        self._given += 1

    def fetch(self, stacked: dict[str, Tensor], private: list[Memory]) -> None:
        """Copy the result that is ready into its row of the stacked ones, which the first result lays out."""
        answer, row = json.loads(self.pipe.recv_bytes()), self.jobs.popleft()
        slab, places = self._slabs[answer["slab"]].back, as_places(answer["places"])
        result, own = slab.view(places), {}
        for path in [path for path in result if path.startswith(PRIVATE)]:
            own[path.removeprefix(PRIVATE)] = result.pop(path).clone()
        private[row] = unflatten(own)
        if not stacked:
            check_replies_fit(len(private), bytes_of(result))
        for path, leaf in result.items():
            if path not in stacked:
                stacked[path] = leaf.new_empty(len(private), *leaf.shape)
            stacked[path][row].copy_(leaf)

    def stop(self) -> None:
        # Another simulation's workers may hold a copy of this pipe, so that closing it would not be noticed.
        with suppress(*LOST):
            self.pipe.send_bytes(json.dumps({"end": True}).encode())
        self.pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        for slabs in self._slabs:
            slabs.to.close()
            slabs.back.close()


def can_fork() -> bool:
    """Whether workers can be forked: beside a GPU, autograd keeps threads that a fork would break."""
    return hasattr(os, "memfd_create") and not torch.cuda.is_available()


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _serve(
    work: Workplace,
    pipe: Connection,
    inherited: Sequence[Connection],
    sent: Slab,
    slabs: Sequence[Channel],
) -> None:
    """A worker's loop: jobs until the pipe closes. Inherited ends are closed so that it notices."""
    # A terminal sends them to the whole group: the parent decides
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_memory()
    torch.set_num_threads(1)
    for end in inherited:
        end.close()
    broadcast: Broadcast | None = None
    try:
        while True:
            message = json.loads(pipe.recv_bytes())
            if "end" in message:
                return
            if "sent" in message:
                broadcast = _read_broadcast(message["sent"], sent)
            elif broadcast is not None:
                job = message["job"]
                to, back = slabs[job["slab"]]
                memory = to.read(as_places(job["places"]))
                result = train_task(work, Task(job["client"], job["knobs"]), memory, broadcast)
                tree = result.to_tree() | {"private": result.private[0]}
                answer = {"slab": job["slab"], "places": back.write(tree)}
                pipe.send_bytes(json.dumps(answer).encode())
    except LOST:
        return
    except Exception as error:
        if not is_out_of_memory(error):  # the parent notices the exit and reports it in one line
            raise


def _read_broadcast(sent: dict[str, Any], slab: Slab) -> Broadcast:
    return Broadcast.from_tree(sent["round"], sent["lr"], slab.read(as_places(sent["places"])))
