"""A part may send what it observes of a client's own samples, in rounds of its choice; nobody keeps it."""

from __future__ import annotations

import pytest
import torch
from federations import LOOP, all_state, distance, run_rounds, simulate

from counterpoise.core.method import Method, build_method, compose
from counterpoise.core.part import Census, ClientData, Exchange, Part, Stats, Visit
from counterpoise.core.tree import Params, Tree
from counterpoise.engines.choose import EngineSettings

ENGINES = {
    "loop": LOOP,
    "stacked": EngineSettings("stacked", "cpu", chunk=2),
    "processes": EngineSettings("loop", "cpu", processes=2),
}


def witness(also_finish: bool = True) -> Part:
    """In rounds 1 and later adds up the clients' features and labels; training sees only the first half of the samples."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"rounds": torch.zeros((), dtype=torch.int64), "seen": torch.zeros(6 + 1, dtype=torch.float64)}

    def send(slot: Tree, round: int) -> Tree:
        return {"look": slot["rounds"]} if round else {}

    def observe(data: ClientData, visit: Visit) -> Tree:
        if "look" not in visit.shared:
            return {}
        features = visit.look(data.rows).features.double().sum(0)
        return {"features": features, "labels": data.labels.double().sum()}

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        half = -(-len(data.rows) // 2)
        return ClientData(data.rows[:half], data.labels[:half]), visit.memory

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"steps": stats.steps}, memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        seen, sent = slot["seen"], exchange.upload
        assert ("steps" in sent) == also_finish
        if "features" in sent:
            seen = seen + torch.cat([sent["features"].sum(0), sent["labels"].sum().view(1)])
        return delta, {"rounds": slot["rounds"] + 1, "seen": seen}

    sending = finish if also_finish else None
    return Part(
        "witness", init=init, send=send, observe=observe, prepare=prepare, finish=sending, update=update
    )


def watched(base: str = "fedavg", also_finish: bool = True) -> Method:
    return compose(build_method(base), witness(also_finish))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("base", ["fedavg", "scaffold"])
@pytest.mark.parametrize("also_finish", [True, False])
def test_every_engine_observes_the_same(name: str, base: str, also_finish: bool) -> None:
    here, there = (simulate(watched(base, also_finish), engine=one) for one in (LOOP, ENGINES[name]))
    try:
        expected, found = run_rounds(here), run_rounds(there)
        assert float(found.slots["witness"]["seen"].abs().min()) > 0
        assert distance(all_state(here, expected), all_state(there, found)) < (
            1e-8 if name == "stacked" else 1e-300
        )
    finally:
        there.close()


def test_what_is_observed_is_of_all_own_samples_under_the_received_model() -> None:
    sim = simulate(watched())
    before = run_rounds(sim, rounds=1)
    after, outcome = sim.advance(before)
    federation = sim.work.federation
    rows = torch.cat([federation.clients[client] for client in (2, 3, 4)])  # the cohort of round 1
    features = sim.module(before).features(federation.train.x[rows]).detach().sum(0)  # type: ignore[operator]
    assert torch.allclose(after.slots["witness"]["seen"][:6], features, atol=1e-12)
    assert int(after.slots["witness"]["seen"][6]) == int(federation.train.y[rows].sum())
    assert dict(sim.engine.memory) == {}
    assert outcome.replied == 3


def test_what_is_observed_and_not_finite_is_rejected() -> None:
    def observe(data: ClientData, visit: Visit) -> Tree:
        return {"own": torch.tensor(torch.nan if len(data.rows) == 1 else 1.0)}

    sim = simulate(compose(Method(), Part("sick", observe=observe)), cohort=None)
    _, outcome = sim.advance(sim.open())
    assert [rejection.client for rejection in outcome.rejected] == [5]
