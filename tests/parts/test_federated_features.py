"""CReFF: gradients by class, features that match them, and a head that is re-trained on these alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from federations import QUICK, ask_clients, distance, run_rounds, simulate, small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.models.heads import CosineHead
from counterpoise.parts.class_gradients import class_gradients, gradients_of, over_holders, take_of_each
from counterpoise.parts.federated_features import match, mismatch, retrain
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import announce
from counterpoise.server.state import ServerState

SPEC = {"creff": QUICK["creff"]}


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_autograd(features: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[C, F + 1] gradient of the mean cross-entropy; may itself be differentiated."""
    w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    loss = nn.functional.cross_entropy(features @ w.T + b, labels)
    found = torch.autograd.grad(loss, [w, b], create_graph=True)
    return torch.cat([found[0], found[1].unsqueeze(1)], 1)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_gradients_by_class_are_those_of_autograd(seed: int, classes: list[int]) -> None:
    features, labels, head = draw(seed, len(classes), 3), torch.tensor(classes), draw(seed + 1, 4, 4)
    weight, bias = head[:, :-1], head[:, -1]
    found = class_gradients(features, features @ weight.T + bias, labels)
    for c in range(4):
        own = labels == c
        assert float(found["held"][c]) == own.any()
        wanted = by_autograd(features[own], labels[own], weight, bias) if own.any() else torch.zeros(4, 4)
        assert torch.allclose(found["gradients"][c], wanted.detach().double(), atol=1e-12)
    each = gradients_of(features.unsqueeze(0).expand(4, -1, -1), head)
    for c in range(4):
        wanted = by_autograd(features, torch.full((len(classes),), c), weight, bias)
        assert torch.allclose(each[c], wanted.detach(), atol=1e-12)


def test_means_over_the_clients_that_have_a_class() -> None:
    ones = torch.ones(2, 3, dtype=torch.float64)
    sent = torch.stack([torch.stack([1 * ones, 0 * ones]), torch.stack([3 * ones, 5 * ones])])
    means, known = over_holders({"gradients": sent, "held": torch.tensor([[1.0, 0.0], [1.0, 1.0]])})
    assert means[:, 0, 0].tolist() == [2, 5]
    assert known.tolist() == [True, True]
    _, known = over_holders({"gradients": sent, "held": torch.tensor([[1.0, 0.0], [0.0, 0.0]])})
    assert known.tolist() == [True, False]


def test_the_feature_of_a_single_sample_can_be_read_off_its_gradient() -> None:
    """What `reveals` warns of: the row of the class is ``(p - 1) (f, 1)``."""
    feature, head = draw(0, 1, 3), draw(1, 4, 4)
    sent = class_gradients(feature, feature @ head[:, :-1].T + head[:, -1], torch.tensor([2]))
    row = sent["gradients"][2, 2]
    assert torch.allclose(row[:-1] / row[-1], feature[0])


def test_mismatch_by_hand() -> None:
    """Of two classes and one feature: rows (2), (-3) and the bias (1, 1)."""
    wanted = torch.tensor([[[2.0, 1.0], [-3.0, 1.0]]], dtype=torch.float64)
    assert mismatch(wanted, wanted).tolist() == pytest.approx([0.0], abs=1e-5)
    assert mismatch(7 * wanted, wanted).tolist() == pytest.approx([0.0], abs=1e-5)
    assert mismatch(-wanted, wanted).tolist() == pytest.approx([6.0], abs=1e-5)
    other = torch.tensor(
        [[[2.0, 1.0], [3.0, -1.0]]], dtype=torch.float64
    )  # one row opposite, the bias across
    assert mismatch(other, wanted).tolist() == pytest.approx([0 + 2 + 1], abs=1e-5)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31))
def test_matching_comes_closer_and_leaves_unknown_classes_alone(seed: int) -> None:
    head, first = draw(seed, 3, 5), draw(seed + 1, 3, 4, 4)
    wanted = gradients_of(draw(seed + 2, 3, 6, 4), head)
    known = torch.tensor([True, False, True])
    after = match(first, head, wanted, known, 60, 0.05)
    assert torch.equal(after[1], first[1])
    before, now = (mismatch(gradients_of(f, head), wanted)[known].sum() for f in (first, after))
    assert float(now) < float(before)
    assert torch.equal(match(first, head, wanted, 0 * known, 3, 0.1), first)


def test_a_head_is_retrained_as_by_torchs_own_optimizer() -> None:
    features, head = draw(0, 3, 5, 2), draw(1, 3, 3)
    found = retrain(head, features, 4, 0.3, 4, generator(0, "x"))
    layer, stream = nn.Linear(2, 3).double(), generator(0, "x")
    layer.load_state_dict({"weight": head[:, :-1], "bias": head[:, -1]})
    descent, labels = torch.optim.SGD(layer.parameters(), lr=0.3), torch.arange(3).repeat_interleave(5)
    for _ in range(4):
        order = torch.randperm(15, generator=stream)
        for rows in (order[start : start + 4] for start in range(0, 15, 4)):
            descent.zero_grad()
            nn.functional.cross_entropy(layer(features.flatten(0, 1)[rows]), labels[rows]).backward()
            descent.step()
    assert torch.allclose(found[:, :-1], layer.weight, atol=1e-12)
    assert torch.allclose(found[:, -1], layer.bias, atol=1e-12)


