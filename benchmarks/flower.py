"""Seconds and bytes a round: one process, Flower's simulation, and a deployment with TLS on this machine.

python benchmarks/flower.py [--clients 4] [--rounds 4] [--out bench-flower]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counterpoise.engines.flower import commands
from counterpoise.engines.flower.job import JobFolder
from counterpoise.experiment.config import Experiment, make_experiment
from counterpoise.experiment.folder import RunFolder, read_rows
from counterpoise.experiment.runner import start

WAYS: dict[str, Callable[[Experiment, Path], dict[str, Any]]] = {
    "one process": start,
    "simulation": commands.simulate,
    "deployment": commands.up,
}
HEAD = """| | s a round | s in all | bytes to a client | bytes from a client | parameters' SHA-256 |
| --- | --- | --- | --- | --- | --- |"""


def setting(clients: int, rounds: int) -> Experiment:
    return make_experiment(
        {
            "rounds": rounds,
            "method": "scaffold",
            "data": {"name": "digits", "imbalance": 20.0},
            "partition": {"name": "dirichlet", "clients": clients, "alpha": 0.5},
            "engine": {"name": "loop", "device": "cpu", "processes": 1},
        }
    )


def measure(way: str, config: Experiment, out: Path) -> str:
    """One row of the table: the median round but for the first, and tensors' bytes a client and round."""
    began = time.perf_counter()
    summary = WAYS[way](config, out)
    whole = time.perf_counter() - began
    seconds = [row["seconds"] for row in read_rows(RunFolder(out).timing)]
    asked = config.rounds * config.partition.clients
    traffic = [row for row in read_rows(JobFolder(out).traffic) if row["round"] == config.rounds - 1]
    there, back = (traffic[0][f"{way}_bytes"] // asked if traffic else 0 for way in ("sent", "received"))
    median = statistics.median(seconds[1:] or seconds)
    return (
        f"| {way} | {median:.3g} | {whole:.3g} | {there:,} | {back:,} | `{summary['params_sha256'][:12]}` |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("bench-flower"))
    given = parser.parse_args()
    print(HEAD, flush=True)
    for way in WAYS:
        row = measure(
            way, setting(given.clients, given.rounds), given.out / f"{time.time_ns()}-{way.replace(' ', '-')}"
        )
        print(row, flush=True)


if __name__ == "__main__":
    main()
