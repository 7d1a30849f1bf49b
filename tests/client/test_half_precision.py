"""BatchNorm in a model that trains in bfloat16: its statistics are worked out and kept in float32."""

from __future__ import annotations

import math
from copy import deepcopy
from functools import partial

import pytest
import torch
from federations import distance, small_model
from torch import nn, vmap
from torch.nn.functional import cross_entropy, linear

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import Progress, step
from counterpoise.core.method import Method
from counterpoise.core.part import Batch, Stats
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree, stack, take
from counterpoise.engines.captured import CompiledStep
from counterpoise.models.init import initialise
from counterpoise.models.norms import BatchNorm

IMAGE, CLIENTS, B = (3, 8, 8), 3, 16


def _torchs_own() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 4))


MODELS = {
    "resnet8": lambda: small_model("resnet8", IMAGE, norm="batch", width=4),
    "torch's own": _torchs_own,
}
every_model = pytest.mark.parametrize("name", MODELS)


def _model(name: str, half: bool = True) -> FunctionalModel:
    module = MODELS[name]()
    initialise(module, generator(0, "init"))
    return FunctionalModel(module, half=half)


def _batches(steps: int) -> list[Batch]:
    """Of several clients [K, B, ...] in each step."""
    labels = torch.arange(CLIENTS * B).view(CLIENTS, B) % 4
    return [
        Batch(
            torch.randn(CLIENTS, B, *IMAGE, generator=generator(0, "half", k)) + labels.view(CLIENTS, B, 1, 1, 1),
            labels,
            torch.ones(CLIENTS, B),
            torch.zeros(CLIENTS),
            torch.zeros(CLIENTS, dtype=torch.int64),
        )
        for k in range(steps)
    ]  # fmt: skip


def _start(model: FunctionalModel) -> tuple[Progress, Stats]:
    progress = Progress(model.params(), model.buffers(), {}, torch.zeros(()))
    counts, one = torch.ones(4, dtype=torch.int64), torch.ones(())
    return progress, Stats(counts, one, 0.05 * one, 0 * one, {}, counts)


def _trained(model: FunctionalModel, client: int, steps: int = 4) -> Tree:
    progress, stats = _start(model)
    for batch in _batches(steps):
        progress = step(Method(), model, progress, Batch(*(part[client] for part in batch)), stats)
    return {"params": progress.params, "buffers": progress.buffers}


def _missed(name: str, params: Params, goal: Params) -> float:
    """How far from the goal, as a share of the way from the first model to it."""
    start = _model(name).params()
    missed = sum((params[key] - goal[key]).double().square().sum() for key in goal)
    way = sum((goal[key] - start[key]).double().square().sum() for key in goal)
    return math.sqrt(float(missed) / float(way))


def _stacked(tree: Tree) -> Tree:
    return stack([tree] * CLIENTS)


def _stacked_start(model: FunctionalModel) -> tuple[Progress, Stats]:
    progress, stats = _start(model)
    return Progress(**_stacked(progress._asdict())), Stats(**_stacked(stats._asdict()))


@pytest.mark.parametrize("norm", [BatchNorm(6), nn.BatchNorm1d(6)], ids=["ours", "torch's"])
def test_statistics_are_those_of_the_float32_values(norm: nn.Module) -> None:
    layer = nn.Linear(5, 6)
    initialise(layer, generator(0, "init"))
    model = FunctionalModel(nn.Sequential(layer, norm), half=True)
    x = (
        torch.randn(64, 5, generator=generator(0, "x")) + 30
    )  # of a mean this large bfloat16 has one digit left
    _, after = model.apply(model.params(), model.buffers(), x, train=True)
    entered = linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16()).float()
    assert after["1.running_mean"].dtype == after["1.running_var"].dtype == torch.float32
    torch.testing.assert_close(after["1.running_mean"], 0.1 * entered.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(after["1.running_var"], 0.9 + 0.1 * entered.var(0), rtol=1e-6, atol=1e-6)
    assert after["1.num_batches_tracked"] == 1


@every_model
def test_every_number_that_is_kept_stays_float32(name: str) -> None:
    trained = _trained(_model(name), client=0)
    for kept in [*trained["params"].values(), *trained["buffers"].values()]:
        assert kept.dtype in (torch.float32, torch.int64)


@every_model
def test_training_stays_near_that_in_full_precision(name: str) -> None:
    """Of the way that full precision goes; torch's own layers in bfloat16 miss as much."""
    half, full = (_trained(_model(name, half), client=0) for half in (True, False))
    assert 0 < _missed(name, half["params"], full["params"]) < 0.5
    for key, value in full["buffers"].items():
        torch.testing.assert_close(half["buffers"][key], value, rtol=0.05, atol=0.05)


def test_a_step_is_that_of_torchs_own_autocast() -> None:
    model = _model("torch's own")
    (batch,) = _batches(1)
    own = deepcopy(model.module).train()
    with torch.autocast("cpu", torch.bfloat16):
        logits = own(batch.x[0])
    cross_entropy(logits.float(), batch.y[0]).backward()
    taught = {name: (p - 0.05 * p.grad).detach() for name, p in own.named_parameters()}
    trained = _trained(model, client=0, steps=1)
    assert _missed("torch's own", trained["params"], taught) < 0.02
    assert distance(trained["buffers"], dict(own.named_buffers())) < 1e-6


@every_model
def test_stacked_clients_train_as_each_alone(name: str) -> None:
    model = _model(name)
    progress, stats = _stacked_start(model)
    for batch in _batches(4):
        progress = vmap(partial(step, Method(), model))(progress, batch, stats)
    for client in range(CLIENTS):
        alone = _trained(model, client)
        assert _missed(name, take(progress.params, client), alone["params"]) < 0.5
        for key, value in alone["buffers"].items():
            torch.testing.assert_close(take(progress.buffers, client)[key], value, rtol=0.05, atol=0.05)


@every_model
def test_a_stacked_step_in_bfloat16_is_one_program(name: str, caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    model = _model(name)
    progress, stats = _stacked_start(model)
    patched, plain = (vmap(partial(step, Method(), way)) for way in (model.patched(), model))
    (batch,) = _batches(1)
    traced = CompiledStep(patched, plain, backend="eager")(progress, batch, stats)
    assert not [record for record in caplog.records if record.name == "counterpoise"]
    assert distance(traced.buffers, patched(progress, batch, stats).buffers) < 1e-6
    assert distance(traced.params, plain(progress, batch, stats).params) < 0.02
