"""Gradients of groups of classes: finite differences, both ways, masks, and nothing but shares of the whole gradient."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from federations import small_model
from test_gradients import MASK, MODULES, X, Y, _model
from torch import Tensor

from counterpoise.client.differentiate import Differentiate, Loss, direct_gradient, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import loss_of
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.core.part import Batch, Gradient, Stats
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree
from counterpoise.models.init import initialise

MEMBERS = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=torch.float64)
SPECS: dict[str, MethodSpec] = {
    "plain": "fedavg",
    "weighted focal": ["fedavg", "focal", "weighted_ce"],
    "balanced softmax": ["fedavg", "balanced_softmax"],
}
WAYS: list[Differentiate] = [functional_gradient, direct_gradient]


def _loss(spec: MethodSpec, members: Tensor | None, batch: Batch) -> Loss:
    method, number = build_method(spec), torch.ones((), dtype=torch.float64)
    counts = torch.tensor([4, 3, 2, 1])
    stats = Stats(counts, number, number, number, {}, counts)
    slots: dict[str, Tree] = {p.name: p.start({}, {}, {}, stats) if p.start else {} for p in method.parts}
    return loss_of(method, batch, slots, members)


def _image_model(name: str) -> tuple[FunctionalModel, Tensor]:
    shape = (2, 6, 6)
    module = small_model("resnet8", shape, norm=name, width=2)
    initialise(module, generator(0, "init"))
    x = torch.randn(7, *shape, generator=generator(0, "images"), dtype=torch.float64)
    return FunctionalModel(module.double()), x


def _check(
    found: Gradient, model: FunctionalModel, params: Params, x: Tensor, losses: list[Loss], whole: Loss
) -> None:
    """Each group's gradient is that of its own loss; the loss is the batch's; buffers are those of one pass."""
    plain = functional_gradient(model, params, model.buffers(), x, whole)
    assert float(found.loss) == pytest.approx(float(plain.loss), rel=1e-12)
    for name, buffer in plain.buffers.items():
        torch.testing.assert_close(found.buffers[name], buffer, rtol=1e-12, atol=1e-15)
    for h, loss in enumerate(losses):
        alone = functional_gradient(model, params, model.buffers(), x, loss)
        for path, slope in alone.grads.items():
            torch.testing.assert_close(found.grads[path][h], slope, rtol=1e-10, atol=1e-14)
    for path, slope in plain.grads.items():
        torch.testing.assert_close(found.grads[path].sum(0), slope, rtol=1e-10, atol=1e-13)


def _one_group(spec: MethodSpec, row: Tensor, batch: Batch) -> Loss:
    vector = _loss(spec, row.unsqueeze(0), batch)
    return Loss(lambda outputs: vector.value(outputs).sum())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("name", MODULES)
def test_every_way_gives_the_gradient_of_each_groups_loss(
    name: str, spec: MethodSpec, way: Differentiate
) -> None:
    model, batch = _model(name), Batch(X, Y, MASK)
    params = model.params()
    found = way(model, params, model.buffers(), X, _loss(spec, MEMBERS, batch))
    losses = [_one_group(spec, row, batch) for row in MEMBERS]
    _check(found, model, params, X, losses, _loss(spec, None, batch))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_on_a_residual_network(norm: str, way: Differentiate) -> None:
    model, x = _image_model(norm)
    batch = Batch(x, Y, torch.ones_like(MASK))
    params = model.params()
    found = way(model, params, model.buffers(), x, _loss("fedavg", MEMBERS, batch))
    losses = [_one_group("fedavg", row, batch) for row in MEMBERS]
    _check(found, model, params, x, losses, _loss("fedavg", None, batch))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_finite_differences(spec: MethodSpec, way: Differentiate) -> None:
    model = _model("mlp tanh")
    params, loss = model.params(), _loss(spec, MEMBERS, Batch(X, Y, MASK))
    found = way(model, params, {}, X, loss).grads
    value, epsilon = lambda at: loss.value(model.apply(at, {}, X, train=True)[0]), 1e-6
    for path, p in params.items():
        for index in range(p.numel()):
            nudge = torch.zeros_like(p)
            nudge.view(-1)[index] = epsilon
            up, down = (value(params | {path: p + sign * nudge}) for sign in (1, -1))
            slope = (up - down) / (2 * epsilon)
            torch.testing.assert_close(found[path].flatten(1)[:, index], slope, rtol=1e-6, atol=1e-9)


def test_a_groups_share_is_over_the_real_samples_of_the_whole_batch() -> None:
    # Two classes of logit 0 cost log 2 each; of four rows one is padding, so B = 3, and group 0 has two of them.
    batch = Batch(
        torch.zeros(4, 5, dtype=torch.float64), torch.tensor([0, 1, 0, 1]), torch.tensor([1.0, 1, 1, 0])
    )
    model = FunctionalModel(torch.nn.Linear(5, 2).double())
    params = {path: torch.zeros_like(p) for path, p in model.params().items()}
    loss = _loss("fedavg", torch.eye(2, dtype=torch.float64), batch._replace(mask=batch.mask.double()))
    values = loss.value(model.apply(params, {}, batch.x, train=True)[0])
    log2 = torch.tensor(2.0).log().item()
    assert values.tolist() == pytest.approx([2 / 3 * log2, 1 / 3 * log2])
    for way in WAYS:
        found = way(model, params, {}, batch.x, loss)
        # By the bias, softmax - onehot is (-1/2, 1/2) for each of class 0.
        assert found.grads["bias"].flatten().tolist() == pytest.approx([-1 / 3, 1 / 3, 1 / 6, -1 / 6])
        assert float(found.loss) == pytest.approx(log2)


def test_it_survives_vmap_over_clients() -> None:
    model = _model("mlp with group norm")
    params = model.params()
    stacked = {path: torch.stack([p, 2 * p]) for path, p in params.items()}
    members = torch.stack([MEMBERS, MEMBERS.flip(0)])

    def groups(params: Params, members: Tensor) -> Params:
        loss = _loss("fedavg", members, Batch(X, Y, MASK))
        return functional_gradient(model, params, {}, X, loss).grads

    together = torch.vmap(groups)(stacked, members)
    for k in range(2):
        alone = groups({path: p[k] for path, p in stacked.items()}, members[k])
        for path in params:
            torch.testing.assert_close(together[path][k], alone[path], rtol=1e-11, atol=1e-14)


def test_one_forward_pass_serves_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    plain = FunctionalModel.apply

    def counted(self: FunctionalModel, *given: object, **named: object) -> object:
        calls.append(1)
        return plain(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FunctionalModel, "apply", counted)
    model = _model("mlp with group norm")
    for way in WAYS:
        calls.clear()
        partial(way, model, model.params(), {}, X)(_loss("fedavg", MEMBERS, Batch(X, Y, MASK)))
        assert len(calls) == 1
