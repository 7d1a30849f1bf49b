"""Runs whose disk fails at the n-th call that touches their folder, then runs that go on; one JSON line each.

Arguments: experiment file, folder for the runs, fault, number of moments. Faults: `full`, a file system of the folder's
own that has no room left from then on; `dead`, every call from then on is an input/output error; `hiccup`, one call is.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from kill_at_call import Countdown, in_a_child
from runs import call, read_summary, rounds_done

from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.store.checkpoint import CheckpointStore

ROOM = 16 << 20  # bytes


def mount(base: Path) -> None:
    """A small file system, seen by this process and its children alone."""
    base.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", base], check=True)


def fill(base: Path) -> None:
    """Take all the room that is left, to the last byte."""
    with (base / "filler").open("ab", buffering=0) as stream:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while stream.write(bytes(size)):
                    pass


def fail(path: str) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), path)


class Hiccup:
    """Fails once."""

    def __init__(self) -> None:
        self.over = False

    def __call__(self, path: str) -> None:
        if not self.over:
            self.over = True
            fail(path)


def act_of(fault: str, base: Path) -> Callable[[str], None]:
    return {"full": lambda _: fill(base), "dead": fail, "hiccup": Hiccup()}[fault]


def run_until(experiment: Path, folder: Path, last: int, act: Callable[[str], None]) -> dict[str, Any]:
    countdown = Countdown(folder, last, act)
    finished = call("run", experiment, "--out", folder)
    return {**finished._asdict(), "out": "", "seen": countdown.seen}


def temporaries(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".partial-*")]


def look(folder: Path) -> dict[str, Any]:
    """What the fault left: rows, files half written, and the newest checkpoint as a resume would find it."""
    rows, left = rounds_done(folder), temporaries(folder)
    store = CheckpointStore(folder / "checkpoints")
    found = store.load()
    return {"rows": rows, "left": left, "damaged": store.damaged, "checkpoint": found.round if found else 0}


def go_on(folder: Path) -> dict[str, Any]:
    finished = call("resume", folder)
    return {"code": finished.code, "left": temporaries(folder), "summary": read_summary(folder)}


def moments(seen: list[str], count: int) -> list[int]:
    """Numbers of calls spread over the writing of all checkpoints but the first."""
    first = next(n for n, what in enumerate(seen) if "os.rename" in what and "round-00000001.json" in what)
    # To make a folder that is there is refused in any case, and nobody minds.
    calls = [n for n, what in enumerate(seen, 1) if "/checkpoints" in what and "os.mkdir" not in what]
    calls = [n for n in calls if n > first + 1]
    return [calls[(2 * place + 1) * len(calls) // (2 * count)] for place in range(count)]


def main() -> None:
    experiment, base, fault, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    mount(base) if fault == "full" else base.mkdir()
    torch.set_num_threads(1)
    assemble(load_experiment(experiment)).close()  # so that not every child imports what this needs
    whole = base / "whole"
    _, said = in_a_child(lambda: run_until(experiment, whole, 0, fail))
    print(json.dumps({"summary": read_summary(whole), "calls": len(said["seen"])}), flush=True)
    for number in moments(said["seen"], count):
        folder, act = base / str(number), act_of(fault, base)
        _, ended = in_a_child(lambda: run_until(experiment, folder, number, act))  # noqa: B023
        (base / "filler").unlink(missing_ok=True)
        found, (_, after) = look(folder), in_a_child(lambda: go_on(folder))  # noqa: B023
        moment = ended.pop("seen")[number - 1]
        print(json.dumps({"moment": moment, "ended": ended, "found": found, "after": after}), flush=True)


if __name__ == "__main__":
    main()
