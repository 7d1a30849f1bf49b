"""The quick way to one client's gradient agrees with the one for stacked clients, whatever the module."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from federations import small_model
from torch import Tensor, nn
from torch.nn.functional import normalize

from counterpoise.client.chain import chain_of
from counterpoise.client.differentiate import Loss, direct_gradient, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import loss_of
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.core.part import Batch, Outputs, Stats
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree
from counterpoise.models.init import initialise

X = torch.randn(7, 5, generator=generator(0, "x"), dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 3, 3, 1, 0])
MASK = torch.tensor([1.0, 1, 1, 1, 1, 0, 0], dtype=torch.float64)


class BodyAndHead(nn.Module):
    """``head(change(body(x)))``: named as our models name their parts, and yet not their plain chain."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 6), nn.ReLU())
        self.head = nn.Linear(6, 4)
        self.change = change

    def features(self, x: Tensor) -> Tensor:
        return self.change(self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


class Doubled(nn.Sequential):
    """A sequence with a rule of its own."""

    def forward(self, input: Tensor) -> Tensor:
        for layer in self:
            input = 2 * layer(input)  # noqa: A001
        return input


def _shared_activation() -> nn.Module:
    act = nn.Tanh()
    return nn.Sequential(nn.Linear(5, 6), act, nn.Linear(6, 6), act, nn.Linear(6, 4))


def _shared_layer() -> nn.Module:
    square = nn.Linear(5, 5)
    return nn.Sequential(square, nn.Tanh(), square, nn.Tanh(), nn.Linear(5, 4))


def _tied_layer() -> nn.Module:
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(5, 4))


def _hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4))
    module[0].register_forward_hook(lambda layer, given, output: 3 * output)
    return module


MODULES: dict[str, Callable[[], nn.Module]] = {
    "regression": lambda: small_model(hidden=[]),
    "mlp relu": lambda: small_model(hidden=[6, 5], activation="relu"),
    "mlp elu": lambda: small_model(hidden=[6, 5], activation="elu"),
    "mlp tanh": lambda: small_model(hidden=[6], activation="tanh"),
    "mlp with group norm": lambda: small_model(hidden=[6], norm="group"),
    "sequence": lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)),
    "no bias": lambda: nn.Sequential(nn.Linear(5, 6, bias=False), nn.ReLU(), nn.Linear(6, 4, bias=False)),
    "nested": lambda: nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(5, 6), nn.ELU()), nn.Linear(6, 4)),
    "two linear": lambda: nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 4)),
    "two activations": lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.ReLU(), nn.Linear(6, 4)),
    "steep elu": lambda: nn.Sequential(nn.Linear(5, 6), nn.ELU(0.5), nn.Linear(6, 4)),
    "activation last": lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4), nn.Tanh()),
    "activation first": lambda: nn.Sequential(nn.Tanh(), nn.Linear(5, 4)),
    "other activation": lambda: nn.Sequential(nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 4)),
    "one activation used twice": _shared_activation,
    "one layer used twice": _shared_layer,
    "tied weights": _tied_layer,
    "hook": _hooked,
    "sequence with a rule of its own": lambda: Doubled(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)),
    "features of their own": lambda: BodyAndHead(lambda f: normalize(f, dim=1)),
    "plain features": lambda: BodyAndHead(lambda f: f),
}
METHODS: dict[str, MethodSpec] = {
    "plain": "fedavg",
    "cross entropy": ["fedavg", "cross_entropy"],
    "balanced softmax": ["fedavg", "balanced_softmax"],
    "weighted": ["fedavg", "focal", "weighted_ce"],
}


def _model(name: str) -> FunctionalModel:
    module = MODULES[name]()
    initialise(module, generator(0, "init"))
    return FunctionalModel(module.double())


def _loss(spec: MethodSpec) -> Loss:
    method, number = build_method(spec), torch.ones((), dtype=torch.float64)
    stats = Stats(counts := torch.tensor([4, 3, 2, 0]), number, number, number, {}, counts)
    slots: dict[str, Tree] = {p.name: p.start({}, {}, {}, stats) if p.start else {} for p in method.parts}
    return loss_of(method, Batch(X, Y, MASK), slots)


@pytest.mark.parametrize("spec", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("name", MODULES)
def test_both_ways_agree(name: str, spec: MethodSpec) -> None:
    model = _model(name)
    params, loss = model.params(), _loss(spec)
    expected = functional_gradient(model, params, model.buffers(), X, loss)
    found = direct_gradient(model, params, model.buffers(), X, loss)
    assert float(found.loss) == pytest.approx(float(expected.loss), rel=1e-12)
    assert found.grads.keys() == expected.grads.keys()
    for path, slope in expected.grads.items():
        torch.testing.assert_close(found.grads[path], slope, rtol=1e-11, atol=1e-14)


def _by_features(outputs: Outputs) -> Tensor:
    return outputs.logits.square().sum() + (outputs.features**3).sum()


@pytest.mark.parametrize("name", MODULES)
def test_both_ways_agree_on_losses_that_look_at_the_features(name: str) -> None:
    model = _model(name)
    params, loss = model.params(), Loss(_by_features)
    expected = functional_gradient(model, params, model.buffers(), X, loss)
    found = direct_gradient(model, params, model.buffers(), X, loss)
    assert float(found.loss) == pytest.approx(float(expected.loss), rel=1e-12)
    for path, slope in expected.grads.items():
        torch.testing.assert_close(found.grads[path], slope, rtol=1e-11, atol=1e-14)


def test_a_loss_that_ignores_the_model_has_a_gradient_of_zero() -> None:
    for name in ("mlp tanh", "mlp with group norm"):
        model = _model(name)
        found = direct_gradient(
            model, model.params(), {}, X, Loss(lambda outputs: 0 * outputs.features.sum() + 1)
        )
        assert all(float(slope.abs().max()) == 0 for slope in found.grads.values())


def test_our_own_networks_take_the_quick_way_and_others_only_where_they_are_such_a_chain() -> None:
    quick = {name for name in MODULES if chain_of(MODULES[name]()) is not None}
    assert {"regression", "mlp relu", "mlp elu", "mlp tanh"} <= quick
    assert not quick & {"steep elu", "other activation", "activation first", "hook", "features of their own"}


@pytest.mark.parametrize("differentiate", [functional_gradient, direct_gradient])
@pytest.mark.parametrize("name", ["mlp tanh", "mlp with group norm"])
def test_nothing_given_is_touched_and_nothing_returned_is_tracked(
    name: str, differentiate: Callable[..., object]
) -> None:
    model = _model(name)
    params = model.params()
    copies = {path: p.clone() for path, p in params.items()}
    gradient = differentiate(model, params, {}, X, _loss("fedavg"))
    assert all(torch.equal(params[path], copies[path]) for path in params)
    assert not any(p.requires_grad for p in params.values())
    assert not any(slope.requires_grad for slope in gradient.grads.values())  # type: ignore[attr-defined]


def test_relu_at_zero_takes_torchs_slope() -> None:
    model = _model("mlp relu")
    params = {path: torch.zeros_like(p) for path, p in model.params().items()}
    expected = functional_gradient(model, params, {}, X, _loss("fedavg"))
    found = direct_gradient(model, params, {}, X, _loss("fedavg"))
    assert all(torch.equal(found.grads[path], expected.grads[path]) for path in params)
