"""A method at work on a federation, round by round, whoever answers for the clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.core.part import Census, Measure, Replies, Task
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree, tmap
from counterpoise.data.augment import Augmentation
from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings, build_engine, choose_device, settle
from counterpoise.engines.precision import arithmetic
from counterpoise.engines.threads import threads
from counterpoise.engines.workplace import Engine, Workplace
from counterpoise.errors import ConfigError
from counterpoise.evaluate import Scoring, count, measure, measure_many, score_clients
from counterpoise.functional import FunctionalModel
from counterpoise.metrics import balanced_accuracy, shots_by_rule
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS
from counterpoise.parts.optimizer import with_local
from counterpoise.replies import Rejection
from counterpoise.rounds import (
    Cohort,
    Outcome,
    Server,
    ServerState,
    conclude,
    diagnose,
    open_round,
    open_server,
)
from counterpoise.search import propose_tasks

Connect = Callable[[EngineSettings, Workplace], Engine]  # settled settings, workplace -> who answers


@dataclass(frozen=True)
class Simulation:
    """Everything a run needs, settled; the state that changes is passed in and handed back."""

    method: Method
    work: Workplace
    engine: Engine
    settings: EngineSettings
    cohort: Cohort
    rounds: int
    seed: int
    scoring: Scoring

    @property
    def server(self) -> Server:
        """What the rounds have in common."""
        clients = len(self.work.federation.clients)
        return Server(self.method, self.engine, clients, self.validate, self._measure())

    def open(self) -> ServerState:
        """The server before round 0; clients forget what they kept."""
        self.engine.memory.clear()
        model, federation = self.work.model, self.work.federation
        census = Census(federation.samples(), len(federation.classes), self.rounds)
        device = federation.train.x.device
        params, buffers = (
            {name: t.to(device) for name, t in tree.items()} for tree in (model.params(), model.buffers())
        )
        return open_server(self.method, params, buffers, census, self.engine)

    def advance(self, state: ServerState) -> tuple[ServerState, Outcome]:
        """One more round."""
        tasks, lr = self.tasks(state), self.work.local.rate(state.round, self.rounds)
        broadcast, outcome = open_round(self.method, state, tasks, lr)
        with threads(self.settings.threads), arithmetic(self.settings.precision):
            replies = self.engine.train(tasks, broadcast) if tasks else None
            return self.conclude(state, replies, outcome)

    def tasks(self, state: ServerState) -> Sequence[Task]:
        """What the next round asks for."""
        cohort = self.cohort.draw(self.seed, state.round, self.work.federation.samples())
        return propose_tasks(self.method, state.slots, state.round, cohort)

    def conclude(
        self, state: ServerState, replies: Replies | None, outcome: Outcome
    ) -> tuple[ServerState, Outcome]:
        """The state after the replies of a round."""
        refused = () if replies is None else tuple(Rejection(*refusal) for refusal in self.engine.refused)
        state, outcome = conclude(self.server, state, replies, outcome)
        return state, outcome._replace(
            replied=outcome.replied + len(refused), rejected=(*refused, *outcome.rejected)
        )

    def evaluate(self, state: ServerState, tested: Tree | None = None) -> dict[str, Any]:
        """Scores on the test set, on the server's validation set, and on what clients hold out, where there are such.

        `tested`: what `count` counts on the test set, where that is known already.
        """
        federation = self.work.federation
        with threads(self.settings.threads), arithmetic(self.settings.precision):
            clients = [client for client, rows in enumerate(federation.held_out) if len(rows)]
            sums = self._measure_clients(state, clients) if self.scoring.clients else {}
            if not len(federation.test.y):  # a server without a test set of its own
                tested = tmap(lambda leaf: leaf.sum(0), sums)
            scores = self._score(state, federation.test) if tested is None else self.scoring.scores(tested)
            if federation.validation is not None:
                scores["validation"] = self._score(state, federation.validation)
            if self.scoring.clients:
                scores["clients"] = score_clients(clients, list(sums["confusion"]))
        return scores | self.diagnostics(state)

    def diagnostics(self, state: ServerState) -> dict[str, Any]:
        """What the method's parts want looked at."""
        found = diagnose(self.method, state)
        return {"diagnostics": found} if found else {}

    def validate(self, models: Params, buffers: Params) -> Tensor:
        """[M] balanced accuracy of stacked models on the server's validation set, else on all that clients hold out."""
        federation = self.work.federation
        if federation.validation is not None:
            given = self.work.model, models, buffers, federation.validation, federation.scaling
            confusions = measure_many(*given)["confusion"]
        else:
            clients = [client for client, rows in enumerate(federation.held_out) if len(rows)]
            confusions = self.engine.measure(clients, models, buffers, count)["confusion"].sum(0)
        return torch.tensor([balanced_accuracy(one) or 0.0 for one in confusions.cpu()], dtype=torch.float64)

    def run(self) -> Iterator[tuple[ServerState, Outcome]]:
        """All rounds from the start."""
        state = self.open()
        while state.round < self.rounds:
            state, outcome = self.advance(state)
            yield state, outcome

    def close(self) -> None:
        """End worker processes."""
        self.engine.close()

    def module(self, state: ServerState) -> nn.Module:
        """The trained model as a torch module."""
        return self.work.model.load(state.params, state.buffers)

    def _measure(self) -> Measure | None:
        """What a server rule may find out about a model from the server's own samples."""
        federation = self.work.federation
        if federation.validation is None:
            return None
        own = federation.validation
        return lambda params, buffers, sums: measure(
            self.work.model, params, buffers, own, federation.scaling, sums
        )

    def _score(self, state: ServerState, samples: Samples) -> dict[str, Any]:
        sums = measure(self.work.model, state.params, state.buffers, samples, self.work.federation.scaling)
        return self.scoring.scores(sums)

    def _measure_clients(self, state: ServerState, clients: list[int]) -> Tree:
        """Sums [W, ...] of the model on what each of these clients holds out."""
        params, buffers = (
            tmap(lambda leaf: leaf.unsqueeze(0), tree) for tree in (state.params, state.buffers)
        )
        return tmap(lambda leaf: leaf[:, 0], self.engine.measure(clients, params, buffers, count))


