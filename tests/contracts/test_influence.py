"""One update counts for at most `max_influence` medians of its round: by hand, in every engine, and against an attack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import LOOP, STACKED, Altered, all_state, ask_clients, digest, distance, simulate

import counterpoise as cp
from counterpoise.core.messages import Replies
from counterpoise.core.tree import tmap
from counterpoise.errors import ConfigError
from counterpoise.server.cohort import Cohort
from counterpoise.server.replies import limit_influence

COHORT = (0, 1, 2, 4)
MODEL = {"w": torch.ones(1, dtype=torch.float64)}


def replies(*rows: list[float]) -> Replies:
    delta = {"w": torch.tensor(rows, dtype=torch.float64)}
    count = len(rows)
    return Replies(
        torch.arange(count), torch.ones(count, dtype=torch.int64), delta, {}, {}, torch.zeros(count)
    )


def test_an_update_longer_than_ten_medians_is_shortened_to_that() -> None:
    """Lengths 1, 2, 5 and 300: torch's median is the lower of the middle two, so the bound is 20."""
    found, clipped = limit_influence(replies([1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [180.0, 240.0]), 10.0, MODEL)
    assert found.delta["w"].tolist() == [[1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [12.0, 16.0]]
    assert [(c.client, c.norm, c.bound) for c in clipped] == [(3, 300.0, 20.0)]


@pytest.mark.parametrize(
    "rows", [([1.0], [500.0]), ([0.0], [0.0], [7.0]), ([1.0], [2.0], [9.0]), ([1e-17], [1e-17], [0.1])]
)
def test_two_replies_no_median_but_rounding_or_no_long_one_change_nothing(
    rows: tuple[list[float], ...],
) -> None:
    given = replies(*rows)
    found, clipped = limit_influence(given, 10.0, MODEL)
    assert found is given
    assert clipped == ()


def test_without_a_bound_nothing_is_shortened() -> None:
    given = replies([1.0], [1.0], [1e6])
    assert limit_influence(given, None, MODEL) == (given, ())


def _hostile(found: Replies) -> Replies:
    """The last client adds 3 to every weight."""
    last = torch.zeros(len(found.client)).index_fill(0, torch.tensor([len(found.client) - 1]), 3.0)
    return found._replace(
        delta=tmap(lambda leaf: leaf + last.to(leaf.dtype).view(-1, *[1] * (leaf.dim() - 1)), found.delta)
    )


def _attacked(engine: Any, bound: float) -> tuple[Any, Any, Any]:
    sim = simulate("fedavg", engine=engine)
    sim = replace(sim, engine=Altered(sim.engine, _hostile), cohort=replace(sim.cohort, max_influence=bound))
    state, outcome = ask_clients(sim, sim.open(), COHORT)
    return sim, state, outcome


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_a_reply_of_plus_three_is_shortened_counted_and_named_in_every_engine(engine: Any) -> None:
    _, state, outcome = _attacked(engine, 10.0)
    (row,) = outcome.row()["clipped"]
    assert row["client"] == COHORT[-1]
    assert row["norm"] > row["bound"] > 0
    assert outcome.rejected == ()
    _, free, unbound = _attacked(engine, 0.0)
    assert unbound.clipped == ()
    assert distance({"p": free.params}, {"p": state.params}) > 0.1


def test_engines_agree_on_what_is_shortened() -> None:
    states = [all_state(sim, state) for sim, state, _ in (_attacked(LOOP, 10.0), _attacked(STACKED, 10.0))]
    assert distance(*states) < 1e-8


def test_an_honest_round_is_the_same_with_and_without_the_bound() -> None:
    found = []
    for bound in (0.0, 10.0):
        sim = simulate("scaffold")
        sim = replace(sim, cohort=replace(sim.cohort, max_influence=bound))
        state, outcome = ask_clients(sim, sim.open(), COHORT)
        found.append(digest(all_state(sim, state)))
        assert outcome.clipped == ()
    assert found[0] == found[1]


def test_bounds_below_one_median_are_refused() -> None:
    for bound in (0.5, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="max_influence"):
            Cohort(max_influence=bound)


def test_the_summary_counts_what_was_shortened() -> None:
    data = cp.load_data("digits", imbalance=5.0)
    federation = cp.split(data, "dirichlet", clients=4, alpha=0.5, seed=0)
    tight = cp.simulate(federation, rounds=2, cohort=cp.Cohort(max_influence=1.0))
    assert tight["clipped_replies"] == sum(len(row["clipped"]) for row in tight.rows) > 0
    assert cp.simulate(federation, rounds=2)["clipped_replies"] == 0
