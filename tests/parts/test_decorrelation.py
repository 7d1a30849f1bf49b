"""FedDecorr: correlations by hand and against numpy, what scale, padding and single samples do, and what training makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import run_rounds, simulate
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from loss_hooks import built
from torch import Tensor, nn

from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Batch, Outputs
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.parts.decorrelation import correlations

ALIKE, APART = [1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]


def columns(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).t()


def penalty(features: Tensor, mask: Tensor | None = None, beta: float = 0.1) -> Tensor:
    part = built("decorrelation", beta=beta)
    assert part.penalty is not None
    rows = len(features)
    mask = torch.ones(rows, dtype=features.dtype) if mask is None else mask
    return part.penalty(Outputs(features, features), Batch(features, torch.zeros(rows), mask), {})


def random_features(seed: int, rows: int, width: int) -> Tensor:
    drawn = torch.randn(rows, 2 * width, generator=generator(seed, "features"), dtype=torch.float64)
    return drawn[:, :width] + drawn[:, :1]  # the shared column correlates them


def test_two_features_worked_by_hand() -> None:
    # K is the identity: 0.1 (1 + 1) / 4. All ones: 0.1 * 4 / 4. Opposite features correlate as much as equal ones.
    assert float(penalty(columns(ALIKE, APART))) == pytest.approx(0.05, rel=1e-7)
    assert float(penalty(columns(ALIKE, ALIKE))) == pytest.approx(0.1, rel=1e-7)
    assert float(penalty(columns(ALIKE, [-2 * a for a in ALIKE]))) == pytest.approx(0.1, rel=1e-7)
    # of [0, 0, 1] and [0, 1, 0] it is -1/2: 0.3 (1 + 1 + 1/4 + 1/4) / 4
    assert float(penalty(columns([0, 0, 1], [0, 1, 0]), beta=0.3)) == pytest.approx(0.3 * 2.5 / 4, rel=1e-6)


@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(2, 7))
@settings(max_examples=50, deadline=None)
def test_they_are_numpys_correlations_of_the_real_rows(seed: int, rows: int, width: int) -> None:
    features = random_features(seed, rows + 2, width)
    mask = torch.ones(rows + 2, dtype=torch.float64)
    mask[[0, rows]] = 0
    assume(float(features[mask > 0].var(0).min()) > 1e-2)  # else the 1e-8 beside a variance shows
    expected = np.corrcoef(features[mask > 0].numpy(), rowvar=False)
    np.testing.assert_allclose(correlations(features, mask).numpy(), expected, atol=1e-5)
    assert float(penalty(features, mask)) == pytest.approx(0.1 * (expected**2).sum() / width**2, abs=1e-6)


@given(st.integers(0, 10**6), st.floats(0.1, 100), st.floats(-10, 10))
@settings(max_examples=50, deadline=None)
def test_neither_the_scale_nor_the_mean_of_features_matters(seed: int, scale: float, shift: float) -> None:
    features = random_features(seed, 9, 4)
    assert float(penalty(scale * features + shift)) == pytest.approx(float(penalty(features)), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_sample_and_features_that_do_not_vary_are_finite_and_flat(dtype: torch.dtype) -> None:
    still = columns(ALIKE, [3.0] * 4, [7.0] * 4).to(dtype)
    alone, padded = torch.tensor([[1.0, -2.0, 5.0]], dtype=dtype), torch.tensor([1.0, 0, 0, 0], dtype=dtype)
    for features, mask, expected in ((alone, None, 0.0), (still, padded, 0.0), (still, None, 0.1 / 9)):
        leaf = features.clone().requires_grad_()
        value = penalty(leaf, mask)
        (slope,) = torch.autograd.grad(value, leaf)
        assert float(value.detach()) == pytest.approx(expected, abs=1e-6)
        assert bool(torch.isfinite(slope).all())
        assert float(slope.abs().max()) < 1e-6


def test_the_released_code_is_stronger_by_about_the_batch_size() -> None:
    leaf = random_features(1, 64, 8).requires_grad_()
    scores = (leaf - leaf.mean(0)) / leaf.var(0).sqrt()
    products = (scores.t() @ scores).masked_fill(torch.eye(8, dtype=torch.bool), 0.0)
    (released,) = torch.autograd.grad(0.1 * products.square().sum() / (8 * 7) / 64, leaf)
    (ours,) = torch.autograd.grad(penalty(leaf, beta=0.1 * 63**2 / 64 * 8 / 7), leaf)
    torch.testing.assert_close(ours, released, rtol=1e-5, atol=1e-9)


def mean_square_correlation(spec: MethodSpec) -> float:
    """The mean square of the correlations of different features after training, on the test samples."""
    sim = simulate(spec, rounds=5, cohort=None)
    state, test = run_rounds(sim), sim.work.federation.test
    outputs, _ = sim.work.model.apply(state.params, {}, test.x, train=False)
    found = correlations(outputs.features, torch.ones(len(test.x), dtype=torch.float64))
    return float((found.square().sum() - found.diagonal().sum()) / (found.numel() - len(found)))


def test_training_by_it_leaves_features_less_alike() -> None:
    assert mean_square_correlation({"feddecorr": {"beta": 5.0}}) < 0.75 * mean_square_correlation("fedavg")


def test_a_model_without_features_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="decorrelation needs a model with `features` and `head`, not Sequential"
    ):
        simulate("feddecorr", model=nn.Sequential(nn.Linear(5, 4), nn.Tanh()))