def build_simulation(
    federation: Federation,
    method: MethodSpec | Method,
    model: str | nn.Module = "mlp",
    *,
    rounds: int,
    local: Local | None = None,
    cohort: Cohort | int | None = None,
    seed: int = 0,
    engine: EngineSettings | None = None,
    augment: Augmentation | None = None,
    scoring: Scoring | None = None,
    dtype: torch.dtype = torch.float32,
    draw_parameters: bool = False,
    connect: Connect = build_engine,
) -> Simulation:
    """Put the pieces together, checking that they fit; `connect` makes the engine, by default one in this process.

    A model given by name starts from parameters drawn for the seed; a module starts as it is, unless `draw_parameters`.
    """
    if not int(federation.samples().sum()):
        raise ConfigError("no client has any sample to train on")
    settings = engine or EngineSettings()
    local = local or Local()
    cohort = cohort if isinstance(cohort, Cohort) else Cohort(cohort)
    if (cohort.size or 0) > (clients := len(federation.clients)):
        raise ConfigError(
            f"cohort.size = {cohort.size} is not legal with {clients} clients; legal: 1 to {clients}"
        )
    federation = federation.to(choose_device(settings.device), dtype)
    composed = with_local(method if isinstance(method, Method) else build_method(method), local)
    if isinstance(model, str):
        model, draw_parameters = MODELS.build(model)(federation.input_shape, len(federation.classes)), True
    module = adapt_model(composed, model, generator(seed, "init"), draw_parameters)
    module = module.to(federation.train.x.device, dtype)
    functional = FunctionalModel(module, half=settings.precision == "bf16")
    _check_batching(functional, local)
    _check_precision(functional, settings, federation)
    _check_search(composed, federation, cohort)
    work = Workplace(composed, functional, local, federation, seed, augment)
    settled = settle(settings, work, cohort.size or len(federation.clients), rounds)
    scoring = scoring or Scoring(shots_by_rule(federation.counts().sum(0).tolist()), federation.classes)
    if scoring.clients and not any(len(rows) for rows in federation.held_out):
        raise ConfigError(
            "evaluate.clients needs samples that clients hold out; legal with partition.validation above 0"
        )
    if not scoring.clients and not len(federation.test.y):
        raise ConfigError("there is no test set to score on; legal with it missing: evaluate.clients = true")
    return Simulation(composed, work, connect(settled, work), settled, cohort, rounds, seed, scoring)


def adapt_model(
    method: Method, module: nn.Module, stream: torch.Generator, draw_parameters: bool
) -> nn.Module:
    """A copy of the module as the method wants it; layers that the method adds are drawn in any case."""
    module = deepcopy(module)
    known = set(module.modules())
    adapted = method.adapt(module)
    if draw_parameters:
        initialise(adapted, stream)
    else:
        for layer in [layer for layer in adapted.modules() if layer not in known]:
            initialise(layer, stream)
    return adapted


def _check_batching(model: FunctionalModel, local: Local) -> None:
    if model.has_batch_norm and local.batching == "pad":
        raise ConfigError(
            "local.batching = 'pad' would mix padding into BatchNorm's statistics; legal with this model: 'wrap', 'drop'"
        )


def _check_search(method: Method, federation: Federation, cohort: Cohort) -> None:
    """A search compares models of all clients on samples that nobody trained on."""
    search, clients = method.owner("choose"), len(federation.clients)
    if search is None:
        return
    if cohort.size is not None and (cohort.size < clients or cohort.sampling != "exact"):
        raise ConfigError(
            f"{search.name} compares settings of all clients, and cohort.size = {cohort.size} of {clients} leaves some out; leave [cohort] out"
        )
    if federation.validation is None and not any(len(rows) for rows in federation.held_out):
        raise ConfigError(
            f"{search.name} needs samples to compare models on; legal with data.validation or partition.validation above 0"
        )


def _check_precision(model: FunctionalModel, settings: EngineSettings, federation: Federation) -> None:
    if settings.precision != "full" and not federation.train.x.is_cuda:
        raise ConfigError(
            f"engine.precision = {settings.precision!r} is for a GPU, and this run is on {federation.train.x.device}; legal here: 'full'"
        )
    if model.half and (model.has_batch_norm or model.dtype != torch.float32):
        what = "BatchNorm" if model.has_batch_norm else str(model.dtype)
        raise ConfigError(f"engine.precision = 'bf16' is not legal with {what}; legal: 'full', 'tf32'")
