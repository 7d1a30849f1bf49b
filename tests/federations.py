"""Small federations with unequal clients, and runs on them, for tests that compare runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.method import METHODS, PARTS, Method, MethodSpec, build_method
from counterpoise.core.part import Census, Measurement, Outputs, Pair, Visit
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, flatten
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.workplace import Engine
from counterpoise.errors import ConfigError
from counterpoise.models.model import MODELS
from counterpoise.run.build import build_simulation
from counterpoise.run.joined import join, share_samples
from counterpoise.run.simulation import Simulation, advance
from counterpoise.server.cohort import Cohort
from counterpoise.server.round import Outcome, ServerState
from counterpoise.server.search import propose_tasks

SIZES = (20, 50, 13, 30, 7, 1)  # not in order, so that an engine that sorts its clients must undo it
CLASSES = 4
# Client 4 has one class, client 5 one sample, and no class is on every client.
OWNED = ((0, 1, 2, 3), (0, 0, 1, 2), (0, 3), (1, 2, 3), (2,), (0,))
HELD_OUT = 3  # rows that each client keeps for validation

SEED = 46  # its cohorts (0, 1, 3), (2, 3, 4), (1, 3, 5) reach every client, one of them three times

LOOP = EngineSettings("loop", "cpu", processes=1)
STACKED = EngineSettings("stacked", "cpu")
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


def draws_frozen(spec: MethodSpec) -> bool:
    """Whether the method freezes what it draws by the seed, so that runs of several seeds are different functions."""
    return bool(simulate(spec).work.model.frozen())


def run_rounds(sim: Simulation, state: ServerState | None = None, rounds: int | None = None) -> ServerState:
    """The state after so many rounds, all by default."""
    state = sim.open() if state is None else state
    for _ in range(sim.rounds if rounds is None else rounds):
        state, _ = sim.advance(state)
    return state


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


def distance(tree: Tree, other: Tree) -> float:
    """Largest difference of two trees of the same shape."""
    first, second = flatten(tree), flatten(other)
    assert first.keys() == second.keys()
    gaps = [float((first[path].cpu().double() - second[path].cpu().double()).abs().max()) for path in first]
    return max(gaps, default=0.0)


@dataclass
class Altered:
    """An engine whose replies are changed on their way to the server."""

    engine: Engine
    alter: Callable[[Replies], Replies]
    refused: tuple[()] = ()

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        return self.alter(self.engine.train(tasks, broadcast))

    def commit(self, round: int, clients: Sequence[int]) -> None:
        assert list(clients) == sorted(set(clients))
        self.engine.commit(round, clients)

    def survey(self, clients: Sequence[int]) -> dict[str, Tree]:
        return self.engine.survey(clients)

    def tally(self, clients: Sequence[int]) -> dict[str, Tree]:
        return self.engine.tally(clients)

    def measure(self, pairs: Sequence[Pair], models: Tree, buffers: Tree, measurement: Measurement) -> Tree:
        return self.engine.measure(pairs, models, buffers, measurement)

    @property
    def memory(self) -> MutableMapping[int, dict[str, Tree]]:
        return self.engine.memory


def altered(sim: Simulation, alter: Callable[[Replies], Replies]) -> Simulation:
    """The run with an engine whose replies are changed on their way."""
    return replace(sim, engine=cast(Engine, Altered(sim.engine, alter)))


@dataclass
class Recorded:
    """Answers with replies that were recorded before; what servers ask of clients besides, the real ones answer."""

    replies: Replies
    engine: Engine
    refused: tuple[()] = ()

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        return self.replies

    def commit(self, round: int, clients: Sequence[int]) -> None:
        assert list(clients) == sorted(set(clients))

    def measure(self, pairs: Sequence[Pair], models: Tree, buffers: Tree, measurement: Measurement) -> Tree:
        return self.engine.measure(pairs, models, buffers, measurement)


def recorded(sim: Simulation, replies: Replies) -> Simulation:
    """The run with clients that answer with these replies."""
    return replace(sim, engine=cast(Engine, Recorded(replies, sim.engine)))


def visit(
    shared: Tree | None = None,
    knobs: Mapping[str, float] | None = None,
    stream: torch.Generator | None = None,
) -> Visit:
    """A visit to a client that keeps nothing and has no model to look at."""

    def look(rows: Tensor, stream: torch.Generator | None = None) -> Outputs:
        raise AssertionError("no model was received")

    return Visit(shared or {}, {}, knobs or {}, stream or generator(0, "unused"), look)
