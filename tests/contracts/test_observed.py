"""What a part observes of a client's own samples reaches its start and finish of the same round; nobody keeps it."""

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


def witness(also_steps: bool = True) -> Part:
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

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        assert set(stats.seen) <= {"features", "labels"}
        return {"labels": stats.seen["labels"]} if stats.seen else {}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return stats.seen | slot | ({"steps": stats.steps} if also_steps else {}), memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        seen, sent = slot["seen"], exchange.upload
        assert ("steps" in sent) == also_steps
        if "features" in sent:
            seen = seen + torch.cat([sent["features"].sum(0), sent["labels"].sum().view(1)])
        return delta, {"rounds": slot["rounds"] + 1, "seen": seen}

    return Part(
        "witness",
        init=init,
        send=send,
        observe=observe,
        prepare=prepare,
        start=start,
        finish=finish,
        update=update,
    )


def watched(base: str = "fedavg", also_steps: bool = True) -> Method:
    return compose(build_method(base), witness(also_steps))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("base", ["fedavg", "scaffold"])
@pytest.mark.parametrize("also_steps", [True, False])
def test_every_engine_observes_the_same(name: str, base: str, also_steps: bool) -> None:
    here, there = (simulate(watched(base, also_steps), engine=one) for one in (LOOP, ENGINES[name]))
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


def test_what_is_observed_does_not_leave_the_client_by_itself() -> None:
    def observe(data: ClientData, visit: Visit) -> Tree:
        return {"own": data.labels.double().mean()}

    sim, plain = simulate(compose(Method(), Part("quiet", observe=observe))), simulate("fedavg")
    (_, outcome), (_, without) = sim.advance(sim.open()), plain.advance(plain.open())
    assert outcome.bytes_up == without.bytes_up


def test_no_part_sees_what_another_observed() -> None:
    def observe(data: ClientData, visit: Visit) -> Tree:
        return {"own": data.labels.double().mean()}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        assert stats.seen == {}
        return {}

    sim = simulate(compose(Method(), Part("sees", observe=observe), Part("does not", start=start)))
    sim.advance(sim.open())
