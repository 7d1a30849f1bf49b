"""BalanceFL's terms: by hand, against the same formulas on cut-out columns, and the noise of features against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import visit
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_hooks import built, stats_of
from torch import Tensor

from counterpoise.core.part import Batch, ClientData, Outputs
from counterpoise.core.rng import generator
from counterpoise.parts.inheritance import COINS, POOL, draw_noise, places

ROW = [0.0, math.log(2), math.log(4), math.log(8)]
SEEDS = st.integers(0, 10**6)


def batch(labels: list[int], padding: int = 0) -> Batch:
    mask = torch.tensor([1.0] * (len(labels) - padding) + [0.0] * padding, dtype=torch.float64)
    return Batch(mask, torch.tensor(labels), mask)


def logits_of(seed: int, rows: int = 5, classes: int = 6) -> Tensor:
    return 3 * torch.randn(rows, classes, generator=generator(seed, "logits"), dtype=torch.float64)


def restricted(logits: Tensor, of: Batch) -> Tensor:
    part = built("present_classes", noise=0.0)
    assert part.loss is not None
    return part.loss(Outputs(logits, logits), of, {})


def inherited(logits: Tensor, received: Tensor, of: Batch, **arguments: Any) -> Tensor:
    part = built("knowledge_inheritance", **arguments)
    assert part.penalty is not None
    outputs = Outputs(logits, logits, lambda params: Outputs(params["z"], params["z"]))
    return part.penalty(outputs, of, {"received": {"z": received}})


def smoothed(logits: Tensor, of: Batch, **arguments: Any) -> Tensor:
    part = built("smooth_regularisation", **arguments)
    assert part.penalty is not None
    return part.penalty(Outputs(logits, logits), of, {})


def test_the_softmax_is_over_the_classes_of_the_batch() -> None:
    logits = torch.tensor([ROW, ROW], dtype=torch.float64)
    # of classes 0 and 2 with odds 1 to 4
    assert restricted(logits, batch([0, 2])).tolist() == pytest.approx([math.log(5), math.log(5 / 4)])


def test_a_class_that_only_padding_has_is_not_in_the_batch() -> None:
    logits = torch.tensor([ROW, ROW, ROW], dtype=torch.float64)
    found = restricted(logits, batch([0, 2, 3], padding=1))
    assert found[:2].tolist() == pytest.approx([math.log(5), math.log(5 / 4)])
    assert math.isfinite(float(found[2]))


def test_inheritance_worked_by_hand() -> None:
    logits, received = (torch.tensor([row], dtype=torch.float64) for row in (ROW, [0.0, 0, math.log(9), 0]))
    # classes 2 and 3 at temperature 2: odds 3 to 1 received, 1 to sqrt 2 now
    now = math.sqrt(2) + 1
    expected = 0.75 * math.log(now) + 0.25 * (math.log(now) - math.log(2) / 2)
    twice = torch.cat([logits, logits]), torch.cat([received, received])
    assert inherited(*twice, batch([0, 1])).tolist() == pytest.approx([expected] * 2)
    assert inherited(*twice, batch([0, 1]), strength=0.5).tolist() == pytest.approx([expected / 2] * 2)


def test_smoothing_worked_by_hand() -> None:
    logits = torch.tensor([ROW, [1.0, 1, 1, 1]], dtype=torch.float64)
    found = smoothed(logits, batch([0, 1]))  # chances 1/3 and 2/3; then even ones
    assert found.tolist() == pytest.approx(
        [-0.002 * (math.log(3) - 2 / 3 * math.log(2)), -0.002 * math.log(2)]
    )


@given(SEEDS, st.lists(st.integers(0, 5), min_size=5, max_size=5))
@settings(max_examples=100, deadline=None)
def test_all_terms_are_those_of_the_columns_cut_out(seed: int, labels: list[int]) -> None:
    logits, received = logits_of(seed), logits_of(seed + 1)
    here = sorted(set(labels))
    gone = [c for c in range(6) if c not in here]
    among = torch.tensor([here.index(y) for y in labels])
    expected = F.cross_entropy(logits[:, here], among, reduction="none")
    torch.testing.assert_close(restricted(logits, batch(labels)), expected)
    taught = F.cross_entropy(logits[:, gone] / 2, (received[:, gone] / 2).softmax(1), reduction="none")
    torch.testing.assert_close(inherited(logits, received, batch(labels)), taught)
    chances = torch.distributions.Categorical(logits=logits[:, here])
    torch.testing.assert_close(smoothed(logits, batch(labels), strength=1.0), -chances.entropy())


@given(SEEDS)
@settings(max_examples=50, deadline=None)
def test_nothing_inherits_more_than_the_received_model_itself(seed: int) -> None:
    logits, received = logits_of(seed), logits_of(seed + 1)
    of = batch([0, 1, 1, 0, 2])
    assert bool((inherited(logits, received, of) >= inherited(received, received, of) - 1e-12).all())
    leaf = received.clone().requires_grad_()
    (slope,) = torch.autograd.grad(inherited(leaf, received, of).sum(), leaf)
    assert float(slope.abs().max()) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("labels", [[0, 1, 2, 3, 4], [0, 1, 2, 3, 0]], ids=["none missing", "one missing"])
def test_there_is_nothing_to_inherit_without_two_missing_classes(
    labels: list[int], dtype: torch.dtype
) -> None:
    leaf = logits_of(1, classes=5).to(dtype).requires_grad_()
    value = inherited(leaf, logits_of(2, classes=5).to(dtype), batch(labels))
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    assert value.tolist() == [0.0] * 5
    assert float(slope.abs().max()) == 0


def clustered(seed: int, counts: list[int], width: int) -> tuple[Tensor, Tensor]:
    """Features of classes with different means and spreads."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    drawn = torch.randn(len(labels), width, generator=generator(seed, "features"), dtype=torch.float64)
    mixed = drawn @ torch.randn(width, width, generator=generator(seed, "mix"), dtype=torch.float64)
    return (1 + labels.unsqueeze(1)) * mixed + 10.0 * labels.unsqueeze(1), labels


