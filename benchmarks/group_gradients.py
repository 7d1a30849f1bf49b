"""What a step with group gradients costs next to one of FedAvg: the same rounds in one process, taken in turns.

    python benchmarks/group_gradients.py [--workloads mlp,convnet] [--repeat 9] [--engine loop]

mlp: 784-200-200-10 (Fashion-MNIST), 4 clients of 800 samples, batch 50. convnet: the ConvNet of paper 002 on 3x32x32, 2
clients of 100 samples, batch 50. Data is drawn with a long tail of 20 to 1; one thread; nothing is resampled, so all
methods take the same steps, and freed memory is kept as in a worker process. Seconds are of the processor, so that
other work on the machine counts little; ratios are against `fedavg` of the same turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from counterpoise.core.local import Local
from counterpoise.core.messages import Task
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.build import build_simulation
from counterpoise.system.allocator import keep_memory

CLASSES, IMBALANCE = 10, 20.0
METHODS = {
    "fedavg": "fedavg",
    "fedcgn": "fedcgn",
    "fedcgnm": "fedcgnm",
    "fedcgnm, 4 groups": {"fedcgnm": {"groups": 4}},
    "pcn, 10 classes": "pcn",
}


class Workload(NamedTuple):
    model: str
    shape: tuple[int, ...]
    clients: int
    samples: int


WORKLOADS = {
    "mlp": Workload("mlp_001", (784,), 4, 800),
    "convnet": Workload("convnet", (3, 32, 32), 2, 100),
}


def federation_of(work: Workload) -> Federation:
    stream = torch.Generator().manual_seed(7)
    chance = IMBALANCE ** (-torch.arange(CLASSES) / (CLASSES - 1))
    y = torch.multinomial(chance, work.clients * work.samples, replacement=True, generator=stream)
    samples = Samples(torch.randn(len(y), *work.shape, generator=stream), y)
    rows = tuple(torch.arange(len(y)).view(work.clients, -1))
    return Federation(samples, samples, tuple(map(str, range(CLASSES))), no_scaling(), rows)


def round_of(work: Workload, federation: Federation, method: object, engine: str) -> Callable[[], None]:
    settings = EngineSettings(engine, "cpu", processes=1)  # type: ignore[arg-type]
    simulation = build_simulation(
        federation, method, work.model, rounds=1, local=Local(lr=0.01, batch_size=50), engine=settings  # type: ignore[arg-type]
    )  # fmt: skip
    state, tasks = simulation.open(), [Task(client) for client in range(work.clients)]
    return lambda: void(simulation.advance(state, tasks))


def void(value: object) -> None:
    """Nothing is kept of a round."""


def seconds(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def measure(name: str, repeat: int, engine: str) -> None:
    federation = federation_of(WORKLOADS[name])
    runs = {key: round_of(WORKLOADS[name], federation, spec, engine) for key, spec in METHODS.items()}
    turns = [{key: seconds(run) for key, run in runs.items()} for _ in range(repeat + 1)][1:]
    print(f"{name}, {engine} engine: medians of {repeat} turns on one thread, torch {torch.__version__}")
    for key in METHODS:
        ratio = statistics.median(turn[key] / turn["fedavg"] for turn in turns)
        print(f"  {key:<18} {statistics.median(turn[key] for turn in turns):7.3f} s   {ratio:.2f} of fedavg")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--workloads", default=",".join(WORKLOADS))
    options.add_argument("--repeat", type=int, default=9)
    options.add_argument("--engine", default="loop", choices=["loop", "stacked"])
    chosen = options.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    for name in chosen.workloads.split(","):
        measure(name, chosen.repeat, chosen.engine)


if __name__ == "__main__":
    main()
