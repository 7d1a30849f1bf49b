"""Milliseconds for one local step of ten clients on a GPU: a plain loop against the stacked engine.

    python benchmarks/gpu.py [--models mlp,convnet,resnet18] [--methods fedavg,scaffold,fedcm] [--ways captured,compiled]

Every entry trains the same ten clients (batch 50, 20 steps) on data that lies on the device; medians over repeats.
The plain loop may use TF32, as torch's convolutions do by default.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import product

import torch
from torch import nn

from counterpoise.core.local import Local
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.precision import Precision, tf32
from counterpoise.models.model import MODELS
from counterpoise.simulation import Simulation, build_simulation

CLIENTS, BATCH, STEPS, REPEATS = 10, 50, 20, 5
PRECISIONS: tuple[Precision, ...] = ("tf32", "bf16")
MODELS_BY_NAME: dict[str, tuple[tuple[int, ...], dict[str, object]]] = {
    "mlp": ((784,), {}),
    "convnet": ((3, 32, 32), {}),
    "resnet18": ((3, 32, 32), {"norm": "group"}),
}


def federation(shape: tuple[int, ...]) -> Federation:
    stream = torch.Generator().manual_seed(0)
    count = CLIENTS * BATCH * STEPS
    x, y = torch.randn(count, *shape, generator=stream), torch.randint(0, 10, (count,), generator=stream)
    rows = tuple(torch.arange(count).view(CLIENTS, -1))
    return Federation(Samples(x, y), Samples(x[:10], y[:10]), tuple("0123456789"), no_scaling(), rows).to(
        "cuda"
    )


def plain_loop(data: Federation, module: nn.Module) -> Callable[[], None]:
    """What a careful user writes: one client after another, one optimizer each."""
    clients = [rows.cuda() for rows in data.clients]

    def run() -> None:
        for rows in clients:
            net = copy.deepcopy(module)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for batch in torch.randperm(len(rows), device="cuda").split(BATCH):
                optimizer.zero_grad()
                chosen = rows[batch]
                nn.functional.cross_entropy(net(data.train.x[chosen]), data.train.y[chosen]).backward()
                optimizer.step()

    return run


def stacked(
    data: Federation, module: nn.Module, method: str, compile: bool, precision: Precision
) -> Callable[[], None]:
    simulation: Simulation = build_simulation(
        data,
        method,
        module,
        rounds=1,
        local=Local(lr=0.01, batch_size=BATCH),
        engine=EngineSettings("stacked", "cuda", compile=compile, precision=precision),
    )
    state = simulation.open()

    def run() -> None:
        simulation.advance(state)

    return run


def milliseconds(run: Callable[[], None]) -> float:
    """Median time of one step of all clients, after a first run in which everything is captured or compiled."""
    times = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - began) / STEPS)
    print(f"    first {times[0] * STEPS / 1000:.1f} s", end="", flush=True)
    return statistics.median(times[1:])


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--models", default=",".join(MODELS_BY_NAME))
    options.add_argument("--methods", default="fedavg,scaffold,fedcm")
    options.add_argument("--ways", default="captured,compiled")
    chosen = options.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    for name in chosen.models.split(","):
        with tf32("tf32"):
            compare(name, chosen.methods.split(","), chosen.ways.split(","))


def compare(name: str, methods: Sequence[str], ways: Sequence[str]) -> None:
    """One model: every way of ours as a share of the plain loop."""
    shape, arguments = MODELS_BY_NAME[name]
    data = federation(shape)
    module = MODELS.build(name, arguments)(shape, 10).cuda()
    entries = {"plain loop": plain_loop(data, module)}
    for method, way, precision in product(methods, ways, PRECISIONS):
        entries[f"{method} {way} {precision}"] = stacked(data, module, method, way == "compiled", precision)
    baseline = 0.0
    for entry, run in entries.items():
        spent = milliseconds(run)
        baseline = baseline or spent
        print(
            f"  {name:<9} {entry:<28} {spent:8.3f} ms a step   {spent / baseline:.3f} of the plain loop",
            flush=True,
        )


if __name__ == "__main__":
    main()
