"""A loss may apply the last layer to other features: gradients go through both, whatever the way."""

from __future__ import annotations

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate, small_model
from test_gradients import X, Y, _model
from torch import Tensor, nn
from torch.func import functional_call

from counterpoise.client.differentiate import Differentiate, Loss, direct_gradient, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.core.method import Method
from counterpoise.core.part import Batch, Outputs, Part
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree
from counterpoise.engines.choose import EngineSettings

WAYS: list[Differentiate] = [functional_gradient, direct_gradient]
NAMED = [
    "regression",
    "mlp relu",
    "mlp tanh",
    "mlp with group norm",
    "plain features",
    "features of their own",
]


def shifted(features: Tensor) -> Tensor:
    """Features somewhere else, by a rule with a slope of its own."""
    return 1.5 * features + 0.2 * torch.arange(features.shape[-1], dtype=features.dtype)


def value(outputs: Outputs) -> Tensor:
    return (outputs.head(shifted(outputs.features)) ** 3).sum() + (
        outputs.logits * outputs.features.sum()
    ).sum()


def by_autograd(model: FunctionalModel, params: Params) -> Params:
    """The module's own `features` and `head`, differentiated by torch."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model.module

        def forward(self, x: Tensor) -> Tensor:
            f = self.inner.features(x)  # type: ignore[operator]
            other, own = self.inner.head(shifted(f)), self.inner.head(f)  # type: ignore[operator]
            return (other**3).sum() + (own * f.sum()).sum()

    leaves = {f"inner.{name}": p.clone().requires_grad_() for name, p in params.items()}
    grads = torch.autograd.grad(functional_call(Both(), leaves, (X,)), list(leaves.values()))
    return dict(zip(params, grads, strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMED)
def test_gradients_are_those_of_the_whole_graph(name: str, way: Differentiate) -> None:
    model = _model(name)
    params = model.params()
    found = way(model, params, model.buffers(), X, Loss(value))
    for path, slope in by_autograd(model, params).items():
        torch.testing.assert_close(found.grads[path], slope, rtol=1e-10, atol=1e-12)
        assert not found.grads[path].requires_grad


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["mlp tanh", "mlp with group norm"])
def test_gradients_of_groups_are_those_of_each_group_alone(name: str, way: Differentiate) -> None:
    model = _model(name)
    rows = torch.stack([Y < 2, Y >= 2]).double()

    def each(outputs: Outputs) -> Tensor:
        return ((outputs.head(shifted(outputs.features)) ** 2).sum(-1) * rows).sum(-1)

    found = way(model, model.params(), {}, X, Loss(each, groups=2))
    for group in range(2):
        alone = way(model, model.params(), {}, X, Loss(lambda outputs, g=group: each(outputs)[g]))
        for path, slope in alone.grads.items():
            torch.testing.assert_close(found.grads[path][group], slope, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("half", [False, True], ids=["full", "half"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMED)
def test_of_its_own_features_it_says_the_logits(name: str, way: Differentiate, half: bool) -> None:
    model = FunctionalModel(_model(name).module.float(), half=half)
    apart: list[Tensor] = []

    def gap(outputs: Outputs) -> Tensor:
        apart.append((outputs.head(outputs.features) - outputs.logits).abs().max().detach())
        return outputs.logits.sum()

    way(model, model.params(), model.buffers(), X.float(), Loss(gap))
    assert float(apart[0]) < 1e-6


def far() -> Part:
    """Cross-entropy of other features only."""

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        logits = outputs.head(shifted(outputs.features))
        return nn.functional.cross_entropy(logits, batch.y, reduction="none")

    return Part("far", loss=loss)


@pytest.mark.parametrize(
    ("model", "batch_norm"),
    [({}, False), ({"hidden": [6], "norm": "batch"}, True)],
    ids=["chain", "batch norm"],
)
def test_every_engine_trains_by_it(model: dict[str, object], batch_norm: bool) -> None:
    found = []
    for engine in (LOOP, EngineSettings("stacked", "cpu", chunk=2), STACKED):
        sim = simulate(Method((far(),)), engine=engine, model=small_model(**model))
        assert sim.work.model.has_batch_norm == batch_norm
        found.append(run_rounds(sim, rounds=2).params)
    assert all(distance(found[0], other) < 1e-8 for other in found[1:])


def test_a_convolution_network_of_patches_has_the_same_head() -> None:
    shape = (2, 6, 6)
    model = FunctionalModel(small_model("resnet8", shape, norm="group", width=2).double())
    x = torch.randn(3, *shape, generator=generator(0, "x"), dtype=torch.float64)
    plain, patched = (
        functional_gradient(one, model.params(), model.buffers(), x, Loss(value))
        for one in (model, model.patched())
    )
    assert distance(plain.grads, patched.grads) < 1e-9 * (
        1 + distance(plain.grads, {n: 0 * g for n, g in plain.grads.items()})
    )


def test_outputs_without_a_last_layer_say_so() -> None:
    with pytest.raises(RuntimeError, match="last layer"):
        Outputs(X, X).head(X)