def pooled_covariance(features: Tensor, labels: Tensor) -> np.ndarray[Any, Any]:
    """``sum_c n_c cov_c / n`` by numpy."""
    whole = np.zeros((features.shape[1], features.shape[1]))
    for c in labels.unique():
        own = features[labels == c].numpy()
        whole += len(own) * np.cov(own, rowvar=False) if len(own) > 1 else 0
    return whole / len(labels)


@pytest.mark.parametrize("counts", [[40, 10, 3], [5, 1, 2], [30, 1]])
def test_noise_has_the_covariance_within_classes(counts: list[int]) -> None:
    features, labels = clustered(3, counts, 4)
    expected = pooled_covariance(features, labels)
    drawn = torch.cat([draw_noise(features, labels, generator(seed, "noise")) for seed in range(20)]).numpy()
    assert drawn.shape == (20 * POOL, 4)
    size = np.diag(expected)
    error = 5 * np.sqrt((np.outer(size, size) + expected**2) / len(drawn))  # five standard deviations
    assert (np.abs(drawn.T @ drawn / len(drawn) - expected) < error).all()
    assert (np.abs(drawn.mean(0)) < 5 * np.sqrt(size / len(drawn))).all()


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_noise_stays_in_the_directions_in_which_samples_of_a_class_differ(seed: int) -> None:
    features, labels = clustered(seed, [2, 2], 5)
    drawn = draw_noise(features, labels, generator(seed, "noise"))
    spanned = torch.stack([features[0] - features[1], features[2] - features[3]])
    left = drawn - torch.linalg.lstsq(spanned.t(), drawn.t()).solution.t() @ spanned
    assert float(left.abs().max()) < 1e-8 * float(drawn.abs().max())


def test_noise_of_many_samples_is_drawn_in_pieces_of_the_same_covariance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, labels = clustered(3, [40, 10, 3], 2)
    monkeypatch.setattr("counterpoise.parts.inheritance.ROWS", 7)
    drawn = torch.cat([draw_noise(features, labels, generator(seed, "noise")) for seed in range(20)]).numpy()
    expected = pooled_covariance(features, labels)
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), expected, atol=0.1 * np.abs(expected).max())


def test_single_samples_of_classes_have_no_noise() -> None:
    features, labels = clustered(0, [1, 1, 1], 3)
    assert float(draw_noise(features, labels, generator(0, "noise")).abs().max()) == 0


def test_noise_and_coins_depend_on_the_stream_alone() -> None:
    part, (features, labels) = built("present_classes"), clustered(0, [6, 3], 4)
    assert part.observe is not None

    def seen(seed: int) -> dict[str, Any]:
        told = visit(stream=generator(seed, "prepare"))
        told = told._replace(look=lambda rows, stream=None: Outputs(features[rows], features[rows]))
        assert part.observe is not None
        return part.observe(ClientData(torch.arange(9), labels), told)

    first, same, other = seen(0), seen(0), seen(1)
    assert all(torch.equal(first[name], same[name]) for name in ("noise", "coins"))
    assert not any(torch.equal(first[name], other[name]) for name in ("noise", "coins"))


def test_samples_take_noise_in_the_order_of_their_visits() -> None:
    slot = {"steps": torch.tensor(7.0), "batch_size": torch.tensor(300.0)}
    for step in range(7):
        here = batch([0, 1, 0])._replace(passed=torch.tensor(step / 7))
        assert places(here, slot).tolist() == [300 * step + row for row in range(3)]


def noisy_logits(counts: list[int], labels: list[int], coins: Tensor, strength: float = 1.0) -> Tensor:
    """[B, 2] what stands in the softmax for features of 0, the identity as last layer and a noise of (1, -1)."""
    part, seen = built("present_classes", noise=strength), {}
    assert part.start is not None
    assert part.loss is not None
    pool = torch.tensor([[1.0, -1.0]], dtype=torch.float64).expand(POOL, 2)
    stats = stats_of(counts, torch.float64)._replace(seen={"noise": pool, "coins": coins})
    zero = torch.zeros(len(labels), 2, dtype=torch.float64)

    def head(features: Tensor) -> Tensor:
        seen["logits"] = features
        return features

    part.loss(Outputs(zero, zero, head=head), batch(labels), part.start({}, {}, {}, stats))
    return seen["logits"]


def test_the_rarer_a_class_the_more_often_it_gets_noise() -> None:
    coins = torch.full((COINS,), 0.5)
    coins[1], coins[3] = 0.8, 0.0
    # n is 10 and 4: chances 0 and 0.6; coins 0.5, 0.8, 0.5, 0.0
    found = noisy_logits([10, 4], [0, 1, 1, 0], coins, strength=2.0)
    assert found.tolist() == [[0, 0], [0, 0], [2, -2], [0, 0]]


def test_the_share_of_noisy_samples_is_the_chance() -> None:
    coins = torch.rand(COINS, generator=generator(0, "coins"))
    found = noisy_logits([100, 30], [1] * COINS, coins)
    assert float((found[:, 0] != 0).double().mean()) == pytest.approx(0.7, abs=0.05)
