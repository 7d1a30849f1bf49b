"""Seconds of a round and peak memory as a federation grows: the cohort's samples decide, not the number of clients.

    python benchmarks/growth.py [--clients 100,1000,10000,100000] [--methods fedavg,scaffold] [--picture growth.png]

Clients of 20 samples x 784, MLP 784-200-100-10, 50 clients a round, 1 epoch, batch 20; each entry in a process of its
own, interleaved, medians over repeats of the median round. SCAFFOLD keeps a model for each client that was asked, on
disk beyond 1 GiB; its rounds also write a checkpoint of what changed, as a run does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

SAMPLES, FEATURES, COHORT, ROUNDS = 20, 784, 50, 30


def measure(method: str, clients: int) -> dict[str, float]:
    """Start-up, the median round, and the peak memory of this process."""
    import torch

    from counterpoise.core.local import Local
    from counterpoise.data.dataset import Samples, no_scaling
    from counterpoise.data.federation import Federation
    from counterpoise.engines.choose import EngineSettings
    from counterpoise.run.build import build_simulation
    from counterpoise.run.store.checkpoint import CheckpointStore

    stream = torch.Generator().manual_seed(0)
    # Clients draw from one pool: what grows is the number of clients, not the data.
    x, y = torch.randn(20_000, FEATURES, generator=stream), torch.randint(0, 10, (20_000,), generator=stream)
    rows = torch.randint(0, len(y), (clients, SAMPLES), generator=stream)
    began = time.perf_counter()
    federation = Federation(
        Samples(x, y), Samples(x[:10], y[:10]), tuple("0123456789"), no_scaling(), tuple(rows)
    )
    simulation = build_simulation(
        federation,
        method,
        "mlp",
        rounds=ROUNDS,
        local=Local(lr=0.1, batch_size=SAMPLES),
        cohort=COHORT,
        engine=EngineSettings("loop", "cpu", processes=1),
    )
    state = simulation.open()
    opened = time.perf_counter() - began
    seconds = []
    with TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder))
        for _ in range(ROUNDS):
            began = time.perf_counter()
            state, _ = simulation.advance(state)
            store.save(
                state.round, {"params": state.params, "slots": state.slots}, simulation.engine.memory, {}
            )
            seconds.append(time.perf_counter() - began)
    simulation.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {"start": opened, "round": statistics.median(seconds), "peak": peak}


def draw(results: dict[tuple[str, int], dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for method in dict.fromkeys(method for method, _ in results):
        points = sorted(
            (clients, found["round"]) for (name, clients), found in results.items() if name == method
        )
        axes.plot(*zip(*points, strict=True), marker="o", label=method)
    axes.set(xscale="log", xlabel="clients of the federation", ylabel="seconds a round", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--clients", default="100,1000,10000,100000")
    options.add_argument("--methods", default="fedavg,scaffold")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--picture", type=Path)
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one[0], int(chosen.one[1]))))
        return
    entries = [(m, int(n)) for m in chosen.methods.split(",") for n in chosen.clients.split(",")]
    found: dict[tuple[str, int], list[dict[str, float]]] = {entry: [] for entry in entries}
    for _ in range(chosen.repeat):
        for method, clients in entries:
            words = [sys.executable, __file__, "--one", method, str(clients)]
            done = subprocess.run(
                words, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
            found[method, clients].append(json.loads(done.stdout))
    medians = {
        entry: {key: statistics.median(one[key] for one in several) for key in several[0]}
        for entry, several in found.items()
    }
    for (method, clients), one in medians.items():
        ratio = one["round"] / medians[method, entries[0][1]]["round"]
        print(
            f"  {method:<10} {clients:>7} clients   {one['round']:.4f} s a round ({ratio:.2f} of {entries[0][1]})   start {one['start']:.2f} s   peak {one['peak']:.0f} MiB"
        )
    if chosen.picture:
        draw(medians, chosen.picture)


if __name__ == "__main__":
    main()
