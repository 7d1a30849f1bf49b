"""What a round of FedSat costs next to one of SCAFFOLD: the same rounds in one process, taken in turns.

    COUNTERPOISE_DATA=~/data python benchmarks/fedsat_cost.py [--epochs 5] [--repeat 3]

LeNet-5 on MNIST, 100 clients by label skew, of which the same 10 train in every round, batch 16; each keeps a tenth for
validation. Loop engine, one thread. Seconds are of the processor, so that other work on the machine counts little;
multiples are against `scaffold` of the same turn, with their quartiles. Megabytes are of tensors, to and from all clients, judging included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from counterpoise.core.local import Local
from counterpoise.core.messages import Task
from counterpoise.data.federation import Federation
from counterpoise.data.prepare import load_data, split_federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.build import build_simulation
from counterpoise.system.allocator import keep_memory

CLIENTS, COHORT, BASELINE = 100, 10, "scaffold"
METHODS: dict[str, Any] = {
    BASELINE: "scaffold",
    "fedavg": "fedavg",
    "Base": {"fedsat": {"sensitive": False, "prioritised": False}},
    "Base + PSL": {"fedsat": {"prioritised": False}},
    "fedsat, w = 1": {"fedsat": {"workers": 1}},
    "fedsat, w = 7": {"fedsat": {"workers": 7}},
    "fedsat, w = 15": "fedsat",
}


class Round:
    """The same round of one method as often as it is asked for."""

    def __init__(self, federation: Federation, method: Any, epochs: int) -> None:
        local = Local(lr=0.01, batch_size=16, epochs=epochs, batching="drop")
        engine = EngineSettings("loop", "cpu", processes=1)
        self.sim = build_simulation(federation, method, "lenet5", rounds=1, local=local, engine=engine)
        self.state = self.sim.open()
        self.tasks = [Task(client) for client in range(COHORT)]

    def cost(self) -> tuple[float, float]:
        """Processor seconds and megabytes."""
        began = time.process_time()
        _, outcome = self.sim.advance(self.state, self.tasks)
        return time.process_time() - began, (outcome.bytes_down + outcome.bytes_up) / 1e6


def measure(epochs: int, repeat: int) -> None:
    federation = split_federation(load_data("mnist"), "label_skew", CLIENTS, seed=0, validation=0.1)
    rounds = {name: Round(federation, method, epochs) for name, method in METHODS.items()}
    for warm in rounds.values():
        warm.cost()
    turns = [{name: one.cost() for name, one in rounds.items()} for _ in range(repeat)]
    print(f"{epochs} epochs, median of {repeat}", flush=True)
    for name in METHODS:
        seconds, sent = (statistics.median(turn[name][what] for turn in turns) for what in (0, 1))
        slower, more = ([turn[name][what] / turn[BASELINE][what] for turn in turns] for what in (0, 1))
        low, middle, high = statistics.quantiles(slower, n=4)
        times = f"{seconds:7.2f} s {middle:6.2f} x ({low:.2f} to {high:.2f})"
        print(f"{name:16} {times}   {sent:8.2f} MB {statistics.median(more):6.2f} x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    measure(given.epochs, given.repeat)


if __name__ == "__main__":
    main()
