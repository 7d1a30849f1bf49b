"""A reply that cannot be used counts as not given: named with a reason, its memory forgotten, the others as ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    all_state,
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

from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import Part, Stats, Step
from counterpoise.core.tree import Params, Tree, take, tmap
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.simulation import Simulation
from counterpoise.server.replies import MAX_GROWTH, check_replies

COHORT, BAD = (0, 1, 2, 4), 2
Damage = Callable[[Tensor], Tensor]

DAMAGES: dict[str, tuple[Damage, str]] = {
    "nan": (lambda row: torch.full_like(row, torch.nan), "not finite"),
    "inf": (lambda row: torch.full_like(row, torch.inf), "not finite"),
    "minus inf": (lambda row: torch.full_like(row, -torch.inf), "not finite"),
    "huge": (lambda row: torch.full_like(row, 1e38), "exploded"),
}


def _with_rows(replies: Replies, kept: Tensor) -> Replies:
    return Replies(**take(replies._asdict(), kept))


def _drop(client: int) -> Callable[[Replies], Replies]:
    return lambda replies: _with_rows(replies, torch.nonzero(replies.client != client).flatten())


def _spoil(client: int, damage: Damage) -> Callable[[Replies], Replies]:
    """The first parameter of one client's update is damaged."""

    def alter(replies: Replies) -> Replies:
        name, hit = sorted(replies.delta)[0], replies.client == client
        delta = replies.delta[name]
        broken = torch.where(hit.view(-1, *[1] * (delta.ndim - 1)), damage(delta), delta)
        return replies._replace(delta=replies.delta | {name: broken})

    return alter


def _two_rounds(sim: Simulation, alter: Callable[[Replies], Replies]) -> tuple[str, tuple[str, ...]]:
    """A sound round, then one with altered replies: the fingerprint after it and why replies were refused."""
    first, _ = ask_clients(sim, sim.open(), COHORT)
    changed = altered(sim, alter)
    second, outcome = ask_clients(changed, first, COHORT)
    assert not outcome.skipped
    assert all(rejection.client == BAD for rejection in outcome.rejected)
    return fingerprint(changed, second), tuple(rejection.reason for rejection in outcome.rejected)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("spec", lenient_specs(), ids=spec_name)
def test_a_bad_update_equals_no_answer_bit_for_bit(spec: MethodSpec, damage: str) -> None:
    spoil, reason = DAMAGES[damage]
    found, reasons = _two_rounds(simulate(spec), _spoil(BAD, spoil))
    expected, none = _two_rounds(simulate(spec), _drop(BAD))
    assert len(reasons) == 1
    assert reason in reasons[0]
    assert none == ()
    assert found == expected


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_round_of_bad_updates_is_skipped_and_changes_nothing(spec: MethodSpec) -> None:
    sim = simulate(spec)
    first, _ = ask_clients(sim, sim.open(), COHORT)
    before = fingerprint(sim, first)
    everyone_bad = altered(
        sim, lambda replies: replies._replace(delta=tmap(lambda d: d * torch.nan, replies.delta))
    )
    after, outcome = ask_clients(everyone_bad, first, COHORT)
    assert outcome.skipped
    assert sorted({rejection.client for rejection in outcome.rejected}) == list(COHORT)
    assert after.round == first.round + 1
    assert fingerprint(everyone_bad, after) == before


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova"])
def test_a_round_without_any_answer_is_skipped_and_changes_nothing(spec: MethodSpec) -> None:
    sim = simulate(spec)
    first, _ = ask_clients(sim, sim.open(), COHORT)
    before = fingerprint(sim, first)
    silent = altered(sim, lambda replies: _with_rows(replies, torch.arange(0)))
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


def _sick_client(client: int, sim: Simulation) -> Part:
    """Gradients turn to NaN on the client with these class counts."""
    counts = sim.work.federation.counts()[client]

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"sick": (stats.counts == counts).all()}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return tmap(lambda g: torch.where(slot["sick"], torch.nan, g), grads), slot

    return Part("sick", start=start, adjust=adjust)


@pytest.mark.parametrize("engine", [LOOP, replace(STACKED, chunk=3)], ids=["loop", "stacked"])
@pytest.mark.parametrize("spec", lenient_specs(), ids=spec_name)
def test_a_client_that_diverges_is_left_out_and_its_memory_is_kept_as_it_was(
    spec: MethodSpec, engine: EngineSettings
) -> None:
    sick = compose(build_method(spec), _sick_client(BAD, simulate(spec)))
    ill, well = simulate(sick, engine=engine), simulate(spec, engine=engine)
    found, outcome = ask_clients(ill, ill.open(), COHORT)
    expected, _ = ask_clients(well, well.open(), [client for client in COHORT if client != BAD])
    assert [rejection.client for rejection in outcome.rejected] == [BAD]
    assert BAD not in ill.engine.memory
    assert distance(all_state(ill, found), all_state(well, expected)) < 1e-12


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
    _, outcome = ask_clients(altered(sim, _drop(BAD)), sim.open(), COHORT)
    assert outcome.replied == len(COHORT) - 1


def test_control_variates_stay_at_the_mean_of_the_clients_when_answers_are_lost() -> None:
    sim = simulate("scaffold")
    state = sim.open()
    for lost in [*range(6), *range(6)]:
        state, _ = ask_clients(
            altered(sim, _drop(lost)), state, sorted({lost, (lost + 1) % 6, (lost + 3) % 6})
        )
    control = state.slots["control_variates"]["control"]
    zero = tmap(torch.zeros_like, control)
    own = [sim.engine.memory.get(k, {"control_variates": {"control": zero}}) for k in range(6)]
    mean = {
        name: torch.stack([m["control_variates"]["control"][name] for m in own]).mean(0) for name in control
    }
    assert distance(control, zero) > 1e-2
    assert distance(control, mean) < 1e-14
