"""Milliseconds for one local step of ten clients on a GPU: a plain loop against the stacked engine.

    python benchmarks/gpu.py [--models mlp,convnet,resnet18] [--methods fedavg,scaffold,fedcm] [--ways captured,compiled]
    python benchmarks/gpu.py --skew [--models convnet,resnet18]     # unequal clients against equal ones, as many steps in all
    python benchmarks/gpu.py --variants 8 [--models mlp]            # FedProx with so many values of mu: in one program, and one after another
    python benchmarks/gpu.py --models resnet18 --norm batch [--patches]   # another norm; convolutions of patches instead of our kernel

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
from counterpoise.core.method import MethodSpec
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.arithmetic import Precision, arithmetic
from counterpoise.engines.choose import EngineSettings
from counterpoise.models import patches
from counterpoise.models.model import MODELS
from counterpoise.run.build import build_simulation
from counterpoise.run.joined import join
from counterpoise.run.simulation import advance

CLIENTS, BATCH, STEPS, REPEATS = 10, 50, 20, 5
SKEWED, EVEN = (60, 40, 25, 15, 10, 8, 5, 4, 2, 1), (17,) * 10  # steps of ten clients, 170 in all
MODELS_BY_NAME: dict[str, tuple[tuple[int, ...], dict[str, object]]] = {
    "mlp": ((784,), {}),
    "convnet": ((3, 32, 32), {}),
    "resnet18": ((3, 32, 32), {"norm": "group"}),
}


def federation(shape: tuple[int, ...], steps: Sequence[int] = (STEPS,) * CLIENTS) -> Federation:
    """Clients of so many steps."""
    stream = torch.Generator().manual_seed(0)
    count = BATCH * sum(steps)
    x, y = torch.randn(count, *shape, generator=stream), torch.randint(0, 10, (count,), generator=stream)
    rows = torch.arange(count).split([BATCH * own for own in steps])
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
    data: Federation, module: nn.Module, method: str, compiled: bool, precision: Precision, seeds: int = 1
) -> Callable[[], None]:
    """A round of ours; with several seeds a round of each, in one program."""
    return joined(data, module, [(method, seed) for seed in range(seeds)], compiled, precision)


def joined(
    data: Federation,
    module: nn.Module,
    runs: Sequence[tuple[MethodSpec, int]],
    compiled: bool,
    precision: Precision,
) -> Callable[[], None]:
    """A round of runs, each of a method and a seed, in one program."""
    simulations = [
        build_simulation(
            data,
            method,
            module,
            rounds=1,
            local=Local(lr=0.01, batch_size=BATCH),
            seed=seed,
            engine=EngineSettings("stacked", "cuda", compile=compiled, precision=precision),
        )
        for method, seed in runs
    ]
    together = join(simulations)
    states = [sim.open() for sim in together]

    def run() -> None:
        advance(together, states)

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


def compare_skew(name: str, way: str, precision: Precision) -> None:
    """A round of equal clients, and one of unequal clients with as many steps in all, in turns."""
    shape, arguments = MODELS_BY_NAME[name]
    module = MODELS.build(name, arguments)(shape, 10).cuda()
    runs = {
        kind: stacked(federation(shape, steps), module, "fedavg", way == "compiled", precision)
        for kind, steps in (("equal", EVEN), ("unequal", SKEWED))
    }
    for run in runs.values():
        run()
    spent: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(REPEATS):
        for kind, run in runs.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            run()
            torch.cuda.synchronize()
            spent[kind].append(1000 * (time.perf_counter() - began))
    even, skewed = (statistics.median(times) for times in spent.values())
    print(
        f"  {name:<9} {way} {precision}: equal {even:.1f} ms a round, unequal {skewed:.1f} ms, {skewed / even:.2f}"
    )


def compare_variants(name: str, count: int, precision: Precision) -> None:
    """Runs that differ in a number of their method: one after another, then in one captured program."""
    shape, arguments = MODELS_BY_NAME[name]
    data, module = federation(shape), MODELS.build(name, arguments)(shape, 10).cuda()
    variants: list[tuple[MethodSpec, int]] = [({"fedprox": {"mu": 0.01 * (k + 1)}}, 0) for k in range(count)]
    alone = [joined(data, module, [one], False, precision) for one in variants]
    together = joined(data, module, variants, False, precision)
    apart = sum(milliseconds(run) for run in alone)
    spent = milliseconds(together)
    print(
        f"  {name:<9} {count} variants of FedProx, captured {precision}: {apart:.3f} ms a step of all one after another, {spent:.3f} ms in one program, {spent / apart:.2f}",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--models", default=",".join(MODELS_BY_NAME))
    options.add_argument("--methods", default="fedavg,scaffold,fedcm")
    options.add_argument("--ways", default="captured,compiled")
    options.add_argument("--precisions", default="tf32,bf16")
    options.add_argument("--seeds", type=int, default=10, help="runs in one program, for the second table")
    options.add_argument("--stem", default="cifar", help="of the ResNet-18 of the second table")
    options.add_argument("--norm", default="group", help="of the ResNet-18")
    options.add_argument("--patches", action="store_true", help="without our kernel for convolutions")
    options.add_argument("--skew", action="store_true", help="unequal clients against equal ones")
    options.add_argument("--variants", type=int, default=0, help="so many values of mu in one program")
    chosen = options.parse_args()
    MODELS_BY_NAME["resnet18"][1]["norm"] = chosen.norm
    if chosen.patches:
        patches.kernel_of_this_machine = lambda: None  # as where there is no Triton
    print(torch.cuda.get_device_name(), torch.__version__)
    if chosen.variants:
        for name, precision in product(chosen.models.split(","), chosen.precisions.split(",")):
            with arithmetic(precision):
                compare_variants(name, chosen.variants, precision)
        return
    if chosen.skew:
        for name, way, precision in product(
            *(given.split(",") for given in (chosen.models, chosen.ways, chosen.precisions))
        ):
            with arithmetic(precision):
                compare_skew(name, way, precision)
        return
    for name in chosen.models.split(","):
        with arithmetic("tf32"):
            compare(name, chosen.methods.split(","), chosen.ways.split(","), chosen.precisions.split(","))
            if chosen.seeds > 1:
                compare_seeds(
                    name,
                    chosen.seeds,
                    chosen.ways.split(",")[-1],
                    chosen.precisions.split(",")[-1],
                    chosen.stem,
                )


def compare(name: str, methods: Sequence[str], ways: Sequence[str], precisions: Sequence[Precision]) -> None:
    """One model: every way of ours as a share of the plain loop."""
    shape, arguments = MODELS_BY_NAME[name]
    data = federation(shape)
    module = MODELS.build(name, arguments)(shape, 10).cuda()
    entries = {"plain loop": plain_loop(data, module)}
    for method, way, precision in product(methods, ways, precisions):
        entries[f"{method} {way} {precision}"] = stacked(data, module, method, way == "compiled", precision)
    baseline = 0.0
    for entry, run in entries.items():
        spent = milliseconds(run)
        baseline = baseline or spent
        print(
            f"  {name:<9} {entry:<28} {spent:8.3f} ms a step   {spent / baseline:.3f} of the plain loop",
            flush=True,
        )


def compare_seeds(name: str, seeds: int, way: str, precision: Precision, stem: str) -> None:
    """One run alone, and several in one program: milliseconds of a client's step, and memory."""
    shape, arguments = MODELS_BY_NAME[name]
    data = federation(shape)
    more = {"stem": stem} if name == "resnet18" else {}
    module = MODELS.build(name, arguments | more)(shape, 10).cuda()
    for count in (1, seeds):
        torch.cuda.reset_peak_memory_stats()
        spent = milliseconds(stacked(data, module, "fedavg", way == "compiled", precision, count))
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(
            f"  {name:<9} {count:>2} runs, {way}, {precision}, {stem} stem: {spent:8.3f} ms a step of all, {spent / count / CLIENTS:.4f} ms a client's step, peak {peak:.1f} GiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
