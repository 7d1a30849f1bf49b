"""Augmentation in training: drawn from keyed streams, the same in every engine."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
import torch
from federations import run_rounds

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.tree import leaves, subtract
from counterpoise.data.augment import Augmentation, compose, crop, cutout, flip
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.models.model import MODELS
from counterpoise.run.build import build_simulation
from counterpoise.server.state import ServerState

LOOP, STACKED = EngineSettings("loop", "cpu", processes=1), EngineSettings("stacked", "cpu", chunk=2)


def federation() -> Federation:
    stream = torch.Generator().manual_seed(5)
    x, y = torch.randn(30, 1, 8, 8, generator=stream), torch.randint(0, 3, (30,), generator=stream)
    clients = tuple(torch.split(torch.arange(30), [14, 9, 7]))
    return Federation(Samples(x, y), Samples(x, y), ("a", "b", "c"), no_scaling(), clients)


def run(augment: Augmentation | None, engine: EngineSettings, seed: int = 0) -> ServerState:
    module = MODELS.build("lenet5")((1, 8, 8), 3)
    simulation = build_simulation(
        federation(),
        "fedavg",
        module,
        rounds=2,
        local=Local(lr=0.05, batch_size=4),
        engine=replace(engine, dtype="float64"),
        augment=augment,
        seed=seed,
        draw_parameters=True,
    )
    with closing(simulation):
        return run_rounds(simulation)


ALL = compose(flip(), crop(padding=1), cutout(size=3))


def test_engines_agree_on_augmented_images() -> None:
    one, other = run(ALL, LOOP), run(ALL, STACKED)
    assert max(float(leaf.abs().max()) for leaf in leaves(subtract(one.params, other.params))) < 1e-10


def test_worker_processes_draw_the_same() -> None:
    assert digest(run(ALL, LOOP).params) == digest(run(ALL, replace(LOOP, processes=2)).params)


def test_augmentation_changes_training_and_its_absence_is_p_0() -> None:
    plain, augmented = run(None, LOOP), run(ALL, LOOP)
    assert digest(plain.params) != digest(augmented.params)
    assert digest(plain.params) == digest(run(flip(p=0.0), LOOP).params)


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_the_seed_decides_what_is_drawn(engine: EngineSettings) -> None:
    assert digest(run(ALL, engine).params) == digest(run(ALL, engine).params)
    assert digest(run(ALL, engine).params) != digest(run(ALL, engine, seed=1).params)
