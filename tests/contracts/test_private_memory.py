"""A part may look at its client's samples with the received model, and keep on the client what has no fixed shape."""

from __future__ import annotations

import pytest
import torch
from federations import (
    LOOP,
    all_state,
    distance,
    fingerprint,
    run_rounds,
    simulate,
    small_model,
    unequal_federation,
)

from counterpoise.core.codec import decode, encode
from counterpoise.core.local import Local
from counterpoise.core.method import Method, build_method, compose
from counterpoise.core.part import ClientData, Part, Visit
from counterpoise.core.tree import Tree
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

ENGINES = {
    "loop": LOOP,
    "stacked": EngineSettings("stacked", "cpu", chunk=2),
    "processes": EngineSettings("loop", "cpu", processes=2),
}


def hard_samples() -> Part:
    """Trains each time on the half of its samples that the received model is least sure of; keeps which these were."""

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        sure = visit.look(data.rows).logits.softmax(-1)[torch.arange(len(data.labels)), data.labels]
        hard = sure.argsort(stable=True)[: -(-len(data.rows) // 2)].sort().values
        visits = visit.memory.get("visits", torch.zeros((), dtype=torch.int64)) + 1
        return ClientData(data.rows[hard], data.labels[hard]), {"rows": data.rows[hard], "visits": visits}

    return Part("hard_samples", prepare=prepare)


def run(engine: EngineSettings, base: str = "scaffold") -> Simulation:
    return simulate(compose(build_method(base), hard_samples()), engine=engine)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("base", ["fedavg", "scaffold"])
def test_every_engine_prepares_and_keeps_the_same(name: str, base: str) -> None:
    here, there = run(LOOP, base), run(ENGINES[name], base)
    try:
        expected, found = run_rounds(here), run_rounds(there)
        assert distance(all_state(here, expected), all_state(there, found)) < (
            1e-8 if name == "stacked" else 1e-300
        )
    finally:
        there.close()


def test_memory_has_the_shape_of_the_clients_own_data_and_counts_its_visits() -> None:
    sim = run(LOOP)
    run_rounds(sim)
    kept = {client: memory["hard_samples"] for client, memory in sim.engine.memory.items()}
    sizes = {0: 10, 1: 25, 2: 7, 3: 15, 4: 4, 5: 1}  # half of each client's samples, rounded up
    assert {client: len(own["rows"]) for client, own in kept.items()} == {k: sizes[k] for k in kept}
    assert int(kept[3]["visits"]) == 3  # of the cohorts (0, 1, 3), (2, 3, 4), (1, 3, 5)
    assert int(kept[0]["visits"]) == 1


def test_a_run_that_goes_on_from_bytes_ends_alike() -> None:
    whole, resumed = run(LOOP), run(LOOP)
    middle = run_rounds(whole, rounds=2)
    saved = decode(encode(all_state(whole, middle)))
    resumed.engine.memory.update({int(client): memory for client, memory in saved["memory"].items()})
    state = ServerState.from_tree(saved, round=2)
    last, continued = run_rounds(whole, middle, 1), run_rounds(resumed, state, 1)
    assert fingerprint(whole, last) == fingerprint(resumed, continued)


def test_a_memory_that_is_not_finite_is_never_kept() -> None:
    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return data, {"own": torch.full((len(data.rows),), torch.nan if len(data.rows) == 1 else 1.0)}

    sim = simulate(compose(Method(), Part("sick", prepare=prepare)), cohort=None)
    state, outcome = sim.advance(sim.open())
    assert [rejection.client for rejection in outcome.rejected] == [5]
    assert sorted(sim.engine.memory) == [0, 1, 2, 3, 4]
    assert state.round == 1


def test_a_look_is_the_received_model_in_evaluation_mode() -> None:
    seen: list[torch.Tensor] = []

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        assert data.held_out is not None
        seen.append(visit.look(data.held_out).logits)
        return data, {}

    model = small_model("mlp", hidden=[6], norm="batch")
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    sim = simulate(compose(Method(), Part("seer", prepare=prepare)), model=model, local=local, cohort=None)
    state = run_rounds(sim, rounds=1)
    seen.clear()
    sim.advance(state)
    federation = sim.work.federation
    module = sim.work.model.load(state.params, state.buffers)
    for client, logits in enumerate(seen):
        expected = module(federation.train.x[federation.held_out[client]]).detach()
        assert torch.allclose(logits, expected, atol=1e-12)
    assert len(seen) == len(unequal_federation().clients)
