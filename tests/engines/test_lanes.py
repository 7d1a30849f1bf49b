"""Lanes: every client once, from its own start, for as many steps as it has, at a cost that follows the sum of the steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.engines.lanes import GOOD_ENOUGH, LATENCY, choose_width, run_lanes, schedule

SKEWED = [60, 40, 25, 15, 10, 8, 5, 4, 2, 1]
lengths = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def test_the_longest_client_has_a_lane_of_its_own_and_the_others_fill_the_rest() -> None:
    """By hand, each into the lane that is free first: 15 behind 25, 10 behind 40, 8 and 5 behind 15, 4 behind 10."""
    plan = schedule(SKEWED, 3)
    assert [[SKEWED[client] for client in lane] for lane in plan.lanes] == [
        [60],
        [40, 10, 4, 1],
        [25, 15, 8, 5, 2],
    ]
    assert plan.length == 60


def test_a_client_leaves_when_it_is_done_and_the_next_one_enters() -> None:
    swaps = schedule([3, 2, 1], 2).swaps()
    assert [tuple(swap) for swap in swaps] == [(2, 1, 1, 2), (3, 0, 0, None), (3, 1, 2, None)]


def test_equal_clients_all_have_lanes_and_unequal_ones_as_many_as_the_longest_keeps_busy() -> None:
    assert choose_width([17] * 10, []) == 10
    assert choose_width(SKEWED, []) == 3
    assert choose_width([50, 1, 1], []) == 1 or choose_width([50, 1, 1], []) == 2
    assert choose_width([7], []) == 1


def test_a_width_that_is_known_is_taken_where_it_costs_little_more() -> None:
    assert choose_width(SKEWED, [2]) == 2  # 85 steps of 2 lanes against 60 of 3
    assert choose_width(SKEWED, [10]) == 3


def test_what_unequal_clients_cost_is_near_what_as_many_steps_of_equal_ones_cost() -> None:
    width = choose_width(SKEWED, [])
    cost = schedule(SKEWED, width).length * (width + LATENCY)
    assert cost <= 1.3 * 17 * (10 + LATENCY)


@given(lengths, st.integers(1, 12))
def test_every_client_is_in_one_lane_and_no_lane_is_much_longer_than_needed(
    steps: list[int], width: int
) -> None:
    plan = schedule(steps, width)
    assert sorted(client for lane in plan.lanes for client in lane) == list(range(len(steps)))
    assert max(steps) <= plan.length <= sum(steps) / width + max(steps)


@given(lengths, st.data())
def test_the_width_is_legal_and_never_much_dearer_than_the_best(
    steps: list[int], data: st.DataObject
) -> None:
    known = data.draw(st.lists(st.integers(1, 12), max_size=3))
    width = choose_width(steps, known)
    costs = {w: schedule(steps, w).length * (w + LATENCY) for w in range(1, len(steps) + 1)}
    assert 1 <= width <= len(steps)
    legal = choose_width(steps, [])
    assert costs[width] <= GOOD_ENOUGH * costs[legal] + 1e-9


@given(lengths, st.integers(1, 5))
def test_lanes_give_each_client_what_it_gets_alone(steps: list[int], width: int) -> None:
    """A step that hangs on the client's own progress, stats and visits: x <- 2 x + rate * visit."""
    count, length = len(steps), max(steps)
    generator = torch.Generator().manual_seed(len(steps))
    start = torch.randint(0, 9, (count, 2), generator=generator).double()
    rates = torch.arange(1.0, count + 1).double()
    visits = torch.randint(0, 9, (count, length), generator=generator).double()
    plan = schedule(steps, width)
    along = plan.visits({"v": visits}, plan.length)["v"]
    clients = {"progress": {"x": start}, "stats": {"rate": rates}}
    places = {
        "progress": {"x": torch.zeros(len(plan.lanes), 2).double()},
        "stats": {"rate": torch.zeros(len(plan.lanes)).double()},
    }
    moment = iter(range(plan.length))

    def advance() -> None:
        x, rate = places["progress"]["x"], places["stats"]["rate"]
        x.copy_((2 * x + (rate * along[:, next(moment)]).unsqueeze(1)) % 1009)

    found = run_lanes(places, clients, plan, advance)["x"]
    for client, n in enumerate(steps):
        x = start[client].clone()
        for step in range(n):
            x = (2 * x + rates[client] * visits[client, step]) % 1009
        assert torch.equal(found[client], x)


@pytest.mark.parametrize("steps", [[1], [2, 2], [5, 1, 1, 1]])
def test_starts_of_clients_are_not_written_to(steps: list[int]) -> None:
    start = torch.ones(len(steps), 1)
    plan = schedule(steps, 2)
    places = {"progress": {"x": torch.zeros(len(plan.lanes), 1)}, "stats": {}}

    def advance() -> None:
        places["progress"]["x"].mul_(3)

    run_lanes(places, {"progress": {"x": start}, "stats": {}}, plan, advance)
    assert torch.equal(start, torch.ones(len(steps), 1))
