"""The tree of rates: boxes, probes, running means and scores, worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.methods.fedhoo import tree_search
from counterpoise.methods.hoo import descent
from counterpoise.parts.rate_search import Bandit
from counterpoise.parts.rate_tree import (
    Nodes,
    back_up,
    bounds,
    descend,
    grow,
    leaves,
    optimism,
    path,
    plant,
    probes,
    sides,
)

FOUR = torch.tensor([0.1, 0.2, 0.4, 0.3], dtype=torch.float64)


def _numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _box(nodes: Nodes, node: int) -> list[tuple[float, float]]:
    return list(zip(nodes.lower[node].tolist(), nodes.upper[node].tolist(), strict=True))


def _expanded(dimensions: int = 2) -> Nodes:
    root = plant(0.0, 1.0, dimensions)
    return grow(root, 0, torch.arange(2**dimensions), FOUR[: 2**dimensions])


def test_the_first_rate_varies_slowest() -> None:
    assert sides(torch.arange(4), 2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert sides(torch.arange(2), 1).tolist() == [[0], [1]]
    assert sides(torch.arange(1), 3).tolist() == [[0, 0, 0]]


def test_the_unit_square_has_its_quadrants_as_children_and_is_probed_at_the_quarters() -> None:
    nodes = _expanded()
    assert [_box(nodes, node) for node in range(1, 5)] == [
        [(0, 0.5), (0, 0.5)],
        [(0, 0.5), (0.5, 1)],
        [(0.5, 1), (0, 0.5)],
        [(0.5, 1), (0.5, 1)],
    ]
    assert probes(nodes, 0).tolist() == [[0.25, 0.25], [0.75, 0.75]]
    # of [0, 0.5] x [0.5, 1]: a quarter and three quarters of each side
    assert probes(nodes, 2).tolist() == [[0.125, 0.625], [0.375, 0.875]]


def test_a_probe_is_the_centre_of_the_child_it_stands_for() -> None:
    nodes = _expanded()
    lower, upper = probes(nodes, 0)
    for place, child in enumerate(range(1, 5)):
        centre = (nodes.lower[child] + nodes.upper[child]) / 2
        assert torch.equal(torch.where(sides(torch.tensor([place]), 2)[0] == 1, upper, lower), centre)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_children_tile_the_box_of_their_parent(descent_places: list[int]) -> None:
    nodes = plant(0.4, 0.8, 3)
    node = 0
    for place in descent_places:
        nodes = grow(nodes, node, torch.arange(8), torch.zeros(8, dtype=torch.float64))
        node = len(nodes.parent) - 8 + place
    volumes = (nodes.upper - nodes.lower).prod(-1)
    for inner in torch.nonzero(~leaves(nodes)).flatten().tolist():
        children = nodes.parent == inner
        assert float(volumes[children].sum()) == pytest.approx(float(volumes[inner]))
        assert torch.equal(nodes.lower[children].amin(0), nodes.lower[inner])
        assert torch.equal(nodes.upper[children].amax(0), nodes.upper[inner])
    assert int(nodes.depth[node]) == len(descent_places)


def test_a_path_leads_to_the_root() -> None:
    nodes = grow(_expanded(), 3, torch.arange(4), FOUR)
    assert path(nodes, 6) == [6, 3, 0]
    assert torch.nonzero(leaves(nodes)).flatten().tolist() == [1, 2, 4, 5, 6, 7, 8]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.floats(0, 1), min_size=1, max_size=5)),
        min_size=1,
        max_size=6,
    )
)
def test_values_are_the_mean_of_all_rewards_below_a_node(visits: list[tuple[int, list[float]]]) -> None:
    nodes = grow(plant(0.0, 1.0, 2), 0, torch.arange(4), torch.zeros(4, dtype=torch.float64))
    seen: dict[int, list[float]] = {0: [], **{child: [0.0] for child in range(1, 5)}}
    for node, rewards in visits:
        nodes = back_up(nodes, node, _numbers(*rewards))
        for row in {node, 0}:
            seen[row] += rewards
    for node, rewards in seen.items():
        assert int(nodes.visits[node]) == len(rewards)
        assert float(nodes.value[node]) == pytest.approx(sum(rewards) / max(len(rewards), 1), abs=1e-12)


def test_the_width_to_the_power_of_the_depth_vanishes_as_specified() -> None:
    nodes = plant(0.4, 0.8, 1)
    for node in (0, 1, 3, 5):
        nodes = grow(nodes, node, torch.arange(2), torch.zeros(2, dtype=torch.float64))
    nodes = nodes._replace(visits=torch.ones_like(nodes.visits))
    scores = optimism(nodes, 0, tau=1.0, alpha=1.0)  # ln 1 = 0, V = 0: what is left is diam^h
    by_depth = [float(scores[nodes.depth == depth][0]) for depth in range(5)]
    assert by_depth[:4] == pytest.approx([1, 0.2, 0.01, 0.05**3])
    assert by_depth[3] == pytest.approx(1e-4, rel=0.3)  # the specification rounds to 1e-4 and 4e-7
    assert by_depth[4] == pytest.approx(4e-7, rel=0.05)


def test_equation_2_by_hand() -> None:
    nodes = back_up(_expanded(), 0, FOUR)
    # round 7: ln 8; root N = 4, V = 0.25, diam^0 = 1; child N = 1, V = 0.4, diam = 0.5
    found = optimism(nodes, 7, tau=2.0, alpha=0.01)
    assert float(found[0]) == pytest.approx(0.25 + 2 + math.sqrt(0.01 * math.log(8) / 4))
    assert float(found[3]) == pytest.approx(0.4 + 2 * 0.5 + math.sqrt(0.01 * math.log(8)))
    by_rho = optimism(nodes, 7, tau=2.0, alpha=0.01, rho=0.3)
    assert float(by_rho[3]) == pytest.approx(0.4 + 2 * 0.5 * 0.3 + math.sqrt(0.01 * math.log(8)))
    assert optimism(plant(0.0, 1.0, 2), 7, 1.0, 1.0).tolist() == [math.inf]


def _learn(bandit: Bandit, nodes: Nodes, *rounds: Tensor) -> Nodes:
    for t, rewards in enumerate(rounds, 3):
        nodes = bandit.learn(nodes, rewards, t)
    return nodes


def test_one_client_descends_greedily_by_hand() -> None:
    bandit, nodes = tree_search(), plant(0.4, 0.8, 1)
    assert bandit.probe(nodes, 3).flatten().tolist() == pytest.approx([0.5, 0.7])
    nodes = _learn(bandit, nodes, _numbers(0.3, 0.5))  # children [0.4, 0.6] and [0.6, 0.8]: the second wins
    assert bandit.probe(nodes, 4).flatten().tolist() == pytest.approx([0.65, 0.75])
    nodes = _learn(bandit, nodes, _numbers(0.2, 0.1))  # both below 0.3: back to the first child
    assert bandit.probe(nodes, 5).flatten().tolist() == pytest.approx([0.45, 0.55])
    assert nodes.parent.tolist() == [-1, 0, 0, 2, 2]
    assert nodes.visits.tolist() == [4, 1, 3, 1, 1]
    # root: mean of 0.3, 0.5, 0.2, 0.1; second child: its own 0.5 with 0.2 and 0.1
    assert nodes.value.tolist() == pytest.approx([0.275, 0.3, 0.8 / 3, 0.2, 0.1])


def test_the_first_of_equal_leaves_is_taken() -> None:
    bandit = tree_search()
    nodes = _learn(bandit, plant(0.0, 1.0, 2), _numbers(0.1, 0.4, 0.4, 0.2))
    assert torch.equal(bandit.probe(nodes, 4), probes(nodes, 2))


def test_at_the_largest_depth_the_same_box_is_probed_again_and_no_leaf_is_born() -> None:
    bandit = tree_search(depth=1)
    nodes = _learn(bandit, plant(0.4, 0.8, 1), _numbers(0.5, 0.3))
    again = _learn(bandit, nodes, _numbers(0.6, 0.4))
    assert len(again.parent) == 3
    # leaf: 0.5 once, then 0.6 and 0.4; root: all four
    assert again.visits.tolist() == [4, 3, 1]
    assert again.value.tolist() == pytest.approx([0.45, 0.5, 0.3])
    fallen = _learn(bandit, again, _numbers(0.0, 0.0))  # (0.5 + 0.6 + 0.4) / 5 = 0.3: a tie, the first stays
    assert torch.equal(bandit.probe(fallen, 9), probes(fallen, 1))
    left = _learn(bandit, fallen, _numbers(0.0, 0.0))
    assert torch.equal(bandit.probe(left, 9), probes(left, 2))


def test_a_greedy_leaf_scores_its_value_also_where_it_was_probed_again() -> None:
    bandit = tree_search(depth=1, alpha=1.0)
    nodes = _learn(bandit, plant(0.4, 0.8, 1), _numbers(0.5, 0.3), _numbers(0.6, 0.4))
    assert bandit.score(nodes, 5)[1:].tolist() == pytest.approx([0.5, 0.3])


def test_optimism_prefers_the_leaf_that_was_visited_less() -> None:
    rounds = _numbers(0.5, 0.45), _numbers(0.5, 0.5)
    for selection, leaf in (("greedy", 1), ("optimistic", 2)):
        bandit = tree_search(selection, depth=1)  # type: ignore[arg-type]
        nodes = _learn(bandit, plant(0.4, 0.8, 1), *rounds)
        # N = 3 and 1 in round 10: bonuses sqrt(0.01 ln 11 / N) = 0.089 and 0.155, more than 0.05 apart
        assert torch.equal(bandit.probe(nodes, 10), probes(nodes, leaf))


def test_an_advantage_compares_leaves_of_different_rounds() -> None:
    rounds = _numbers(0.3, 0.5), _numbers(0.8, 0.9)  # accuracy has risen meanwhile
    raw = _learn(tree_search(), plant(0.4, 0.8, 1), *rounds)
    advantage = _learn(tree_search(reward="advantage"), plant(0.4, 0.8, 1), *rounds)
    assert raw.value[3:].tolist() == pytest.approx([0.8, 0.9])
    assert advantage.value[1:].tolist() == pytest.approx([-0.1, 0.1 / 3, -0.05, 0.05])
    assert float(advantage.value[0]) == pytest.approx(0)


def test_hoo_visits_every_part_once_before_any_again() -> None:
    bandit, nodes = descent(warmup=0, tau=0.0), plant(0.0, 1.0, 1)
    assert bandit.probe(nodes, 0).tolist() == [[0.25]]
    nodes = bandit.learn(nodes, _numbers(0.2), 0)
    assert bandit.probe(nodes, 1).tolist() == [[0.75]]
    nodes = bandit.learn(nodes, _numbers(0.6), 1)
    # both have N = 1, so the better one is entered: its first part [0.5, 0.75]
    assert bandit.probe(nodes, 2).tolist() == [[0.625]]
    nodes = bandit.learn(nodes, _numbers(0.4), 2)
    assert nodes.parent.tolist() == [-1, 0, 0, 2]
    assert nodes.visits.tolist() == [3, 1, 2, 1]
    assert nodes.value.tolist() == pytest.approx([0.4, 0.2, 0.5, 0.4])


def test_hoo_bounds_by_hand() -> None:
    nodes = grow(plant(0.0, 1.0, 1), 0, torch.arange(2), _numbers(0.2, 0.6))
    nodes = back_up(nodes, 0, _numbers(0.2, 0.6))
    for reward in (0.4, 0.3):
        place = torch.tensor([int((nodes.parent == 2).sum())])
        nodes = back_up(grow(nodes, 2, place, _numbers(reward)), 2, _numbers(reward))

    def upper(value: float, count: int, depth: int) -> float:
        return value + math.sqrt(2 * math.log(9) / count) + 2.0 * 0.5**depth

    leaves_below = [upper(0.4, 1, 2), upper(0.3, 1, 2)]
    second = min(upper(1.3 / 3, 3, 1), max(leaves_below))
    first = upper(0.2, 1, 1)  # its parts are unvisited, so infinite
    root = min(upper(1.5 / 4, 4, 0), max(first, second))
    found = bounds(nodes, 9, tau=2.0, rho=0.5)
    assert found.tolist() == pytest.approx([root, first, second, *leaves_below])
    assert descend(nodes, found, 5) == (1, 0)
    assert descend(nodes, found, 1) == (1, None)


def test_hoo_stays_at_the_largest_depth() -> None:
    bandit, nodes = descent(depth=1, warmup=0), plant(0.0, 1.0, 1)
    for t in range(12):
        nodes = bandit.learn(nodes, _numbers(0.5), t)
    assert nodes.depth.tolist() == [0, 1, 1]
    assert nodes.visits.tolist() == [12, 6, 6]


def test_hoo_trains_at_the_centre_of_all_rates_during_the_warm_up() -> None:
    assert descent(warmup=3).probe(plant(0.4, 0.8, 2), 2).flatten().tolist() == pytest.approx([0.6, 0.6])
