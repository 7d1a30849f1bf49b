"""Penalties: terms that parts add to the batch's loss, whatever the loss, the weights, the padding or the gradient source."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import CLASSES, LOOP, STACKED, distance, run_rounds, simulate
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.client.differentiate import Differentiate, direct_gradient, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import batch_loss, begin, loss_of, step
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.method import PARTS, Method, MethodSpec, build_method, compose
from counterpoise.core.part import Batch, Outputs, Part, Stats, call
from counterpoise.core.tree import Params, Tree, add, tmap
from counterpoise.engines.opening import open_task

WAYS: list[Differentiate] = [functional_gradient, direct_gradient]
NAMES = [name for name in PARTS.names() if PARTS.build(name).penalty is not None]
MEMBERS = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=torch.float64)


class Setting(NamedTuple):
    """What one step of a client goes by."""

    method: Method
    model: FunctionalModel
    params: Params  # some way from the received ones
    slots: dict[str, Tree]
    batch: Batch
    stats: Stats

    def gradient(self, way: Differentiate, members: Tensor | None = None) -> Any:
        loss = loss_of(self.method, self.batch, self.slots, members)
        return way(self.model, self.params, {}, self.batch.x, loss)

    def value(self, params: Params) -> float:
        at = self.model.outputs_at({}, self.batch.x)
        return float(batch_loss(self.method, at(params)._replace(at=at), self.batch, self.slots))


def setting(spec: MethodSpec | Method, client: int = 0) -> Setting:
    """A client in the second round, two of its samples padding; its last model and the received one differ."""
    sim = simulate(spec, cohort=None)
    state, work, method = run_rounds(sim, rounds=1), sim.work, sim.method
    shared = {part.name: call(part.send, {}, state.slots.get(part.name, {}), 1) for part in method.parts}
    sent = Broadcast(1, 0.1, state.params, state.buffers, shared)
    opened = open_task(work, Task(client), sim.engine.memory.get(client, {}), sent)
    slots = begin(method, state.params, {}, shared, opened.memory, opened.stats).slots
    data = work.federation.client(client)
    mask = torch.tensor([1.0] * 6 + [0, 0], dtype=torch.float64)
    batch = Batch(work.federation.train.x[data.rows[:8]], data.labels[:8], mask)
    moved = tmap(
        lambda p: p + 0.3 * torch.sin(torch.arange(p.numel(), dtype=p.dtype)).view(p.shape), state.params
    )
    return Setting(method, work.model, moved, slots, batch, opened.stats)


def lengths(strength: float = 1.0) -> Part:
    """Half the squared length of each sample's logits."""
    return Part(
        "lengths", penalty=lambda outputs, batch, slot: strength * 0.5 * outputs.logits.square().sum(-1)
    )


