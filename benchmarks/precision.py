"""Rounds in bfloat16 next to the same in float32, on a CPU: one client, one process, one thread, taken in turns.

    python benchmarks/precision.py [--steps 4] [--repeat 5] [--models convnet,resnet8-group]

Seconds are of the processor, so that other work on the machine counts little; a first turn warms up and does not count.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from counterpoise.core.messages import Task
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.arithmetic import Precision
from counterpoise.models.model import MODELS
from counterpoise.run.build import build_simulation
from counterpoise.run.simulation import Simulation
from counterpoise.system.allocator import keep_memory

BATCH = 50
ImageModel = tuple[str, dict[str, object]]
IMAGE_MODELS: dict[str, ImageModel] = {
    "convnet": ("convnet", {}),
    "resnet8-group": ("resnet8", {"norm": "group"}),
    "resnet8-batch": ("resnet8", {}),
    "resnet18-group": ("resnet18", {"norm": "group"}),
    "resnet18-group-imagenet": ("resnet18", {"norm": "group", "stem": "imagenet"}),
    "lenet5": ("lenet5", {}),
}


def simulation(model: ImageModel, steps: int, precision: Precision) -> Simulation:
    stream = torch.Generator().manual_seed(0)
    count = BATCH * steps
    x, y = torch.randn(count, 3, 32, 32, generator=stream), torch.randint(0, 10, (count,), generator=stream)
    samples, classes = Samples(x, y), tuple("0123456789")
    name, arguments = model
    return build_simulation(
        Federation(samples, Samples(x[:10], y[:10]), classes, no_scaling(), (torch.arange(count),)),
        "fedavg",
        MODELS.build(name, arguments)((3, 32, 32), len(classes)),
        rounds=1,
        local={"lr": 0.01, "batch_size": BATCH, "epochs": 1},
        engine={"name": "loop", "device": "cpu", "processes": 1, "precision": precision},
    )


def seconds(sim: Simulation) -> float:
    state, began = sim.open(), time.process_time()
    sim.advance(state, [Task(0)])
    return time.process_time() - began


def measure(name: str, steps: int, repeat: int) -> None:
    sims = {precision: simulation(IMAGE_MODELS[name], steps, precision) for precision in ("full", "bf16")}
    turns = [{precision: seconds(sim) for precision, sim in sims.items()} for _ in range(repeat + 1)][1:]
    full, half = (1e3 * statistics.median(turn[precision] for turn in turns) / steps for precision in sims)
    ratios = sorted(turn["bf16"] / turn["full"] for turn in turns)
    print(
        f"{name:24} {full:8.1f} {half:8.1f} ms per step {statistics.median(ratios):6.2f} x ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--models", default=",".join(IMAGE_MODELS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    for name in given.models.split(","):
        measure(name, given.steps, given.repeat)


if __name__ == "__main__":
    main()
