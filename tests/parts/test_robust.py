"""Robust averages: hand-worked numbers, limits, what wrong updates can do, and the rules they compose with."""

from __future__ import annotations

import re

import pytest
import torch
from federations import altered, ask_clients, distance, run_rounds, simulate, unequal_federation
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.messages import Replies
from counterpoise.core.method import PARTS, MethodSpec
from counterpoise.core.part import Exchange
from counterpoise.core.rng import generator
from counterpoise.core.shares import floor_share
from counterpoise.core.tree import mix, norm, scale_rows, tmap
from counterpoise.errors import ConfigError
from counterpoise.parts.robust import least_trimmed
from counterpoise.server.cohort import Cohort

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
    sim = simulate([spec, rule], cohort=None)
    state = run_rounds(sim)
    assert all(bool(leaf.isfinite().all()) for leaf in state.params.values())
    assert distance(state.params, run_rounds(simulate(spec, cohort=None)).params) > 0


def _refused(rule: MethodSpec, asked: int, size: int | None) -> bool:
    """Whether a run of such a cohort is refused, by the rule's name, in one line."""
    federation = unequal_federation(sizes=(12,) * (9 if size else asked))
    try:
        simulate(["fedavg", rule], federation=federation, cohort=Cohort(size=size)).open()
    except ConfigError as error:
        words = str(error)
    else:
        return False
    return bool(
        re.fullmatch(rf"{next(iter(rule))} needs at least \d+ clients per round .*, not {asked}; .*", words)
    )


@pytest.mark.parametrize("asked", range(1, 10))
def test_a_trim_that_leaves_nothing_out_is_refused_and_no_other(asked: int) -> None:
    for beta in (0.01, 0.1, 1 / 9, 1 / 7, 0.2, 0.25, 0.3, 1 / 3, 0.34, 0.4, 0.49):
        for size in (asked, None):
            found = _refused({"trimmed_mean": {"beta": beta}}, asked, size)
            assert found == (int(beta * asked) == 0), beta


@pytest.mark.parametrize("asked", range(1, 10))
def test_krum_is_refused_where_the_wrong_ones_could_win_and_nowhere_else(asked: int) -> None:
    for byzantine in range(5):
        for size in (asked, None):
            found = _refused({"krum": {"byzantine": byzantine}}, asked, size)
            assert found == (asked < 2 * byzantine + 3), byzantine


@settings(max_examples=200)
@given(st.floats(1e-6, 0.5, exclude_max=True))
def test_the_least_number_that_a_trim_takes_is_the_first_that_loses_any(beta: float) -> None:
    least = least_trimmed(beta)
    assert floor_share(beta, least) > 0
    assert floor_share(beta, least - 1) == 0


def test_a_trim_too_small_for_any_round_is_refused_in_words() -> None:
    assert least_trimmed(1e-320) > 2**52
    assert least_trimmed(0.0) == 1


def test_a_client_of_a_deployment_that_has_only_its_own_samples_is_not_refused() -> None:
    federation = unequal_federation(sizes=(12, 0, 0, 0, 0))
    assert simulate(["fedavg", "krum"], federation=federation, cohort=Cohort(size=5)).method.parts


def test_lost_replies_leave_a_robust_rule_doing_its_best() -> None:
    for rule in ("trimmed_mean", "krum"):
        sim = simulate(["fedavg", rule], cohort=None)
        state, outcome = ask_clients(sim, sim.open(), (0, 1))
        assert not outcome.skipped
        assert all(bool(leaf.isfinite().all()) for leaf in state.params.values())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_an_update_times_a_thousand_moves_a_clipping_server_no_further_than_the_bound(
    dtype: torch.dtype,
) -> None:
    clip = PARTS.build("clip_updates", {"norm": 0.7}).treat
    assert clip is not None
    for trial in range(1000):
        stream = generator(trial, "scaled updates")
        count = int(torch.randint(1, 12, (), generator=stream))
        shapes = {"bias": (count, 7), "weight": (count, 40, 30)}
        delta = {name: torch.randn(shape, generator=stream, dtype=dtype) for name, shape in shapes.items()}
        factors = torch.ones(count).index_fill(0, torch.randint(count, (1,), generator=stream), 1000.0)
        delta = scale_rows(delta, factors * 10 ** (2 - 4 * torch.rand((), generator=stream)))
        weights = torch.rand(count, generator=stream, dtype=torch.float64)
        replies = Replies(torch.arange(count), torch.ones(count), delta, {}, {}, torch.zeros(count))
        exchange = Exchange({}, replies, weights / weights.sum(), count)
        step = mix(exchange.weights, clip(delta, {}, exchange))
        assert float(norm(tmap(Tensor.double, step))) <= 0.7 * (1 + 1e-6), trial


def test_a_trim_of_half_is_refused() -> None:
    with pytest.raises(ConfigError, match="beta"):
        PARTS.build("trimmed_mean", {"beta": 0.5})


def test_a_trim_is_of_the_share_as_it_is_written() -> None:
    assert [floor_share(0.29, 100), floor_share(0.07, 100), floor_share(1 / 3, 3), floor_share(0.2, 4)] == [
        29,
        7,
        1,
        0,
    ]