def spread(strength: float = 1.0) -> Part:
    """One number for the batch: the sum of squared mean features of its real samples."""

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        mean = (outputs.features * batch.mask.unsqueeze(-1)).sum(0) / batch.mask.sum().clamp(min=1)
        return strength * mean.square().sum()

    return Part("spread", penalty=penalty)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_that_of_finite_differences(name: str, way: Differentiate) -> None:
    here = setting(["fedavg", "balanced_softmax", {name: {}}], client=2)  # two classes are not there
    found = here.gradient(way)
    ahead = tmap(lambda p: torch.cos(torch.arange(p.numel(), dtype=p.dtype)).view(p.shape), here.params)
    slope = sum(float((found.grads[path] * ahead[path]).sum()) for path in ahead)
    width = 1e-5
    rise = here.value(add(here.params, ahead, width)) - here.value(add(here.params, ahead, -width))
    assert rise / (2 * width) == pytest.approx(slope, rel=1e-6)
    assert float(found.loss) == pytest.approx(here.value(here.params), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_agree_and_groups_add_up_to_the_whole(name: str) -> None:
    here = setting(["fedavg", {name: {}}])
    whole = here.gradient(functional_gradient)
    for way in WAYS:
        groups = here.gradient(way, MEMBERS)
        assert float(groups.loss) == pytest.approx(float(whole.loss), rel=1e-12)
        assert distance(tmap(lambda g: g.sum(0), groups.grads), whole.grads) < 1e-13
        assert distance(here.gradient(way).grads, whole.grads) < 1e-13


def by_hand(here: Setting, lengths: float, spread: float, weights: Tensor) -> Tensor:
    """``mean(w CE) + lengths mean(|z|^2) / 2 + spread |mean f|^2`` over the six real samples."""
    outputs, _ = here.model.apply(here.params, {}, here.batch.x[:6], train=True)
    plain = (
        weights[here.batch.y[:6]] * F.cross_entropy(outputs.logits, here.batch.y[:6], reduction="none")
    ).mean()
    return (
        plain
        + lengths * outputs.logits.square().sum() / 12
        + spread * outputs.features.mean(0).square().sum()
    )


@given(st.floats(0, 3), st.floats(0, 3), st.lists(st.floats(0, 5), min_size=CLASSES, max_size=CLASSES))
@settings(max_examples=25, deadline=None)
def test_all_penalties_add_and_no_weight_touches_them(one: float, other: float, factors: list[float]) -> None:
    weights = torch.tensor(factors, dtype=torch.float64)
    weigh = Part("weigh", weight=lambda outputs, batch, slot: weights[batch.y])
    here = BASE._replace(method=Method((lengths(one), weigh, spread(other))))
    slots: dict[str, Tree] = {"lengths": {}, "weigh": {}, "spread": {}}
    for way in WAYS:
        found = here._replace(slots=slots).gradient(way)
        assert float(found.loss) == pytest.approx(float(by_hand(here, one, other, weights)), rel=1e-10)


def test_a_penalty_stands_beside_any_loss() -> None:
    spec: MethodSpec = [
        "fedavg",
        "balanced_softmax",
        "decorrelation",
        "model_contrastive",
        "smooth_regularisation",
    ]
    here, alone = setting(spec), setting(["fedavg", "balanced_softmax"])
    at = here.model.outputs_at({}, here.batch.x)
    outputs = at(here.params)._replace(at=at)
    plain = batch_loss(alone.method, outputs, here.batch, here.slots)
    added = sum(
        (
            call(part.penalty, torch.zeros(()), outputs, here.batch, here.slots[part.name]) * here.batch.mask
        ).sum()
        / 6
        for part in here.method.parts
    )
    assert here.value(here.params) == pytest.approx(float(plain + added), rel=1e-12)
    assert abs(float(added)) > 0.1


def test_a_batch_of_padding_alone_has_no_penalty() -> None:
    here = BASE._replace(method=Method((lengths(), spread())), slots={"lengths": {}, "spread": {}})
    found = here._replace(batch=here.batch._replace(mask=torch.zeros(8, dtype=torch.float64))).gradient(
        direct_gradient
    )
    assert float(found.loss) == 0
    assert all(float(grad.abs().max()) == 0 for grad in found.grads.values())


def test_groups_of_classes_get_their_samples_share_of_a_penalty_of_the_whole_batch() -> None:
    here = BASE._replace(
        method=Method((spread(1e6),)), slots={"spread": {}}
    )  # cross-entropy is next to nothing
    groups, whole = here.gradient(direct_gradient, MEMBERS), here.gradient(direct_gradient)
    share = (MEMBERS[:, here.batch.y] * here.batch.mask).sum(1) / 6
    for path in ("body.1.weight", "body.1.bias"):
        expected = share.view(-1, *[1] * whole.grads[path].dim()) * whole.grads[path]
        torch.testing.assert_close(groups.grads[path], expected, rtol=1e-4, atol=1.0)


@pytest.mark.parametrize("way", WAYS)
def test_sharpness_aware_steps_climb_and_descend_the_loss_with_its_penalties(way: Differentiate) -> None:
    method = compose(build_method({"fedsam": {"rho": 0.2}}), lengths(), spread())
    here = setting(method)
    plain = here._replace(method=Method((lengths(), spread())))
    slope = plain.gradient(functional_gradient).grads
    norm = torch.sqrt(sum((g.square().sum() for g in slope.values()), torch.zeros((), dtype=torch.float64)))
    uphill = plain._replace(params=add(here.params, slope, 0.2 / float(norm)))
    expected = add(here.params, uphill.gradient(functional_gradient).grads, -float(here.stats.lr))
    begun = begin(method, here.params, {}, {}, {}, here.stats)
    after = step(method, here.model, begun, here.batch, here.stats, way)
    assert distance(after.params, expected) < 1e-7  # the norm has a floor of 1e-7


def test_without_a_penalty_cross_entropy_keeps_its_quick_gradient() -> None:
    batch = BASE.batch
    assert loss_of(build_method("fedavg"), batch, {}).by_logits is not None
    assert loss_of(Method((lengths(),)), batch, {"lengths": {}}).by_logits is None


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_a_penalty_of_nothing_is_fedavg(engine: Any) -> None:
    found = run_rounds(simulate(compose(build_method("fedavg"), lengths(0.0), spread(0.0)), engine=engine))
    assert distance(found.params, run_rounds(simulate("fedavg", engine=engine)).params) < 1e-12


BASE = setting("fedavg")
