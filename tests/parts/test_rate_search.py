"""The frame of a search: who shares a rate, how many models that makes, which replies are taken, and what is shown."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.messages import Replies
from counterpoise.core.part import Census, Part
from counterpoise.core.tree import Tree
from counterpoise.errors import ConfigError
from counterpoise.methods.fedhoo import tree_search
from counterpoise.methods.hoo import descent
from counterpoise.parts.rate_search import COLUMNS, cluster_clients, rate_search


def _search(warmup: int = 0, clusters: int | None = None, depth: int = 5, high: float = 0.8) -> Part:
    return rate_search("fedhoo", tree_search(depth=depth), 0.4, high, warmup, clusters)


def _open(part: Part, samples: Sequence[int], counts: list[list[int]] | None = None) -> Tree:
    assert part.init is not None
    surveys = {} if counts is None else {"counts": torch.tensor(counts)}
    return part.init({}, Census(torch.tensor(samples), 3, 10), surveys)


def _round(
    part: Part, slot: Tree, clients: Sequence[int], rewards: Sequence[float]
) -> tuple[Tensor, Tensor, Tree]:
    """The rows taken, the selections judged, and the next slot."""
    assert part.propose is not None
    assert part.choose is not None
    owners = torch.tensor([task.client for task in part.propose(slot, 0, clients)])
    seen: list[Tensor] = []

    def judge(selections: Tensor) -> Tensor:
        seen.append(selections)
        return torch.tensor(rewards, dtype=torch.float64)

    replies = Replies(owners, owners, {}, {}, {}, torch.zeros(len(owners)))
    rows, after = part.choose(slot, replies, judge)
    return rows, seen[0], after


def _rates(part: Part, slot: Tree, clients: Sequence[int]) -> list[tuple[int, float]]:
    assert part.propose is not None
    return [(task.client, round(task.knobs["rate"], 6)) for task in part.propose(slot, 0, clients)]


def test_every_client_trains_at_both_probes_and_all_mixtures_are_judged_in_one_call() -> None:
    part = _search()
    slot = _open(part, [5, 5])
    assert _rates(part, slot, [0, 1]) == [(0, 0.5), (0, 0.7), (1, 0.5), (1, 0.7)]
    rows, judged, after = _round(part, slot, [0, 1], [0.1, 0.2, 0.4, 0.3])
    assert judged.tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert rows.tolist() == [1, 2]
    assert after["rates"].tolist() == pytest.approx([0.7, 0.5])
    assert float(after["reward"]) == 0.4
    # the third quadrant: [0.6, 0.8] x [0.4, 0.6]
    assert _rates(part, after, [0, 1]) == [(0, 0.65), (0, 0.75), (1, 0.45), (1, 0.55)]


def test_the_first_of_equal_mixtures_is_taken() -> None:
    part = _search()
    rows, _, after = _round(part, _open(part, [5, 5]), [0, 1], [0.1, 0.4, 0.4, 0.4])
    assert rows.tolist() == [0, 3]
    assert after["rates"].tolist() == pytest.approx([0.5, 0.7])


def test_the_warm_up_probes_the_root_keeps_the_best_model_and_records_nothing() -> None:
    part = _search(warmup=3)
    slot = _open(part, [5])
    root = slot["nodes"]
    for reward in (0.3, 0.2, 0.9):
        assert _rates(part, slot, [0]) == [(0, 0.5), (0, 0.7)]
        rows, _, slot = _round(part, slot, [0], [0.1, reward])
        assert rows.tolist() == [1]
        assert all(torch.equal(slot["nodes"][key], root[key]) for key in root)
    _, _, slot = _round(part, slot, [0], [0.1, 0.2])
    assert len(slot["nodes"]["parent"]) == 3
    assert int(slot["rounds"]) == 4


def test_clients_without_samples_take_no_part() -> None:
    part = _search()
    slot = _open(part, [5, 0, 5])
    assert slot["cluster"].tolist() == [0, -1, 1]
    rows, judged, after = _round(part, slot, [0, 2], [0.1, 0.2, 0.4, 0.3])
    assert judged.shape == (4, 2)
    assert rows.tolist() == [1, 2]
    assert after["rates"].tolist() == pytest.approx([0.7, 0.0, 0.5])


def test_clients_of_like_classes_share_a_rate() -> None:
    counts = [[9, 1, 0], [0, 0, 7], [90, 10, 0], [0, 1, 60], [5, 0, 0]]
    part = _search(clusters=2)
    slot = _open(part, [10, 7, 100, 61, 5], counts)
    assert slot["cluster"].tolist() == [0, 1, 0, 1, 0]
    rows, judged, after = _round(part, slot, range(5), [0.1, 0.2, 0.9, 0.3])
    assert judged.tolist() == [[0, 2, 4, 6, 8], [0, 3, 4, 7, 8], [1, 2, 5, 6, 9], [1, 3, 5, 7, 9]]
    assert rows.tolist() == [1, 2, 5, 6, 9]
    assert after["rates"].tolist() == pytest.approx([0.7, 0.5, 0.7, 0.5, 0.7])


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=9), st.integers(1, 9)
)
def test_there_are_as_many_clusters_as_asked_for(counts: list[list[int]], clusters: int) -> None:
    owners = [row for row in counts if sum(row)]
    if clusters > len(owners):
        with pytest.raises(ConfigError, match=f"clusters must be 1 to {len(owners)}.* not {clusters}"):
            cluster_clients("fedhoo", torch.tensor(counts), clusters)
        return
    found = cluster_clients("fedhoo", torch.tensor(counts), clusters).tolist()
    numbers = [number for number in found if number >= 0]
    assert sorted(set(numbers)) == list(range(clusters))
    assert list(dict.fromkeys(numbers)) == list(range(clusters))
    assert [number < 0 for number in found] == [not sum(row) for row in counts]


def test_clients_are_told_apart_by_proportions_not_by_size() -> None:
    counts = torch.tensor([[1000, 10], [10, 1000], [100, 1], [1, 100]])
    assert cluster_clients("fedhoo", counts, 2).tolist() == [0, 1, 0, 1]


def test_many_models_a_round_are_warned_of_and_too_many_refused(caplog: pytest.LogCaptureFixture) -> None:
    part = _search()
    with caplog.at_level(logging.WARNING, "counterpoise"):
        _open(part, [1] * 8)
        assert not caplog.records
        _open(part, [1] * 9)
    assert len(caplog.records) == 1
    assert "512 models" in caplog.text
    assert "clusters" in caplog.text
    with pytest.raises(
        ConfigError, match=r"8192 models .*; at most 12 clients, or clusters = 1 to 12"
    ) as caught:
        _open(part, [1] * 13)
    assert len(str(caught.value).splitlines()) == 1
    _open(_search(clusters=5), [1] * 13, [[k, 1, 0] for k in range(13)])


def test_hoo_trains_once_and_so_takes_more_clients(caplog: pytest.LogCaptureFixture) -> None:
    part = rate_search("hoo", descent(warmup=0), 0.4, 0.8, 0, None)
    with pytest.raises(ConfigError, match="at most 30 clients, or clusters = 1 to 30"):
        _open(part, [1] * 31)
    slot = _open(part, [1] * 20)
    assert not caplog.records
    assert _rates(part, slot, [0, 19]) == [(0, 0.5), (19, 0.5)]
    rows, judged, after = _round(part, slot, range(20), [0.3])
    assert judged.shape == (1, 20)
    assert rows.tolist() == list(range(20))
    # only the last rate moves to its upper half
    assert _rates(part, after, [0, 19]) == [(0, 0.5), (19, 0.7)]


def test_a_lower_end_above_the_upper_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"low must be at most high = 0\.3, not 0\.4"):
        _search(high=0.3)


def test_the_outline_holds_visited_nodes_and_the_best_children_with_their_new_rows() -> None:
    part = _search()
    slot = _open(part, [1] * 4)
    _, _, slot = _round(part, slot, range(4), [k / 100 for k in range(16)])
    chart = part.charts[2].read(slot)
    assert chart.shape == (9, len(COLUMNS))  # the root and its eight best children
    assert chart[:, 0].tolist() == [-1] + [0] * 8
    assert chart[1:, 3].tolist() == pytest.approx([k / 100 for k in range(8, 16)])
    _, _, slot = _round(part, slot, range(4), [0.2] * 16)
    chart = part.charts[2].read(slot)
    assert len(chart) == 17
    assert chart[9:, 0].tolist() == [8.0] * 8  # the best child, the last row before
    assert chart[9:, 1].tolist() == [2.0] * 8
    assert chart[0, 2] == 32
