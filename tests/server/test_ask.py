"""A rule that weighs clients may ask other clients to judge their models."""

from __future__ import annotations

from dataclasses import replace

from federations import CLASSES, ask_clients, simulate, unequal_federation
from judged import WORKERS, judged, weigh_by_hits

from counterpoise.core.method import build_method, compose
from counterpoise.core.part import Exchange, Part
from counterpoise.core.tree import Tree, bytes_of
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState


def _hits_by_hand(sim: Simulation, state: ServerState, client: int, workers: tuple[int, ...]) -> int:
    single = simulate("fedavg")
    local, _ = ask_clients(single, state, [client])
    federation, hits = sim.work.federation, 0
    for worker in workers:
        held = federation.train.take(federation.held_out[worker])
        said, _ = sim.work.model.apply(local.params, local.buffers, held.x, train=False)
        hits += int((said.logits.argmax(1) == held.y).sum())
    return hits


def test_models_are_judged_by_their_workers_alone() -> None:
    sim = simulate(judged())
    before = sim.open()
    state, _ = ask_clients(sim, before, [1, 3])
    expected = [_hits_by_hand(sim, before, client, workers) for client, workers in WORKERS.items()]
    assert state.slots["judged"]["hits"].tolist() == expected
    assert state.slots["judged"]["judged"].tolist() == [9, 6]
    assert sim.diagnostics(state)["diagnostics"]["judged"]["hits"] == expected


def test_what_workers_receive_and_answer_is_counted() -> None:
    sim, plain = simulate(judged()), simulate("fedavg")
    state, outcome = ask_clients(sim, sim.open(), [1, 3])
    _, without = ask_clients(plain, plain.open(), [1, 3])
    assert outcome.bytes_down - without.bytes_down == 5 * bytes_of(state.params)
    answers = outcome.bytes_up - without.bytes_up
    assert 5 * 8 * CLASSES**2 <= answers < 5 * 8 * (CLASSES**2 + 100)


def test_a_client_that_holds_nothing_out_judges_on_what_it_trains_on() -> None:

    federation = replace(unequal_federation(), held_out=())
    sim = simulate(judged(), federation=federation)
    state, _ = ask_clients(sim, sim.open(), [1, 3])
    sizes = federation.samples().tolist()
    assert state.slots["judged"]["judged"].tolist() == [
        sum(sizes[worker] for worker in workers) for workers in WORKERS.values()
    ]


def test_what_a_weigher_keeps_reaches_its_update_in_the_same_round() -> None:
    seen: list[Tree] = []

    def update(delta: Tree, slot: Tree, exchange: Exchange) -> tuple[Tree, Tree]:
        seen.append(slot)
        return delta, slot

    sim = simulate(compose(build_method("fedavg"), Part("judged", weigh=weigh_by_hits, update=update)))
    ask_clients(sim, sim.open(), [1, 3])
    assert seen[0]["judged"].tolist() == [9, 6]
