"""What a run carries: plain tensors that bytes keep, memory that counts, replies in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from counterpoise.contracts.altered import recorded
from counterpoise.contracts.contract import ContractError, require_close, require_same
from counterpoise.contracts.small import (
    SIZES,
    all_state,
    ask_clients,
    run_rounds,
    searches,
    simulate,
    widest_gap,
)
from counterpoise.core.codec import decode, digest, encode
from counterpoise.core.messages import Replies, Task
from counterpoise.core.method import METHODS, MethodSpec, build_method, find_entry, read_spec
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, take
from counterpoise.metrics.scoring import count
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import announce
from counterpoise.server.state import ServerState

EVERYONE = range(len(SIZES))
PERMUTATIONS = 50
VISIBLE = 1e-6  # a difference of models that counts as one
MESSAGES = {"loss_duals"}  # parts whose memory is only what `prepare` tells `finish` in the same round


def resumes(spec: MethodSpec) -> None:
    """The state after two rounds, through bytes into a fresh run, leads to the same third round."""
    whole, resumed = simulate(spec), simulate(spec)
    middle = run_rounds(whole, rounds=2)
    saved = decode(encode(all_state(whole, middle)))
    resumed.engine.memory.update({int(client): memory for client, memory in saved.get("memory", {}).items()})
    state = ServerState.from_tree(saved, 2)
    last, continued = run_rounds(whole, middle, 1), run_rounds(resumed, state, 1)
    words = "a run that is resumed ends otherwise: something is kept outside of slots and memory"
    require_same(all_state(resumed, continued), all_state(whole, last), words)


def order_is_free(spec: MethodSpec, permutations: int = PERMUTATIONS) -> None:
    """Replies may arrive in any order."""
    sim = simulate(spec)
    state = run_rounds(sim, rounds=1)
    replies, tasks = record_round(sim, state), [Task(client) for client in EVERYONE]
    seen = set()
    for permutation in range(permutations):
        order = torch.randperm(len(EVERYONE), generator=generator(0, "order", permutation))
        answered = recorded(sim, Replies(**take(replies._asdict(), order)))
        after, _ = answered.advance(state, tasks)
        seen.add(digest({"params": after.params, "slots": after.slots}))
    if len(seen) != 1:
        raise ContractError(f"{permutations} orders of the same replies give {len(seen)} models, not one")


def record_round(sim: Simulation, state: ServerState) -> Replies:
    """The replies of all clients, without what the server makes of them."""
    tasks = [Task(client) for client in EVERYONE]
    return sim.engine.train(tasks, announce(sim.method, state, 0.1))


def only_searches(spec: MethodSpec) -> str:
    return "a search needs every reply, and in order" if searches(spec) else ""


def used_models(sim: Simulation, state: ServerState) -> Tree:
    """The model that is scored, and how the models do that the clients themselves would use."""
    params, buffers = sim.presented(state)
    own = sim.engine.measure_own(EVERYONE, params, buffers, count)
    return {"shared": params, "own": own["cross_entropies"]}


def remembers(spec: MethodSpec) -> bool:
    return any(part.enroll and part.name not in MESSAGES for part in build_method(spec).parts)


def memory_counts(spec: MethodSpec) -> None:
    """Memory of the first round alters the second: a control variate that is never stored is the classic mistake."""
    kept, wiped = simulate(spec), simulate(spec)
    first, _ = ask_clients(kept, kept.open(), EVERYONE)
    same, _ = ask_clients(wiped, wiped.open(), EVERYONE)
    require_same(same.params, first.params, "two first rounds differ")
    wiped.engine.memory.clear()
    second, _ = ask_clients(kept, first, EVERYONE)
    forgetful, _ = ask_clients(wiped, same, EVERYONE)
    if widest_gap(used_models(kept, second), used_models(wiped, forgetful)).size <= VISIBLE:
        raise ContractError(
            "what clients keep of round 0 changes nothing in round 1: is it returned by `finish`?"
        )


def without_memory(spec: MethodSpec) -> str:
    return "" if remembers(spec) else "it keeps nothing on clients"


def only_enrolled_keep(spec: MethodSpec) -> None:
    """Memory of parts that enroll, and of no others."""
    sim = simulate(spec)
    run_rounds(sim, rounds=1)
    enrolls = any(part.enroll is not None for part in build_method(spec).parts)
    if bool(sim.engine.memory) != enrolls:
        words = "none is kept" if enrolls else "some is kept, which `prepare` or `finish` return"
        raise ContractError(f"memory without `enroll`, or the other way round: {words}")


def off_is_fedavg(spec: MethodSpec) -> None:
    """By the arguments that `off` declares, the part or method does nothing."""
    name = read_spec(spec)[-1][0]
    off = simulate(alone(name, find_entry(name).facts["off"]))
    plain = simulate({"fedavg": {"weighting": off.method.weighting}}, cohort=off.cohort)
    words = f"by its off value {find_entry(name).facts['off']} it is not FedAvg"
    require_close(run_rounds(off).params, run_rounds(plain).params, 1e-12, words)


def without_off(spec: MethodSpec) -> str:
    return "" if find_entry(read_spec(spec)[-1][0]).facts.get("off") else "it declares no off value"


def alone(name: str, arguments: Mapping[str, Any] | None = None) -> MethodSpec:
    """A method by itself, or a part on FedAvg."""
    item = {name: dict(arguments or {})}
    return item if name in METHODS else ["fedavg", item]
