"""Fixed frames: logits and losses by hand, what is trained and what is not, and rows without a direction."""

from __future__ import annotations

import math

import pytest
import torch
from federations import run_rounds, simulate, small_model
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.method import PARTS, build_method
from counterpoise.core.part import Batch, Outputs
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.models.frames import NormalisedFrame, ProjectedFrame, unit
from counterpoise.models.heads import exchange_head
from counterpoise.models.init import initialise
from counterpoise.parts.frames import batch_weights


def _batch(labels: list[int], real: int | None = None) -> Batch:
    y = torch.tensor(labels)
    mask = (torch.arange(len(y)) < (len(y) if real is None else real)).double()
    return Batch(torch.zeros(len(y), 1), y, mask)


def test_logits_of_a_projected_frame_by_hand() -> None:
    head = ProjectedFrame(2, 2).double()
    initialise(head, generator(0, "head"))
    with torch.no_grad():
        head.projection.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        head.projection.bias.zero_()
        head.scale.fill_(2.0)
    # h = (3, 4) / 5; two classes: the frame's vectors are opposite, so the logits are too.
    first = head.frame.weight[0].double() @ torch.tensor([0.6, 0.8]).double()
    found = head(torch.tensor([[1.0, 1.0]]).double())
    assert found[0].tolist() == pytest.approx([2 * float(first), -2 * float(first)], abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_feature_on_its_classs_vector_has_logit_1_and_all_others_the_same(classes: int) -> None:
    head = ProjectedFrame(classes, classes).double()
    initialise(head, generator(0, "head"))
    with torch.no_grad():
        head.projection.weight.copy_(torch.eye(classes))
        head.projection.bias.zero_()
    logits = head(7 * head.frame.weight.detach())
    expected = torch.full((classes, classes), -1 / (classes - 1), dtype=torch.float64)
    assert torch.allclose(logits, expected.fill_diagonal_(1.0), atol=1e-6)


def test_the_frame_is_never_trained_and_the_scale_is() -> None:
    sim = simulate("fedetf")
    first, last = sim.open(), run_rounds(sim)
    assert sorted(n for n in first.params if n.startswith("head")) == [
        "head.projection.bias",
        "head.projection.weight",
        "head.scale",
    ]
    assert first.params["head.scale"].tolist() == [1.0]
    assert last.params["head.scale"].tolist() != [1.0]
    assert list(sim.work.model.frozen()) == ["head.frame.weight"]


def test_fedetf_trains_by_balanced_softmax() -> None:
    assert [part.name for part in build_method("fedetf").parts] == ["etf_projection", "balanced_softmax"]
    with pytest.raises(ConfigError, match="each set the loss"):
        build_method(["fedetf", "focal"])


def test_weights_of_a_batch_by_hand() -> None:
    # Six samples of three classes: 6 / 3 = 2 per class; counts 3, 2, 1 and none of class 3.
    assert batch_weights(_batch([0, 0, 0, 1, 1, 2]), 4)[:3].tolist() == pytest.approx([2 / 3, 1.0, 2.0])
    # The same with padding behind it.
    assert batch_weights(_batch([0, 0, 0, 1, 1, 2, 3, 0], real=6), 4)[:3].tolist() == pytest.approx(
        [2 / 3, 1.0, 2.0]
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_every_class_of_a_batch_has_the_same_weight(labels: list[int]) -> None:
    weights = batch_weights(_batch(labels), 5)
    shares = [float(weights[c]) * labels.count(c) for c in set(labels)]
    assert shares == pytest.approx([len(labels) / len(set(labels))] * len(shares))


def test_dot_regression_by_hand() -> None:
    part = PARTS.build("dot_regression")
    assert part.loss is not None
    logits = torch.tensor([[0.5, -0.5], [0.2, -0.2], [0.1, -0.1]], dtype=torch.float64)
    batch = _batch([0, 0, 1])
    # (3 / 2) / 2 for class 0, (3 / 2) / 1 for class 1; half of the squared distance to 1.
    expected = [0.75 * 0.25 / 2, 0.75 * 0.64 / 2, 1.5 * 1.21 / 2]
    assert part.loss(Outputs(logits, logits), batch, {}).tolist() == pytest.approx(expected)


def test_dot_regression_ends_where_every_feature_is_its_classs_vector() -> None:
    part = PARTS.build("dot_regression")
    assert part.loss is not None
    logits = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64, requires_grad=True)
    part.loss(Outputs(logits, logits), _batch([0, 1]), {}).sum().backward()
    assert logits.grad is not None
    assert not logits.grad.any()


def test_normalised_features_are_batch_normed_unit_vectors() -> None:
    head = NormalisedFrame(5, 3).double()
    initialise(head, generator(0, "head"))
    x = torch.randn(8, 5, generator=generator(0, "x"), dtype=torch.float64)
    normed = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    expected = normed / normed.norm(dim=1, keepdim=True) @ head.frame.weight.T.double()
    assert torch.allclose(head(x), expected, atol=1e-9)
    assert float(head(x).detach().abs().max()) <= 1 + 1e-9


def test_a_row_without_a_direction_is_0_and_passes_no_gradient() -> None:
    x = torch.zeros(2, 3, dtype=torch.float64)
    x[1, 0] = 2.0
    x.requires_grad_()
    found = unit(x)
    found.sum().backward()
    assert found.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0, 0], [0, 0.5, 0.5]]


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=5).filter(lambda v: max(map(abs, v)) > 1e-3))
def test_other_rows_get_length_1(row: list[float]) -> None:
    found = unit(torch.tensor([row], dtype=torch.float64))
    assert math.sqrt(float(found.square().sum())) == pytest.approx(1)


def test_clients_of_one_sample_do_not_blow_a_run_up() -> None:
    sim = simulate("fedetf_dr", rounds=6, cohort=None)
    state = sim.open()
    for _ in range(6):
        state, outcome = sim.advance(state)
        assert not outcome.rejected
    assert max(float(p.abs().max()) for p in state.params.values()) < 50


def test_batches_of_dot_regression_are_not_padded() -> None:
    with pytest.raises(ConfigError, match=r"local\.batching must be .* such as BatchNorm, not 'pad'"):
        simulate("fedetf_dr", local=Local(batching="pad"))


def _head_of(name: str) -> Tensor:
    sim = simulate(name, seed=3)
    return sim.work.model.frozen()["head.frame.weight"]


@pytest.mark.parametrize("name", ["fedetf", "fedetf_dr"])
def test_a_run_draws_its_frame_from_its_seed(name: str) -> None:
    assert torch.equal(_head_of(name), _head_of(name))


@pytest.mark.parametrize("name", ["fedetf", "fedetf_dr"])
def test_a_model_without_a_linear_head_is_refused(name: str) -> None:
    model = exchange_head(small_model("mlp", hidden=[6]), "etf")
    with pytest.raises(
        ConfigError, match=r"no linear layer named 'head', which (etf_projection|dot_regression) replaces"
    ):
        simulate(name, model=model)
