"""What a run carries: memory counts, off values switch a part off, replies may come in any order, bytes keep state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from federations import (
    all_state,
    ask_clients,
    distance,
    every_spec,
    fingerprint,
    lenient_specs,
    recorded,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)

from counterpoise.core.codec import decode, digest, encode
from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.method import METHODS, PARTS, Method, MethodSpec, build_method, find_entry
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, flatten, take
from counterpoise.metrics.scoring import count
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import ServerState

EVERYONE = range(6)
# By their defaults these are FedAvg; short updates are not clipped (tests/parts/test_robust.py), cosines are only shown,
# labels change after nine tenths of a run, which five rounds do not have (tests/methods/test_fedrela.py), and no client's
# loss is 1 above the mean (tests/methods/test_climb.py). Nobody is far behind the others (tests/parts/test_peer_review.py).
PLAIN = {
    "fedavg",
    "cross_entropy",
    "server_step",
    "clip_updates",
    "epoch_growth",
    "layer_cosines",
    "relabel",
    "fedrela",
    "climb",
    "loss_duals",
    "peer_review",
}
MESSAGES = {"loss_duals"}  # parts whose memory is only what `prepare` tells `finish` in the same round


def _keeps_memory(spec: MethodSpec) -> bool:
    return any(part.enroll is not None for part in build_method(spec).parts)


def _same_weighting(method: Method) -> MethodSpec:
    return {"fedavg": {"weighting": method.weighting}}


def _alone(name: str, arguments: dict[str, Any] | None = None) -> MethodSpec:
    """A method by itself, or a part on FedAvg."""
    item = {name: arguments or {}}
    return item if name in METHODS else ["fedavg", item]


def _remembers(spec: MethodSpec) -> bool:
    return any(part.enroll and part.name not in MESSAGES for part in build_method(spec).parts)


def _used(sim: Simulation, state: ServerState) -> Tree:
    """The model that is scored, and how the models do that the clients themselves would use."""
    params, buffers = sim.presented(state)
    own = sim.engine.measure_own(EVERYONE, params, buffers, count)
    return {"shared": params, "own": own["cross_entropies"]}


@pytest.mark.parametrize("spec", [s for s in every_spec() if _remembers(s)], ids=spec_name)
def test_memory_of_the_first_round_alters_the_second(spec: MethodSpec) -> None:
    kept, wiped = simulate(spec), simulate(spec)
    first, _ = ask_clients(kept, kept.open(), EVERYONE)
    same, _ = ask_clients(wiped, wiped.open(), EVERYONE)
    assert sorted(kept.engine.memory) == list(EVERYONE)
    wiped.engine.memory.clear()
    second, _ = ask_clients(kept, first, EVERYONE)
    forgetful, _ = ask_clients(wiped, same, EVERYONE)
    assert distance(first.params, same.params) == 0
    assert distance(_used(kept, second), _used(wiped, forgetful)) > 1e-6


def test_only_the_memory_of_clients_whose_replies_were_used_is_kept() -> None:
    sim = simulate("scaffold")
    _record_round(sim, sim.open())
    assert sim.engine.memory == {}
    sim.engine.commit(0, [1, 4])
    sim.engine.commit(0, [2])  # too late: the others' memory is forgotten
    assert sorted(sim.engine.memory) == [1, 4]


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_only_parts_that_enroll_keep_memory(spec: MethodSpec) -> None:
    sim = simulate(spec)
    run_rounds(sim, rounds=1)
    assert bool(sim.engine.memory) == _keeps_memory(spec)


@pytest.mark.parametrize(
    "name", [n for n in [*METHODS.names(), *PARTS.names()] if find_entry(n).facts.get("off")]
)
def test_the_off_value_equals_fedavg(name: str) -> None:
    off = simulate(_alone(name, find_entry(name).facts["off"]))
    plain = simulate(_same_weighting(off.method), cohort=off.cohort)
    assert distance(run_rounds(off).params, run_rounds(plain).params) < 1e-12


@pytest.mark.parametrize("name", sorted({*METHODS.names(), *PARTS.names()} - PLAIN))
def test_the_default_does_something(name: str) -> None:
    on = simulate(_alone(name), rounds=5)  # deferred weights are on in the last of five rounds
    plain = simulate(_same_weighting(on.method), rounds=5, cohort=on.cohort)
    expected, found = (_used(sim, run_rounds(sim)) for sim in (plain, on))
    assert flatten(found).keys() != flatten(expected).keys() or distance(expected, found) > 1e-6


def _record_round(sim: Simulation, state: ServerState) -> Replies:
    method = sim.method
    shared = {
        p.name: {} if p.send is None else p.send(state.slots.get(p.name, {}), state.round)
        for p in method.parts
    }
    tasks = [Task(client) for client in EVERYONE]
    return sim.engine.train(tasks, Broadcast(state.round, 0.1, state.params, state.buffers, shared))


@pytest.mark.parametrize("permutations", [50, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spec", lenient_specs(), ids=spec_name)
def test_the_order_of_replies_changes_nothing(spec: MethodSpec, permutations: int) -> None:
    sim = simulate(spec)
    state = run_rounds(sim, rounds=1)
    replies, tasks = _record_round(sim, state), [Task(client) for client in EVERYONE]
    seen = set()
    for permutation in range(permutations):
        order = torch.randperm(6, generator=generator(0, "order", permutation))
        answered = recorded(sim, Replies(**take(replies._asdict(), order)))
        after, _ = answered.advance(state, tasks)
        seen.add(digest({"params": after.params, "slots": after.slots}))
    assert len(seen) == 1


def _through_bytes(tree: Tree) -> Tree:
    return decode(encode(tree))


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_state_survives_bytes(spec: MethodSpec) -> None:
    whole, resumed = simulate(spec), simulate(spec)
    middle = run_rounds(whole, rounds=2)
    saved = _through_bytes(all_state(whole, middle))
    resumed.engine.memory.update({int(client): memory for client, memory in saved.get("memory", {}).items()})
    state = ServerState(saved["params"], saved.get("buffers", {}), saved.get("slots", {}), round=2)
    last, continued = run_rounds(whole, middle, 1), run_rounds(resumed, state, 1)
    assert fingerprint(whole, last) == fingerprint(resumed, continued)


def test_a_frozen_parameter_is_neither_trained_nor_changed_by_averaging() -> None:
    module = small_model(shape=unequal_federation().input_shape)
    module.head.weight.requires_grad_(False)  # type: ignore[union-attr]
    frozen = simulate("fedavg", model=module, dtype=torch.float32)
    state = frozen.open()
    after = run_rounds(frozen, state, 3)
    assert "head.weight" not in after.params
    assert "head.weight" not in after.buffers
    trained = frozen.module(after).get_parameter("head.weight")
    assert torch.equal(trained, frozen.module(state).get_parameter("head.weight"))
    assert torch.equal(trained, frozen.work.model.frozen()["head.weight"])
