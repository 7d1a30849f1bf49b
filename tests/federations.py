"""The small federations of the contracts, and every method and part that is tried on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from counterpoise.contracts.altered import Altered as Altered
from counterpoise.contracts.altered import Recorded as Recorded
from counterpoise.contracts.altered import altered as altered
from counterpoise.contracts.altered import recorded as recorded
from counterpoise.contracts.small import CLASSES as CLASSES
from counterpoise.contracts.small import HELD_OUT as HELD_OUT
from counterpoise.contracts.small import LOOP as LOOP
from counterpoise.contracts.small import OWNED as OWNED
from counterpoise.contracts.small import SEED as SEED
from counterpoise.contracts.small import SIZES as SIZES
from counterpoise.contracts.small import STACKED as STACKED
from counterpoise.contracts.small import all_state as all_state
from counterpoise.contracts.small import ask_clients as ask_clients
from counterpoise.contracts.small import distance as distance
from counterpoise.contracts.small import fingerprint as fingerprint
from counterpoise.contracts.small import needs_many as needs_many
from counterpoise.contracts.small import run_rounds as run_rounds
from counterpoise.contracts.small import searches as searches
from counterpoise.contracts.small import simulate as simulate
from counterpoise.contracts.small import small_model as small_model
from counterpoise.contracts.small import unequal_federation as unequal_federation
from counterpoise.core.messages import Task
from counterpoise.core.method import METHODS, PARTS, MethodSpec, build_method
from counterpoise.core.part import Outputs, Visit
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.opening import open_task
from counterpoise.run.joined import join, share_samples
from counterpoise.run.simulation import Simulation, advance
from counterpoise.server.round import announce
from counterpoise.server.state import ServerState

GPU = "cuda"
GPU_LOOP, GPU_STACKED = replace(LOOP, device=GPU), replace(STACKED, device=GPU)

COMPOSITIONS: tuple[MethodSpec, ...] = (
    ["scaffold", {"sam": {}}, "balanced_softmax"],
    ["mofedsam", "focal"],
    ["fedcm", {"focal": {"gamma": 2.0}}],
    ["fedavg", "ldam", {"deferred_reweighting": {"start": 0.4}}, "balanced_sampler"],
    ["fednova", {"weighted_ce": {"counts": "global"}}],
    ["fedwcm_x", {"balanced_softmax": {"counts": "global"}}, "balanced_sampler"],
    ["feddyn", {"server_momentum": {"beta": 0.5}}, {"balanced_softmax": {"counts": "global"}}],
    ["fednova", {"aggregation_balancer": {"scope": "classifier"}}, "layer_cosines"],
    {"fedbal": {"variant": "released"}},
    [{"fedrela": {"at": 1, "tau": 30.0, "audit": "flow"}}, {"resample": {"rate": 0.5}}, "balanced_softmax"],
    ["scaffold", {"relabel": {"at": 0.3, "tau": 60.0}}],
    [{"climb": {"lr": 5.0, "eps": 0.0, "every": 1}}, "focal"],
    ["fedcgnm", "balanced_softmax", "decorrelation", "model_contrastive"],
    ["scaffold", {"gradient_balancer": {"controlled": "all"}}, {"client_focus": {"focus": 2.0, "keep": 0.5}}],
)


REPEATABLE = {"dp": {"noise": "repeatable"}}  # part -> arguments by which it draws nothing in secret
FITS = {"features": 4, "match_steps": 5, "epochs": 3}
QUICK = {
    "creff": FITS,
    "federated_features": FITS,
}  # name -> arguments by which a server fits a head in no time


def suited(name: str, arguments: Mapping[str, Any]) -> str | dict[str, Any]:
    """A method or part by its name, with its arguments where it has an entry."""
    return {name: arguments[name]} if name in arguments else name


def method_specs() -> list[MethodSpec]:
    """Each registered method, quick to run; but not where one client has all samples (tests/methods/test_joining.py)."""
    return [suited(name, QUICK) for name in METHODS.names() if build_method(name).pools is None]


def part_specs() -> list[MethodSpec]:
    """Each registered part on top of FedAvg, with arguments by which two runs of a seed are the same."""
    names = [name for name in PARTS.names() if not PARTS.build(name).pools]
    return [["fedavg", suited(name, REPEATABLE | QUICK)] for name in names]


def every_spec() -> list[MethodSpec]:
    """Each registered method, each registered part, and some compositions."""
    return [*method_specs(), *part_specs(), *COMPOSITIONS]


def lenient_specs() -> list[MethodSpec]:
    """Methods and compositions whose rounds go on without a client that does not answer."""
    return [spec for spec in [*method_specs(), *COMPOSITIONS] if not searches(spec)]


def spec_name(spec: MethodSpec | Any) -> str:
    """A spec as a test id."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return "+".join(spec)
    return "+".join(spec_name(item) for item in spec) if isinstance(spec, Sequence) else str(spec)


def draws_frozen(spec: MethodSpec) -> bool:
    """Whether the method freezes what it draws by the seed, so that runs of several seeds are different functions."""
    return bool(simulate(spec).work.model.frozen())


def run_joined(
    spec: MethodSpec, engine: EngineSettings, seeds: Sequence[int], shared: Federation, rounds: int = 3
) -> tuple[list[Simulation], list[ServerState]]:
    """Runs that differ in their seed, trained in one program on the samples of one federation."""
    together = join(
        [
            simulate(spec, engine=engine, seed=seed, federation=share_samples(shared, unequal_federation()))
            for seed in seeds
        ]
    )
    states = [sim.open() for sim in together]
    for _ in range(rounds):
        states = [state for state, _ in advance(together, states)]
    return together, states


def planned_batches(sim: Simulation, state: ServerState, client: int) -> list[tuple[Tensor, Tensor]]:
    """Rows and labels of each batch that a client trains on in the coming round."""
    opened = open_task(sim.work, Task(client), {}, announce(sim.method, state, sim.work.local.lr))
    chosen = (places[real] for places, real in zip(opened.plan.positions, opened.plan.mask, strict=True))
    return [(opened.data.rows[places], opened.data.labels[places]) for places in chosen]


def visit(
    shared: Tree | None = None,
    knobs: Mapping[str, float] | None = None,
    stream: torch.Generator | None = None,
) -> Visit:
    """A visit to a client that keeps nothing and has no model to look at."""

    def look(rows: Tensor, stream: torch.Generator | None = None) -> Outputs:
        raise AssertionError("no model was received")

    return Visit(shared or {}, {}, knobs or {}, stream or generator(0, "unused"), look)
