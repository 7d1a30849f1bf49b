"""Seconds of federated rounds on a CPU: a careful plain loop against the engines, interleaved, each in its own process.

    python benchmarks/cpu.py [--workloads W1,W2] [--repeat 3] [--rounds N]

W1: 100 clients of 204 x 784, MLP 784-200-100-10, 10 clients a round, 5 epochs, batch 50, SGD 0.1, 50 rounds.
W2: 20 clients of 500 x 3x32x32, three 3x3 convolutions 64-64-128, 4 clients a round, 1 epoch, batch 50, SGD 0.01, 3 rounds.
Data is drawn; nothing is evaluated; start-up is not counted. Ratios are against `raw` of the same repetition.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Workload:
    clients: int
    samples: int
    shape: tuple[int, ...]
    cohort: int
    epochs: int
    lr: float
    rounds: int
    batch: int = 50

    def data(self) -> tuple[Tensor, Tensor]:
        """Noisy class means [clients, samples, ...] and labels."""
        stream = torch.Generator().manual_seed(7)
        means = torch.randn(10, *self.shape, generator=stream) * 0.15
        y = torch.randint(0, 10, (self.clients, self.samples), generator=stream)
        return torch.randn(self.clients, self.samples, *self.shape, generator=stream) + means[y], y

    def cohorts(self) -> list[list[int]]:
        stream = torch.Generator().manual_seed(11)
        return [
            sorted(torch.randperm(self.clients, generator=stream)[: self.cohort].tolist())
            for _ in range(self.rounds)
        ]

    def model(self) -> nn.Module:
        if self.shape == (784,):
            return nn.Sequential(
                nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)
            )
        convolutions = [
            *(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()),
        ]
        return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(128 * 16 * 16, 10))


WORKLOADS = {
    "W1": Workload(100, 204, (784,), 10, 5, 0.1, 50),
    "W2": Workload(20, 500, (3, 32, 32), 4, 1, 0.01, 3),
}
ENTRIES = ("raw", "fedavg", "scaffold", "fedcm", "fedavg stacked")


def raw(work: Workload) -> Callable[[], None]:
    """One process, one thread, no framework."""
    x, y = work.data()
    server = work.model()

    def train(client: int) -> dict[str, Tensor]:
        net = copy.deepcopy(server)
        optimizer = torch.optim.SGD(net.parameters(), lr=work.lr)
        for _ in range(work.epochs):
            for batch in torch.randperm(work.samples).split(work.batch):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(x[client][batch]), y[client][batch]).backward()
                optimizer.step()
        return net.state_dict()

    def run() -> None:
        for cohort in work.cohorts():
            states = [train(client) for client in cohort]
            server.load_state_dict({key: sum(s[key] for s in states) / len(states) for key in states[0]})

    return run


def ours(work: Workload, method: str, engine: str) -> Callable[[], None]:
    """The same rounds by an engine of ours."""
    from counterpoise.core.local import Local
    from counterpoise.core.part import Task
    from counterpoise.data.dataset import Samples, no_scaling
    from counterpoise.data.federation import Federation
    from counterpoise.engines.choose import EngineSettings
    from counterpoise.rounds import one_exchange
    from counterpoise.simulation import build_simulation

    x, y = (tensor.flatten(0, 1) for tensor in work.data())
    rows = tuple(torch.arange(len(y)).view(work.clients, -1))
    federation = Federation(Samples(x, y), Samples(x[:10], y[:10]), tuple("0123456789"), no_scaling(), rows)
    local = Local(lr=work.lr, batch_size=work.batch, epochs=work.epochs)
    settings = EngineSettings("stacked" if engine == "stacked" else "auto", "cpu")
    simulation = build_simulation(
        federation, method, work.model(), rounds=work.rounds, local=local, cohort=work.cohort, engine=settings
    )

    def run() -> None:
        state = simulation.open()
        for cohort in work.cohorts():
            tasks = [Task(client) for client in cohort]
            state, _ = one_exchange(simulation.method, state, simulation.engine, tasks, work.lr, work.clients)
        simulation.close()

    return run


def time_entry(entry: str, work: Workload) -> float:
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)  # its lazy imports are start-up
    method, _, engine = entry.partition(" ")
    run = raw(work) if entry == "raw" else ours(work, method, engine)
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def measure(workload: str, entries: list[str], repeat: int, rounds: int | None) -> None:
    seconds: dict[str, list[float]] = {entry: [] for entry in entries}
    for _ in range(repeat):
        for entry in entries:
            words = [
                sys.executable,
                __file__,
                "--one",
                entry,
                "--workloads",
                workload,
                *(["--rounds", str(rounds)] if rounds else []),
            ]
            done = subprocess.run(
                words, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
            seconds[entry].append(json.loads(done.stdout))
    print(f"{workload}: medians of {repeat} on {os.cpu_count()} cores, torch {torch.__version__}")
    for entry, times in seconds.items():
        ratio = statistics.median(mine / base for mine, base in zip(times, seconds["raw"], strict=True))
        print(f"  {entry:<16} {statistics.median(times):8.2f} s   {ratio:.2f} of raw", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--workloads", default="W1,W2")
    options.add_argument("--entries", default=",".join(ENTRIES))
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--rounds", type=int)
    options.add_argument("--one", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    for name in chosen.workloads.split(","):
        work = (
            WORKLOADS[name]
            if chosen.rounds is None
            else Workload(**{**vars(WORKLOADS[name]), "rounds": chosen.rounds})
        )
        if chosen.one:
            print(json.dumps(time_entry(chosen.one, work)))
        else:
            measure(name, chosen.entries.split(","), chosen.repeat, chosen.rounds)


if __name__ == "__main__":
    main()
