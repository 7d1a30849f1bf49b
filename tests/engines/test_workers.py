"""Worker processes and the memory they share: trees arrive whole, losses are told, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import CLASSES, LOOP, ask_clients, fingerprint, run_rounds, simulate

from counterpoise.core.method import build_method, compose
from counterpoise.core.part import Part, Step
from counterpoise.core.tree import Params, Tree, flatten
from counterpoise.engines.processes import ProcessTrainer
from counterpoise.engines.slab import Slab
from counterpoise.errors import ConfigError, RunError
from counterpoise.run.simulation import Simulation

TWO = replace(LOOP, processes=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "stacked", "processes": 3}, r"engine.processes = 3 is for .*\"loop\""),
        ({"name": "loop", "compile": True}, r"engine.compile = true needs .*\"stacked\""),
    ],
)
def test_what_an_engine_would_ignore_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        simulate("fedavg", engine=replace(LOOP, **given))


def _pids(sim: Simulation) -> list[int]:
    trainer = sim.engine.trainer  # type: ignore[attr-defined]
    assert isinstance(trainer, ProcessTrainer)
    return [worker._process.pid or 0 for worker in trainer._workers]


def _descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


TREES: list[Tree] = [
    {},
    {"w": torch.arange(6.0).view(2, 3)},
    {"empty": torch.zeros(0, 3), "after": torch.tensor(1.5, dtype=torch.float64)},
    {"deep": {"er": {"flag": torch.tensor([True, False])}}, "count": torch.tensor([2**62 + 1])},
    {"half": torch.tensor([1.5], dtype=torch.bfloat16), "nan": torch.tensor([float("nan"), float("inf")])},
    {"turned": torch.arange(6).view(2, 3).t(), "spread": torch.tensor(3.0).expand(4)},
    {"last": torch.ones(3), "nothing": torch.zeros(0)},
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: "+".join(tree) or "nothing")
def test_a_tree_comes_out_of_shared_memory_as_it_went_in(tree: Tree) -> None:
    writer = Slab()
    reader = Slab(os.dup(writer.descriptor))
    found, expected = flatten(reader.read(writer.write(tree))), flatten(tree)
    assert found.keys() == expected.keys()
    for path, leaf in expected.items():
        assert (found[path].dtype, found[path].shape) == (leaf.dtype, leaf.shape)
        assert torch.equal(found[path].nan_to_num(), leaf.nan_to_num())
    writer.close()
    reader.close()


def test_shared_memory_grows_and_shrinks_with_its_trees_and_keeps_nothing_of_the_last() -> None:
    writer = Slab()
    reader = Slab(os.dup(writer.descriptor))
    sizes = [3, 5000, 2, 70000, 1]
    kept = [reader.read(writer.write({"w": torch.full((size,), float(size))}))["w"] for size in sizes]
    assert [float(w.mean()) for w in kept] == sizes
    writer.close()
    reader.close()


def test_more_workers_than_clients_and_more_clients_than_workers() -> None:
    sims = [simulate("scaffold", engine=replace(LOOP, processes=count)) for count in (1, 2, 5)]
    prints = set()
    for sim in sims:
        state = sim.open()
        for clients in ([3], range(6), [0, 5]):
            state, _ = ask_clients(sim, state, clients)
        prints.add(fingerprint(sim, state))
    for sim in reversed(sims):
        sim.close()
    assert len(prints) == 1


def test_closing_ends_the_workers_and_gives_back_every_descriptor() -> None:
    run_rounds(simulate("fedavg"), rounds=1)
    before = _descriptors()
    sim = simulate("fedavg", engine=TWO)
    run_rounds(sim, rounds=1)
    pids = _pids(sim)
    sim.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert _descriptors() == before


def test_simulations_side_by_side_close_at_once_in_any_order() -> None:
    first, second = simulate("fedavg", engine=TWO), simulate("fedavg", engine=TWO)
    pids, start = _pids(first), time.monotonic()
    first.close()
    second.close()
    assert time.monotonic() - start < 4
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_killed_worker_is_told_in_one_line() -> None:
    sim = simulate("fedavg", engine=TWO)
    try:
        state = run_rounds(sim, rounds=1)
        os.kill(_pids(sim)[1], signal.SIGKILL)
        with pytest.raises(RunError, match="a worker process ended") as caught:
            run_rounds(sim, state, 1)
        assert "\n" not in str(caught.value)
    finally:
        sim.close()


def test_an_error_in_a_part_ends_the_run_and_does_not_hang() -> None:
    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        if len(step.batch.y) > CLASSES:  # a made-up client is tried before, with one sample of each class
            raise ValueError("no such direction")
        return grads, slot

    sim = simulate(compose(build_method("fedavg"), Part("broken", adjust=adjust)), engine=TWO)
    try:
        with pytest.raises(RunError):
            run_rounds(sim, rounds=1)
    finally:
        sim.close()
