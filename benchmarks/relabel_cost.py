"""What the re-labelling pass of FedReLa costs next to a training round: the same rounds in one process, taken in turns.

    COUNTERPOISE_DATA=~/data python benchmarks/relabel_cost.py [--model mlp] [--epochs 1] [--repeat 21]

Fashion-MNIST, three of ten classes with a twentieth of the samples, 100 clients by Dirichlet 0.3, of which the same 10 train in every
round, batch 32. Loop engine, one thread. Seconds are of the processor, so that other work on the machine counts
little; shares are of a `fedavg` round of the same turn.
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

CLIENTS, COHORT = 100, 10
STEP = {"step": {"factor": 20.0, "share": 0.3, "ids": "climb"}}
RELABEL = {"fedrela": {"at": 1}}
FEDAVG, PASS, LATER = "fedavg", "fedrela, the round that re-labels", "fedrela, a later round"


class Round:
    """The second round of one method as often as it is asked for."""

    def __init__(self, federation: Federation, method: Any, model: str, epochs: int) -> None:
        local = Local(lr=0.01, batch_size=32, epochs=epochs)
        engine = EngineSettings("loop", "cpu", processes=1)
        self.sim = build_simulation(federation, method, model, rounds=2, local=local, engine=engine)
        self.tasks = [Task(client) for client in range(COHORT)]
        self.state, _ = self.sim.advance(self.sim.open(), self.tasks)

    def seconds(self, forget: bool) -> float:
        """Of the processor; clients that forget re-label anew."""
        if forget:
            self.sim.engine.memory.clear()
        began = time.process_time()
        self.sim.advance(self.state, self.tasks)
        return time.process_time() - began


def measure(model: str, epochs: int, repeat: int) -> None:
    """Prints medians and quartiles; a first turn warms up."""
    data = load_data("fashion_mnist", imbalance=STEP)
    federation = split_federation(data, "dirichlet", CLIENTS, seed=0, alpha=0.3)
    plain, relabel = (Round(federation, method, model, epochs) for method in (FEDAVG, RELABEL))
    rounds = {FEDAVG: (plain, False), PASS: (relabel, True), LATER: (relabel, False)}
    turns = [{name: one.seconds(forget) for name, (one, forget) in rounds.items()} for _ in range(repeat + 1)]
    for name in rounds:
        _print(name, [turn[name] for turn in turns[1:]], [turn[name] / turn[FEDAVG] for turn in turns[1:]])
    extra = [turn[PASS] - turn[LATER] for turn in turns[1:]]
    _print("the pass", extra, [more / turn[FEDAVG] for more, turn in zip(extra, turns[1:], strict=True)])


def _print(name: str, seconds: list[float], shares: list[float]) -> None:
    low, middle, high = statistics.quantiles(shares, n=4)
    print(f"{name:36} {1e3 * statistics.median(seconds):8.1f} ms {middle:6.2f} x ({low:.2f} to {high:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=21)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    print(f"{given.model}, {given.epochs} epochs, medians of {given.repeat}", flush=True)
    measure(given.model, given.epochs, given.repeat)


if __name__ == "__main__":
    main()
