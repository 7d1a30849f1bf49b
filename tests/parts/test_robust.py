"""Robust averages: hand-worked numbers, limits, what wrong updates can do, and the rules they compose with."""

from __future__ import annotations

import pytest
import torch
from federations import altered, ask_clients, distance, run_rounds, simulate
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.messages import Replies
from counterpoise.core.method import PARTS, MethodSpec
from counterpoise.core.part import Exchange
from counterpoise.core.tree import mix, tmap
from counterpoise.errors import ConfigError

RULES: list[MethodSpec] = [
    "median",
    {"trimmed_mean": {"beta": 0.34}},
    "krum",
    {"clip_updates": {"norm": 0.01}},
]


def treated(
    name: str, rows: list[list[float]], weights: list[float] | None = None, **arguments: float
) -> Tensor:
    """What updates of two coordinates average to."""
    delta, count = {"w": torch.tensor(rows, dtype=torch.float64)}, len(rows)
    shares = torch.tensor(weights or [1 / count] * count, dtype=torch.float64)
    replies = Replies(torch.arange(count), torch.ones(count), delta, {}, {}, torch.zeros(count))
    exchange = Exchange({}, replies, shares, count)
    treat = PARTS.build(name, arguments).treat
    assert treat is not None
    return mix(shares, treat(delta, {}, exchange))["w"]


def test_the_median_of_an_odd_cohort_is_the_middle_of_each_coordinate() -> None:
    assert treated("median", [[1, 9], [5, -1], [100, 3]]).tolist() == pytest.approx([5, 3])


def test_the_median_of_an_even_cohort_is_between_the_middle_two() -> None:
    assert treated("median", [[1, 9], [5, -1], [100, 3], [7, 4]]).tolist() == pytest.approx([6, 3.5])


def test_a_trimmed_mean_leaves_out_the_ends_of_each_coordinate() -> None:
    rows = [[1, 50.0], [2, 40], [3, 30], [4, 20], [500, -10]]
    assert treated("trimmed_mean", rows, beta=0.2).tolist() == pytest.approx([3, 30])
    assert treated("trimmed_mean", rows, beta=0.4).tolist() == pytest.approx([3, 30])


def test_a_trimmed_mean_weighs_what_is_left() -> None:
    rows, weights = [[0.0], [1.0], [3.0], [90.0]], [0.1, 0.3, 0.1, 0.5]
    assert treated("trimmed_mean", rows, weights, beta=0.25).tolist() == pytest.approx([(0.3 + 0.3) / 0.4])


def test_krum_takes_the_update_that_is_nearest_to_its_neighbours() -> None:
    # Of five with one wrong: the sums of the two least squared distances are 2, 1.25, 1.25 + ..., worked by hand.
    rows = [[0.0, 0.0], [1.0, 0.0], [1.5, 0.0], [3.0, 0.0], [90.0, 0.0]]
    assert treated("krum", rows, byzantine=1).tolist() == [1.0, 0.0]


def test_krum_of_one_reply_is_that_reply() -> None:
    assert treated("krum", [[4.0, 2.0]]).tolist() == [4.0, 2.0]


def test_a_clipped_update_is_as_long_as_the_bound_and_a_short_one_stays() -> None:
    assert treated("clip_updates", [[3.0, 4.0], [0.3, 0.4]], norm=1.0).tolist() == pytest.approx([0.45, 0.6])


@pytest.mark.parametrize("off", [{"trimmed_mean": {"beta": 0.0}}, {"clip_updates": {"norm": 1e30}}])
@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova"])
def test_rules_that_leave_all_updates_as_they_are_change_nothing(spec: str, off: MethodSpec) -> None:
    with_rule, plain = simulate([spec, off]), simulate(spec)
    assert distance(run_rounds(with_rule).params, run_rounds(plain).params) == 0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(3, 9), st.floats(1e3, 1e9))
def test_a_minority_of_any_size_cannot_lead_the_median_or_a_trimmed_mean_away(
    seed: int, count: int, far: float
) -> None:
    stream = torch.Generator().manual_seed(seed)
    sound = torch.rand(count, 4, generator=stream, dtype=torch.float64)
    wrong = (count - 1) // 2
    sound[:wrong] = far * (2 * torch.rand(wrong, 4, generator=stream, dtype=torch.float64) - 1)
    for name, arguments in (("median", {}), ("trimmed_mean", {"beta": min(0.49, wrong / count + 1e-9)})):
        found = treated(name, sound.tolist(), **arguments)
        honest = sound[wrong:]
        assert bool((found >= honest.amin(0) - 1e-9).all())
        assert bool((found <= honest.amax(0) + 1e-9).all())


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.permutations(range(5)))
def test_the_order_of_replies_changes_nothing(seed: int, order: list[int]) -> None:
    rows = torch.randn(5, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for name in ("median", "trimmed_mean", "krum", "clip_updates"):
        arguments = {"beta": 0.2} if name == "trimmed_mean" else {}
        one, other = (treated(name, some.tolist(), **arguments) for some in (rows, rows[order]))
        assert torch.allclose(one, other, atol=1e-12)


def _flip(replies: Replies) -> Replies:
    """Client 0 sends ten times the opposite."""
    wrong = (replies.client == 0).double()
    factor = 1 - 11 * wrong
    return replies._replace(delta=tmap(lambda d: d * factor.view(-1, *[1] * (d.dim() - 1)), replies.delta))


@pytest.mark.parametrize(
    ("rule", "times"), [("median", 3), ({"trimmed_mean": {"beta": 0.2}}, 3), ("krum", 1)]
)
def test_one_client_that_sends_the_opposite_moves_fedavg_more_than_a_robust_rule(
    rule: MethodSpec, times: float
) -> None:
    def moved(spec: MethodSpec) -> float:
        sim = simulate(spec, cohort=None)
        start = sim.open()
        fair, _ = ask_clients(sim, start, range(6))
        unfair, _ = ask_clients(altered(sim, _flip), start, range(6))
        return distance(fair.params, unfair.params)

    assert moved({"fedavg": {"weighting": "uniform"}}) > times * moved(
        [{"fedavg": {"weighting": "uniform"}}, rule]
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spec", ["fednova", "scaffold", "fedadam", "feddyn", "fedcm"])
def test_robust_rules_go_with_other_methods(spec: str, rule: MethodSpec) -> None:
    sim = simulate([spec, rule])
    state = run_rounds(sim)
    assert all(bool(leaf.isfinite().all()) for leaf in state.params.values())
    assert distance(state.params, run_rounds(simulate(spec)).params) > 0


def test_a_trim_of_half_is_refused() -> None:
    with pytest.raises(ConfigError, match="beta"):
        PARTS.build("trimmed_mean", {"beta": 0.5})
