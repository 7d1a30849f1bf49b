"""Clients in worker processes, one thread each: the loop engine on all cores, with the same result.

Workers are forked, so they see the data and the method without copies; what travels is trees as safetensors bytes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, NamedTuple

import torch

from counterpoise.client import Broadcast, Result
from counterpoise.core.codec import decode, encode
from counterpoise.core.part import Task
from counterpoise.core.tree import Tree
from counterpoise.engines.loop import stack_results, train_task
from counterpoise.engines.workplace import Memory, Workplace
from counterpoise.errors import RunError


class Worker(NamedTuple):
    process: ForkProcess
    line: Connection


class ProcessTrainer:
    """Hands each task to the next idle worker; results are put back in the order of the tasks."""

    def __init__(self, work: Workplace, processes: int) -> None:
        self._workers: list[Worker] = []
        for _ in range(processes):
            self._workers.append(_hire(work, [worker.line for worker in self._workers]))

    def __call__(self, tasks: Sequence[Task], memories: Sequence[Memory], broadcast: Broadcast) -> Result:
        announcement = _pack(
            {"round": broadcast.round, "lr": broadcast.lr},
            {"params": broadcast.params, "buffers": broadcast.buffers, "shared": broadcast.shared},
        )
        jobs = [
            _pack({"client": task.client, "knobs": dict(task.knobs)}, {"memory": memory})
            for task, memory in zip(tasks, memories, strict=True)
        ]
        try:
            return self._share_out(announcement, jobs)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise RunError(
                "a worker process ended while it trained a client (out of memory?); engine.processes = 1 needs the least"
            ) from None

    def _share_out(self, announcement: bytes, jobs: list[bytes]) -> Result:
        waiting = list(range(len(jobs)))[::-1]
        doing: dict[Connection, int] = {}
        results: dict[int, Result] = {}
        for _, line in self._workers[: len(jobs)]:
            line.send_bytes(announcement)
            doing[line] = waiting.pop()
            line.send_bytes(jobs[doing[line]])
        while doing:
            for line in [line for line in wait(list(doing)) if isinstance(line, Connection)]:
                results[doing.pop(line)] = _read_result(line.recv_bytes())
                if waiting:
                    doing[line] = waiting.pop()
                    line.send_bytes(jobs[doing[line]])
        for _, line in self._workers[: len(jobs)]:
            line.send_bytes(b"")
        return stack_results([results[index] for index in range(len(jobs))])

    def close(self) -> None:
        """End the workers."""
        for process, line in self._workers:
            line.close()
            process.join(timeout=5)
        self._workers = []


def can_fork() -> bool:
    """Whether workers can be forked: beside a GPU, autograd keeps threads that a fork would break."""
    return "fork" in multiprocessing.get_all_start_methods() and not torch.cuda.is_available()


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _hire(work: Workplace, others: Sequence[Connection]) -> Worker:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs, [*others, ours]), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)


def _serve(work: Workplace, line: Connection, inherited: Sequence[Connection]) -> None:
    """A worker's life: rounds until the line closes. Inherited ends are closed so that it notices."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    for end in inherited:
        end.close()
    try:
        while True:
            header, tree = _unpack(line.recv_bytes())
            broadcast = Broadcast(
                header["round"], header["lr"], tree["params"], tree.get("buffers", {}), tree.get("shared", {})
            )
            while job := line.recv_bytes():
                header, tree = _unpack(job)
                result = train_task(
                    work, Task(header["client"], header["knobs"]), tree.get("memory", {}), broadcast
                )
                line.send_bytes(_pack({}, result._asdict()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _pack(header: Mapping[str, Any], tree: Tree) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "big") + text + encode(tree)


def _unpack(message: bytes) -> tuple[dict[str, Any], Tree]:
    size = int.from_bytes(message[:4], "big")
    return json.loads(message[4 : 4 + size]), decode(message[4 + size :])


def _read_result(message: bytes) -> Result:
    _, tree = _unpack(message)
    return Result(
        tree["delta"], tree.get("buffers", {}), tree.get("upload", {}), tree.get("memory", {}), tree["loss"]
    )