def sent_by(sim: Simulation, state: ServerState, client: int, head: Tensor) -> dict[int, Tensor]:
    """The gradients of a client whose classes are smaller than a draw: each draw is the whole class."""
    rows = sim.work.federation.clients[client]
    module, y = sim.module(state), sim.work.federation.train.y[rows]
    features = module.features(sim.work.federation.train.x[rows]).detach()  # type: ignore[operator]
    return {
        c: by_autograd(features[y == c], y[y == c], head[:, :-1], head[:, -1]).detach()
        for c in sorted(set(y.tolist()))
    }


def as_printed(gradients: list[dict[int, Tensor]], features: Tensor, head: Tensor, steps: int) -> Tensor:
    """Class by class, autograd through autograd."""
    for _ in range(steps):
        leaf = features.clone().requires_grad_()
        total: Any = 0
        for c in range(4):
            of = [one[c] for one in gradients if c in one]
            if of:
                own = by_autograd(leaf[c], torch.full((len(leaf[c]),), c), head[:, :-1], head[:, -1])
                pairs = [*zip(own[:, :-1], (sum(of) / len(of))[:, :-1], strict=True)]
                pairs += [(own[:, -1], (sum(of) / len(of))[:, -1])]
                total = total + sum(1 - a @ b / (a.norm() * b.norm() + 1e-6) for a, b in pairs)
        features = features - 0.1 * torch.autograd.grad(total, leaf)[0]
    return features


def test_two_rounds_by_other_means_and_training_is_that_of_fedavg() -> None:
    sim, plain = simulate(SPEC), simulate("fedavg")
    state, same = sim.open(), plain.open()
    head = torch.cat([state.params["head.weight"], state.params["head.bias"].unsqueeze(1)], 1)
    features = None
    for turn, clients in enumerate(([0, 2], [1, 4])):
        gradients = [sent_by(sim, state, client, head) for client in clients]
        stream = generator(sim.seed, "server federated_features", turn)
        drawn = torch.randn(4, 4, 6, generator=stream, dtype=torch.float64)
        features = as_printed(gradients, drawn if features is None else features, head, 5)
        bound = 1 / 6**0.5
        fresh = [torch.empty(shape).uniform_(-bound, bound, generator=stream) for shape in ((4, 6), (4,))]
        first = torch.cat([fresh[0], fresh[1].unsqueeze(1)], 1).double()
        head = retrain(first, features, 3, 0.01, 32, stream)  # tested by itself above
        (state, _), (same, _) = ask_clients(sim, state, clients), ask_clients(plain, same, clients)
        slot = state.slots["federated_features"]
        assert torch.allclose(slot["features"], features, atol=1e-9)
        assert torch.allclose(slot["head"], head, atol=1e-9)
        assert distance(state.params, same.params) == 0
        shown, _ = sim.presented(state)
        assert torch.equal(shown["head.weight"], slot["head"][:, :-1])
        assert torch.equal(shown["head.bias"], slot["head"][:, -1])
        assert all(torch.equal(shown[name], p) for name, p in same.params.items() if "head" not in name)


def test_without_features_it_is_fedavg_in_all_that_is_sent_and_shown() -> None:
    off, plain = simulate({"creff": {"features": 0}}), simulate("fedavg")
    (state, outcome), (same, usual) = off.advance(off.open()), plain.advance(plain.open())
    assert (outcome.bytes_up, outcome.bytes_down) == (usual.bytes_up, usual.bytes_down)
    assert distance(off.presented(state)[0], plain.presented(same)[0]) == 0
    assert state.slots == {}


def test_the_server_gets_gradients_of_a_clients_own_classes_alone() -> None:
    sim = simulate(SPEC)
    state = sim.open()
    replies = sim.engine.train(sim.tasks(state), announce(sim.method, state, 0.1))
    sent = replies.upload["federated_features"]
    for k, client in enumerate(replies.client.tolist()):
        counts = torch.bincount(sim.work.federation.train.y[sim.work.federation.clients[client]], minlength=4)
        assert torch.equal(sent["held"][k] > 0, counts > 0)
        assert torch.equal(sent["gradients"][k].flatten(1).any(1), counts > 0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 6), st.integers(0, 2**31))
def test_a_draw_takes_each_class_up_to_a_number_without_repeats(
    classes: list[int], count: int, seed: int
) -> None:
    labels = torch.tensor(classes, dtype=torch.int64)
    places = take_of_each(labels, count, torch.Generator().manual_seed(seed))
    assert len(set(places.tolist())) == len(places)
    taken = torch.bincount(labels[places], minlength=5)
    assert torch.equal(taken, torch.bincount(labels, minlength=5).clamp(max=count))


@pytest.mark.parametrize("name", ["creff", "redgrape"])
def test_a_model_whose_head_is_not_plain_is_refused(name: str) -> None:
    model = small_model()
    model.head = CosineHead(6, 4)
    with pytest.raises(ConfigError, match="plain linear layer `head`"):
        simulate(name, model=model)


def test_under_another_method_training_is_that_methods_and_only_the_head_that_is_shown_differs() -> None:
    both, plain = simulate(["fedavgm", {"federated_features": QUICK["creff"]}]), simulate("fedavgm")
    found, wanted = run_rounds(both), run_rounds(plain)
    assert distance(found.params, wanted.params) == 0
    shown, usual = both.presented(found)[0], plain.presented(wanted)[0]
    assert {name for name in usual if not torch.equal(shown[name], usual[name])} == {
        "head.weight",
        "head.bias",
    }
