"""What a round of a method costs next to one of FedAvg: rounds in one process, taken in turns.

    python benchmarks/method_cost.py [--workload W1] [--clients 10] [--repeat 15] [--methods moon,fedavg+dp]

The workloads are those of benchmarks/cpu.py, with so many clients in a round. Loop engine, one thread. Seconds are of the
processor, so that other work on the machine counts little; multiples are against `fedavg` of the same turn. Every round is
the last one of its run, in which ccvr does its work.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import torch
from workloads import WORKLOADS, Workload, simulate

from counterpoise.core.messages import Task
from counterpoise.system.allocator import keep_memory

BASELINE = "fedavg"
METHODS = "scaffold,moon,fedrod,ditto,fedavg+dp,fedwcm,fedbal,fedsat,fedavg+ccvr"


class Round:
    """The same round of one method as often as it is asked for."""

    def __init__(self, work: Workload, method: str) -> None:
        self.sim = simulate(work, method, {"name": "loop", "processes": 1})
        self.state = self.sim.open()
        self.tasks = [Task(client) for client in range(work.cohort)]

    def seconds(self) -> float:
        began = time.process_time()
        self.sim.advance(self.state, self.tasks)
        return time.process_time() - began


def measure(work: Workload, methods: list[str], repeat: int) -> None:
    """Prints medians; a first turn warms up."""
    rounds = {name: Round(work, name) for name in dict.fromkeys([BASELINE, *methods])}
    turns = [{name: one.seconds() for name, one in rounds.items()} for _ in range(repeat + 1)][1:]
    for name in rounds:
        times = sorted(turn[name] / turn[BASELINE] for turn in turns)
        low, high = times[repeat // 4], times[-1 - repeat // 4]
        seconds = statistics.median(turn[name] for turn in turns)
        print(
            f"{name:16} {1e3 * seconds:8.1f} ms {statistics.median(times):6.2f} x ({low:.2f} to {high:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, default="W1")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--methods", default=METHODS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    work = replace(WORKLOADS[given.workload], cohort=given.clients, rounds=1)
    print(f"{given.workload}, {given.clients} clients in a round, medians of {given.repeat}", flush=True)
    measure(work, given.methods.split(","), given.repeat)


if __name__ == "__main__":
    main()
