"""Runs that kill themselves at the n-th call that touches their folder, then runs that go on; one JSON line each.

Arguments: experiment file, folder for the runs, numbers of calls; the number 0 counts the calls of a whole run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from counterpoise.run import runner
from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.store.folder import RunFolder

EVENTS = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir")


def die(path: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    """Acts at the n-th call that opens, renames, removes, cuts or syncs something of the run, and at those after it."""

    def __init__(self, folder: Path, last: int, act: Callable[[str], None] = die) -> None:
        self.folder, self.last, self.act = str(folder), last, act
        self.seen: list[str] = []  # the calls so far, each with its path
        sync = os.fsync

        def counted_sync(handle: Any) -> None:
            self.count("os.fsync", os.readlink(f"/proc/self/fd/{handle}"))
            sync(handle)

        mock.patch.object(os, "fsync", counted_sync).start()
        sys.addaudithook(self.hear)

    @property
    def calls(self) -> int:
        return len(self.seen)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and str(arguments[0]).startswith(self.folder):
            self.count(event, str(arguments[0]))

    def count(self, event: str, path: str) -> None:
        self.seen.append(f"{event} {path}")
        if 0 < self.last <= self.calls:
            self.act(path)


def in_a_child(work: Any) -> tuple[bool, Any]:
    """Whether a forked process ended by itself, and what it said."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, json.dumps(work()).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as stream:
        said = stream.read()
    return not os.WIFSIGNALED(status), json.loads(said) if said else None


def run_until(experiment: Path, folder: Path, last: int) -> int:
    countdown = Countdown(folder, last)
    runner.start(load_experiment(experiment), folder)
    return countdown.calls


def go_on(experiment: Path, folder: Path) -> dict[str, Any]:
    """What is there after the kill, and what the run comes to."""
    holds_run = RunFolder(folder).holds_run()
    rows = (folder / "metrics.jsonl").read_bytes().count(b"\n") if (folder / "metrics.jsonl").exists() else 0
    known = [int(path.stem[6:]) for path in (folder / "checkpoints").glob("round-*.json")]
    summary = runner.resume(folder) if holds_run else runner.start(load_experiment(experiment), folder)
    left = [path.name for path in folder.rglob(".partial-*")]
    return summary | {"left": left, "rows_at_kill": rows, "checkpoint_at_kill": max(known, default=0)}


def main() -> None:
    experiment, base, *numbers = sys.argv[1:]
    torch.set_num_threads(1)
    assemble(load_experiment(Path(experiment))).close()  # so that not every child imports what this needs
    for number in map(int, numbers):
        folder = Path(base) / str(number)
        finished, calls = in_a_child(lambda: run_until(Path(experiment), folder, number))  # noqa: B023
        _, summary = in_a_child(lambda: go_on(Path(experiment), folder))  # noqa: B023
        print(
            json.dumps({"number": number, "killed": not finished, "calls": calls, "summary": summary}),
            flush=True,
        )


if __name__ == "__main__":
    main()
