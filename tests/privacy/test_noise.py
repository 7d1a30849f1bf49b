"""Discrete Laplace noise: exact, in shares, and as private as it says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from parties import Parties, federation
from scipy.stats import chi2

from counterpoise.privacy.layout import Vector
from counterpoise.privacy.noise import bernoulli_exp, geometric, noise, share
from counterpoise.privacy.settings import PrivacySettings


def _fits(found: Vector, chances: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Chi-square of draws from 0 on against chances; the last bin holds the rest."""
    last = len(chances) - 1
    bins = np.bincount(np.minimum(found, last), minlength=last + 1)
    expected = len(found) * np.append(chances[:-1], 1 - chances[:-1].sum())
    statistic = float(((bins - expected) ** 2 / expected).sum())
    return bool(chi2.sf(statistic, last) > 1e-6)


@pytest.mark.parametrize(("above", "below"), [(0, 1), (1, 3), (1, 1), (5, 2)])
def test_a_coin_falls_with_the_chance_exp_of_minus_x(above: int, below: int) -> None:
    chance = math.exp(-above / below)
    found = np.array([bernoulli_exp(above, below) for _ in range(20_000)], np.int64)
    assert abs(found.mean() - chance) <= 5 * math.sqrt(chance * (1 - chance) / 20_000)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(3, 10), Fraction(5, 2)])
def test_geometric_numbers_have_their_distribution(epsilon: Fraction) -> None:
    p = math.exp(-float(epsilon))
    found = np.array([geometric(*epsilon.as_integer_ratio()) for _ in range(10_000)])
    assert _fits(found, (1 - p) * p ** np.arange(6))


@pytest.mark.parametrize("clients", [1, 2, 7])
def test_a_share_is_negative_binomial_with_one_over_k_successes(clients: int) -> None:
    """P(n) = C(n + r - 1, n) p^n (1 - p)^r with r = 1/K, by the gamma function."""
    p, r = math.exp(-0.5), 1 / clients
    chances = [
        math.exp(math.lgamma(n + r) - math.lgamma(r) - math.lgamma(n + 1)) * p**n * (1 - p) ** r
        for n in range(6)
    ]
    found = np.array([share(Fraction(1, 2), clients) for _ in range(10_000)])
    assert _fits(found, np.array(chances))


@pytest.mark.parametrize("clients", [1, 5])
def test_the_shares_of_all_clients_add_up_to_discrete_laplace_noise(clients: int) -> None:
    """P(z) = (1 - p) / (1 + p) p^|z|."""
    p = math.exp(-1.0)
    total = np.sum([noise(6000, 1.0, clients) for _ in range(clients)], axis=0)
    centre = (1 - p) / (1 + p)
    assert _fits(np.abs(total), np.array([centre, *(2 * centre * p**z for z in range(1, 5)), 0.0]))
    assert abs((total > 0).mean() - (total < 0).mean()) < 5 / math.sqrt(6000)


def _upper_bound(draws: int, epsilon: float, clients: int) -> float:
    """A 95 % upper bound of epsilon from counts of 50 and 51 samples: how often 51 or more is released of each."""
    found = []
    for count in (50, 51):
        total = count + np.sum([noise(draws, epsilon, clients) for _ in range(clients)], axis=0)
        found.append(int((np.maximum(total, 0) > 50).sum()))
    deviation = math.sqrt(sum((1 - count / draws) / count for count in found))
    return math.log(found[1] / found[0]) + 1.645 * deviation


def test_neighbouring_counts_are_told_apart_no_better_than_epsilon_says() -> None:
    bound = _upper_bound(20_000, 1.0, 1)
    assert 0.9 <= bound <= 1.1


@pytest.mark.faults
@pytest.mark.parametrize(("epsilon", "clients"), [(1.0, 1), (0.5, 3)])
def test_with_200_000_draws_too(epsilon: float, clients: int) -> None:
    assert epsilon - 0.1 <= _upper_bound(200_000, epsilon, clients) <= epsilon + 0.1


@pytest.mark.parametrize("mode", ["plain", "masks", "bfv"])
def test_noise_is_fresh_each_time_and_no_count_falls_below_0(mode: str) -> None:
    pytest.importorskip({"plain": "numpy", "masks": "cryptography", "bfv": "tenseal"}[mode])
    settings = PrivacySettings.read({"histogram": mode, "epsilon": 0.3})
    numbers = {name: counts // 2500 for name, counts in federation(5, 40, 8).items()}  # 0 or 1 each
    totals = [Parties(numbers, settings).histogram() for _ in range(3)]
    assert min(int(total.min()) for total in totals) == 0
    assert not np.array_equal(totals[0], totals[1])
    assert not np.array_equal(totals[1], totals[2])
    parties = Parties(numbers, settings)
    assert parties.total().values.min() < 0  # before it leaves
    spread = np.concatenate([total - parties.truth() for total in totals])
    assert np.abs(spread).max() < 100
