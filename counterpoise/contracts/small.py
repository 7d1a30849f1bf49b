"""Small federations with unequal clients, and runs on them: where contracts are tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.core.part import Census
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, flatten
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.models.model import MODELS
from counterpoise.run.build import build_simulation
from counterpoise.run.simulation import Simulation
from counterpoise.server.cohort import Cohort
from counterpoise.server.search import propose_tasks
from counterpoise.server.state import Outcome, ServerState

SIZES = (20, 50, 13, 30, 7, 1)  # not in order, so that an engine that sorts its clients must undo it
CLASSES = 4
# Client 4 has one class, client 5 one sample, and no class is on every client.
OWNED = ((0, 1, 2, 3), (0, 0, 1, 2), (0, 3), (1, 2, 3), (2,), (0,))
HELD_OUT = 3  # rows that each client keeps for validation

SEED = 46  # its cohorts (0, 1, 3), (2, 3, 4), (1, 3, 5) reach every client, one of them three times

LOOP = EngineSettings("loop", "cpu", processes=1)
STACKED = EngineSettings("stacked", "cpu")


def unequal_federation(shape: tuple[int, ...] = (5,), sizes: Sequence[int] = SIZES) -> Federation:
    """Six clients of very unequal size; classes are shifted apart, so that there is something to learn."""
    labels = torch.cat([_labels(client, size + HELD_OUT) for client, size in enumerate(sizes)])
    rows = torch.split(torch.arange(len(labels)), [size + HELD_OUT for size in sizes])
    train = Samples(_inputs(labels, shape, "train"), labels)
    test_labels = torch.arange(CLASSES).repeat(5)
    test = Samples(_inputs(test_labels, shape, "test"), test_labels)
    kept, held_out = tuple(r[HELD_OUT:] for r in rows), tuple(r[:HELD_OUT] for r in rows)
    names = tuple(f"class {c}" for c in range(CLASSES))
    return Federation(train, test, names, no_scaling(), kept, held_out, validation=test, name="unequal")


def _labels(client: int, size: int) -> Tensor:
    owned = torch.tensor(OWNED[client % len(OWNED)])
    return owned[torch.randint(len(owned), (size,), generator=generator(0, "test labels", client))]


def _inputs(labels: Tensor, shape: tuple[int, ...], purpose: str) -> Tensor:
    stream = generator(0, f"test inputs {purpose}")
    noise = torch.randn((len(labels), *shape), generator=stream, dtype=torch.float64)
    return noise + 0.5 * labels.view(-1, *[1] * len(shape))


def small_model(
    name: str = "mlp", shape: tuple[int, ...] = (5,), classes: int = CLASSES, **arguments: Any
) -> nn.Module:
    """A registered model in a small size."""
    arguments = arguments or ({"hidden": [6], "activation": "tanh"} if name == "mlp" else {})
    return MODELS.build(name, arguments)(shape, classes)


def searches(spec: MethodSpec | Method) -> bool:
    """Whether a method compares settings of all clients, and so cannot do without any of them."""
    method = spec if isinstance(spec, Method) else build_method(spec)
    return method.owner("choose") is not None


def needs_many(spec: MethodSpec | Method) -> bool:
    """Whether a robust rule of a method refuses rounds of three clients."""
    method = spec if isinstance(spec, Method) else build_method(spec)
    rules = [part.init for part in method.parts if part.name in ("krum", "trimmed_mean")]
    try:
        return any(rule is not None and rule({}, Census(torch.ones(6), CLASSES, 1, 3), {}) for rule in rules)
    except ConfigError:
        return True


def simulate(
    spec: MethodSpec | Method,
    *,
    federation: Federation | None = None,
    model: nn.Module | None = None,
    local: Local | None = None,
    rounds: int = 3,
    cohort: Cohort | int | None = 3,
    engine: EngineSettings = LOOP,
    seed: int = SEED,
    dtype: torch.dtype = torch.float64,
    privacy: Mapping[str, Any] | None = None,
) -> Simulation:
    """A run on a small federation in float64, by default client by client.

    A search always asks all clients, and so does a rule that needs more of them than three.
    """
    federation = federation or unequal_federation()
    model = small_model(shape=federation.input_shape) if model is None else model
    local = local or Local(lr=0.1, batch_size=12)
    cohort = None if searches(spec) or (cohort == 3 and needs_many(spec)) else cohort
    engine = replace(engine, dtype="float64" if dtype == torch.float64 else "float32")
    return build_simulation(
        federation, spec, model, rounds=rounds, local=local, cohort=cohort, seed=seed, engine=engine,
        draw_parameters=True, privacy=privacy,
    )  # fmt: skip


def run_rounds(sim: Simulation, state: ServerState | None = None, rounds: int | None = None) -> ServerState:
    """The state after so many rounds, all by default."""
    state = sim.open() if state is None else state
    for _ in range(sim.rounds if rounds is None else rounds):
        state, _ = sim.advance(state)
    return state


def ask_clients(sim: Simulation, state: ServerState, clients: Sequence[int]) -> tuple[ServerState, Outcome]:
    """One round with these clients, whatever the cohort would be."""
    return sim.advance(state, propose_tasks(sim.method, state.slots, state.round, clients))


def all_state(sim: Simulation, state: ServerState) -> Tree:
    """Everything that a run carries from round to round."""
    memory = {str(client): kept for client, kept in sim.engine.memory.items()}
    return {"params": state.params, "buffers": state.buffers, "slots": state.slots, "memory": memory}


def fingerprint(sim: Simulation, state: ServerState) -> str:
    """Hash of everything that a run carries from round to round."""
    return digest(all_state(sim, state))


class Gap(NamedTuple):
    """How far two trees are apart, and where most."""

    size: float
    path: str


def widest_gap(tree: Tree, other: Tree) -> Gap:
    """Of two trees of the same names; it is endless where names or shapes differ."""
    first, second = flatten(tree), flatten(other)
    odd = sorted(first.keys() ^ second.keys()) or [
        path for path in first if first[path].shape != second[path].shape
    ]
    if odd:
        return Gap(math.inf, odd[0])
    gaps = [Gap(_apart(leaf, second[path]), path) for path, leaf in first.items() if leaf.numel()]
    return max(gaps, default=Gap(0.0, ""))


def _apart(leaf: Tensor, other: Tensor) -> float:
    apart = (leaf.cpu().double() - other.cpu().double()).abs().max()
    return math.inf if bool(apart.isnan()) else float(apart)


def distance(tree: Tree, other: Tree) -> float:
    """Largest difference of two trees of the same shape."""
    return widest_gap(tree, other).size
