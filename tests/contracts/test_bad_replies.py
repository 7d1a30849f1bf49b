"""A reply that cannot be used counts as not given: named with a reason, its memory forgotten, the others as ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    altered,
    ask_clients,
    distance,
    every_spec,
    fingerprint,
    lenient_specs,
    simulate,
    spec_name,
)
from torch import Tensor

from counterpoise.contracts.lost_replies import (
    BAD,
    COHORT,
    DAMAGES,
    bad_reply_is_none,
    bad_round_is_skipped,
    diverged_client_is_left_out,
    drop,
    with_rows,
)
from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import Part, Stats
from counterpoise.core.tree import Params, Tree, tmap
from counterpoise.engines.choose import EngineSettings
from counterpoise.server.replies import MAX_GROWTH, check_replies


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("spec", lenient_specs(), ids=spec_name)
def test_a_bad_update_equals_no_answer_bit_for_bit(spec: MethodSpec, damage: str) -> None:
    bad_reply_is_none(spec, damage)


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_round_of_bad_updates_is_skipped_and_changes_nothing(spec: MethodSpec) -> None:
    bad_round_is_skipped(spec)


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova"])
def test_a_round_without_any_answer_is_skipped_and_changes_nothing(spec: MethodSpec) -> None:
    sim = simulate(spec)
    first, _ = ask_clients(sim, sim.open(), COHORT)
    before = fingerprint(sim, first)
    silent = altered(sim, lambda replies: with_rows(replies, torch.arange(0)))
    after, outcome = ask_clients(silent, first, COHORT)
    assert outcome.skipped
    assert fingerprint(silent, after) == before


@pytest.mark.parametrize("engine", [LOOP, replace(STACKED, chunk=2)], ids=["loop", "stacked"])
def test_a_round_that_asks_nobody_is_skipped_and_changes_nothing(engine: EngineSettings) -> None:
    sim = simulate("fedavg", engine=engine)
    state = sim.open()
    after, outcome = ask_clients(sim, state, ())
    assert outcome.skipped
    assert fingerprint(sim, after) == fingerprint(sim, state)


@pytest.mark.parametrize("spec", lenient_specs(), ids=spec_name)
def test_a_client_that_diverges_is_left_out_and_its_memory_is_kept_as_it_was(spec: MethodSpec) -> None:
    diverged_client_is_left_out(spec)


def test_a_client_whose_memory_alone_is_bad_is_refused() -> None:
    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"count": torch.zeros(())}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        lone = stats.counts.sum() == 1
        return {}, {"count": torch.where(lone, torch.nan, memory["count"] + 1)}

    sim = simulate(compose(build_method("fedavg"), Part("diary", enroll=enroll, finish=finish)))
    _, outcome = ask_clients(sim, sim.open(), range(6))
    assert [rejection.client for rejection in outcome.rejected] == [5]
    assert sorted(sim.engine.memory) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("field", ["loss", "buffers", "upload"])
def test_a_reply_is_refused_where_anything_in_it_is_not_finite(field: str) -> None:
    bad = torch.tensor([0.0, torch.nan, 1.0])
    spoilt: dict[str, Any] = {
        "loss": bad,
        "buffers": {"running_mean": bad},
        "upload": {"part": {"x": bad}},
    }
    replies = _replies(torch.zeros(3, 2))._replace(**{field: spoilt[field]})
    kept, rejected = check_replies(replies, {"w": torch.ones(2)})
    assert kept.client.tolist() == [0, 2]
    assert [(r.client, r.reason) for r in rejected] == [(1, "not finite")]


def test_an_update_may_be_as_large_as_the_bound_and_no_larger() -> None:
    params = {"w": torch.tensor([3.0, 4.0])}  # norm 5
    rows = torch.tensor([[5 * MAX_GROWTH, 0.0], [5 * MAX_GROWTH * 1.001, 0.0], [0.0, 0.0]])
    kept, rejected = check_replies(_replies(rows), params)
    assert kept.client.tolist() == [0, 2]
    assert rejected[0].client == 1
    assert rejected[0].reason.startswith("exploded: norm 5e+03 over 5e+03")


def test_the_bound_of_a_model_of_zeros_is_that_of_norm_one() -> None:
    rows = torch.tensor([[MAX_GROWTH / 2, 0.0], [2 * MAX_GROWTH, 0.0], [0.0, 0.0]])
    kept, _ = check_replies(_replies(rows), {"w": torch.zeros(2)})
    assert kept.client.tolist() == [0, 2]


def _replies(rows: Tensor) -> Replies:
    count = len(rows)
    return Replies(torch.arange(count), torch.full((count,), 10), {"w": rows}, {}, {}, torch.zeros(count))


def test_replies_of_clients_that_did_not_answer_are_not_counted_as_replies() -> None:
    sim = simulate("fedavg")
    _, outcome = ask_clients(altered(sim, drop(BAD)), sim.open(), COHORT)
    assert outcome.replied == len(COHORT) - 1


def test_control_variates_stay_at_the_mean_of_the_clients_when_answers_are_lost() -> None:
    sim = simulate("scaffold")
    state = sim.open()
    for lost in [*range(6), *range(6)]:
        state, _ = ask_clients(
            altered(sim, drop(lost)), state, sorted({lost, (lost + 1) % 6, (lost + 3) % 6})
        )
    control = state.slots["control_variates"]["control"]
    zero = tmap(torch.zeros_like, control)
    own = [sim.engine.memory.get(k, {"control_variates": {"control": zero}}) for k in range(6)]
    mean = {
        name: torch.stack([m["control_variates"]["control"][name] for m in own]).mean(0) for name in control
    }
    assert distance(control, zero) > 1e-2
    assert distance(control, mean) < 1e-14
