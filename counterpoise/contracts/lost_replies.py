"""A reply that cannot be used counts as not given: its memory is forgotten, and the others count as ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from counterpoise.contracts.altered import altered
from counterpoise.contracts.contract import ContractError, require_close, require_same
from counterpoise.contracts.small import LOOP, STACKED, all_state, ask_clients, simulate
from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import Part, Stats, Step
from counterpoise.core.tree import Params, Tree, take, tmap
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.simulation import Simulation

COHORT, BAD = (0, 1, 2, 4), 2
Damage: TypeAlias = Callable[[Tensor], Tensor]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "nan": (lambda row: torch.full_like(row, torch.nan), "not finite"),
    "inf": (lambda row: torch.full_like(row, torch.inf), "not finite"),
    "minus inf": (lambda row: torch.full_like(row, -torch.inf), "not finite"),
    "huge": (lambda row: torch.full_like(row, 1e38), "exploded"),
}


def with_rows(replies: Replies, kept: Tensor) -> Replies:
    return Replies(**take(replies._asdict(), kept))


def drop(client: int) -> Callable[[Replies], Replies]:
    """One client does not answer."""
    return lambda replies: with_rows(replies, torch.nonzero(replies.client != client).flatten())


def spoil(client: int, damage: Damage) -> Callable[[Replies], Replies]:
    """The first parameter of one client's update is damaged."""

    def alter(replies: Replies) -> Replies:
        name, hit = sorted(replies.delta)[0], replies.client == client
        delta = replies.delta[name]
        broken = torch.where(hit.view(-1, *[1] * (delta.ndim - 1)), damage(delta), delta)
        return replies._replace(delta=replies.delta | {name: broken})

    return alter


def _two_rounds(spec: MethodSpec, alter: Callable[[Replies], Replies]) -> tuple[Tree, Sequence[str]]:
    """A sound round, then one with altered replies: the state after it and why replies were refused."""
    sim = simulate(spec)
    first, _ = ask_clients(sim, sim.open(), COHORT)
    changed = altered(sim, alter)
    second, outcome = ask_clients(changed, first, COHORT)
    if outcome.skipped or any(rejection.client != BAD for rejection in outcome.rejected):
        raise ContractError(f"of a round with one bad reply no other may be lost, not {outcome.rejected}")
    return all_state(changed, second), [rejection.reason for rejection in outcome.rejected]


def bad_reply_is_none(spec: MethodSpec, damage: str = "nan") -> None:
    """A bad update equals no answer, bit for bit."""
    spoilt, reason = DAMAGES[damage]
    found, reasons = _two_rounds(spec, spoil(BAD, spoilt))
    expected, none = _two_rounds(spec, drop(BAD))
    if none or len(reasons) != 1 or reason not in reasons[0]:
        raise ContractError(f"an update of {damage} must be refused as {reason}, not {reasons}")
    require_same(found, expected, "a reply that was refused leaves a trace")


def bad_round_is_skipped(spec: MethodSpec) -> None:
    """A round of bad updates changes nothing."""
    sim = simulate(spec)
    first, _ = ask_clients(sim, sim.open(), COHORT)
    before = tmap(torch.clone, all_state(sim, first))
    worthless = altered(
        sim, lambda replies: replies._replace(delta=tmap(lambda d: d * torch.nan, replies.delta))
    )
    after, outcome = ask_clients(worthless, first, COHORT)
    refused = sorted({rejection.client for rejection in outcome.rejected})
    if not outcome.skipped or refused != list(COHORT) or after.round != first.round + 1:
        raise ContractError("a round without any usable reply is not skipped")
    require_same(all_state(worthless, after), before, "a round that is skipped leaves a trace")


def diverged_client_is_left_out(spec: MethodSpec) -> None:
    """A client whose gradients turn to NaN counts as not asked, and its memory stays as it was."""
    for engine in (LOOP, replace(STACKED, chunk=3)):
        _diverged_client_is_left_out(spec, engine)


def _diverged_client_is_left_out(spec: MethodSpec, engine: EngineSettings) -> None:
    ill = simulate(compose(build_method(spec), sick_client(BAD, simulate(spec))), engine=engine)
    well = simulate(spec, engine=engine)
    found, outcome = ask_clients(ill, ill.open(), COHORT)
    expected, _ = ask_clients(well, well.open(), [client for client in COHORT if client != BAD])
    if [rejection.client for rejection in outcome.rejected] != [BAD] or BAD in ill.engine.memory:
        raise ContractError("a client that diverged must be refused, and its memory forgotten")
    require_close(
        all_state(ill, found), all_state(well, expected), 1e-12, "a client that diverged leaves a trace"
    )


def sick_client(client: int, sim: Simulation) -> Part:
    """Gradients turn to NaN on the client with these class counts."""
    counts = sim.work.federation.counts()[client]

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"sick": (stats.counts == counts).all()}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return tmap(lambda g: torch.where(slot["sick"], torch.nan, g), grads), slot

    return Part("sick", start=start, adjust=adjust)
