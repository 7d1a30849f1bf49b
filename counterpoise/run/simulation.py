"""A method on a federation, round by round, with any engine: one run, or several joined ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from counterpoise.client.measure import measure, measure_many
from counterpoise.client.probing import look, names_given, server_samples
from counterpoise.core.messages import Replies, Task
from counterpoise.core.method import Method
from counterpoise.core.part import Census, Measure, Measurement, Pair, call
from counterpoise.core.secret import SecretKey
from counterpoise.core.tree import Params, Tree, bytes_of, stack, take, tmap
from counterpoise.data.dataset import Samples
from counterpoise.engines.arithmetic import arithmetic, threads
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.embedded import EmbeddedEngine, Request, train_all
from counterpoise.engines.service import first_memory
from counterpoise.engines.workplace import Engine, Workplace, open_task
from counterpoise.errors import ConfigError
from counterpoise.metrics import balanced_accuracy
from counterpoise.metrics.probe import Probe
from counterpoise.metrics.scoring import Scoring, count, count_all, score_clients
from counterpoise.run.caution import note_of_few_tests, warn_of_lost_tail
from counterpoise.run.planning import check_patience, planning_part
from counterpoise.server.cohort import Cohort
from counterpoise.server.round import (
    Outcome,
    Server,
    ServerState,
    announce,
    ask_everyone,
    conclude,
    diagnose,
    first_slots,
    open_round,
    present,
)
from counterpoise.server.search import Scores, Traffic, propose_tasks

EXACT_DIGITS = 12  # of a mean of recalls; further digits are rounding errors


@dataclass(frozen=True)
class Simulation:
    """All fixed choices of a run; the state that changes is passed in and returned."""

    method: Method
    work: Workplace
    engine: Engine
    settings: EngineSettings
    cohort: Cohort
    rounds: int
    seed: int
    scoring: Scoring
    probes: tuple[Probe, ...] = ()
    patience: int | None = None  # evaluations without a better validation score after which the run ends
    secret: SecretKey = field(default_factory=SecretKey.new)  # a run in a folder has its own from there

    @property
    def server(self) -> Server:
        """What all rounds share."""
        clients = len(self.work.federation.clients)
        # A bound by the median of all would let one client's update change those of others.
        bound = None if self.method.guard is not None else self.cohort.max_influence or None
        known = self.validate, self._measure(), bound, self.seed, self.secret
        return Server(self.method, self.engine, clients, *known)

    @property
    def census(self) -> Census:
        """What the server knows before round 0."""
        federation = self.work.federation
        samples = federation.samples()
        asked, poisson = self.cohort.expected(samples), self.cohort.sampling == "bernoulli"
        without = len(federation.clients) - len(federation.holders())
        return Census(samples, len(federation.classes), self.rounds, asked, poisson, without)

    @property
    def notes(self) -> dict[str, str]:
        """Part name, or "test set" -> what whoever starts the run should read."""
        found = [(part.name, call(part.note, "", self.census)) for part in self.method.parts]
        found.append(("test set", note_of_few_tests(self.work.federation)))
        return {name: note for name, note in found if note}

    def open(self) -> ServerState:
        """The server before round 0; clears the memory of all clients."""
        warn_of_lost_tail(self.method, self.work.federation)
        self.engine.memory.clear()
        params, buffers = self._first_model()
        known = ask_everyone(self.census, self.engine)
        check_patience(self.patience, self.method, params, self.census, known)
        return ServerState(params, buffers, first_slots(self.method, params, self.census, known))

    def planner(self, rounds: int) -> str | None:
        """The first part that plans for the number of rounds: it would begin otherwise in a run of so many."""
        known = ask_everyone(self.census, self.engine)
        return planning_part(self.method, self._first_model()[0], self.census, known, rounds)

    def advance(self, state: ServerState, tasks: Sequence[Task] | None = None) -> tuple[ServerState, Outcome]:
        """One more round, of these tasks or of those of the drawn cohort."""
        return advance([self], [state], None if tasks is None else [tasks])[0]

    def rehearse(self) -> None:
        """Open the first task of every client without training, so that parts that do not fit raise their errors."""
        state, method = self.open(), self.method
        everyone = Cohort().draw(self.seed, state.round, self.work.federation.samples())
        broadcast = announce(method, state, self.work.local.rate(state.round, self.rounds))
        memory = first_memory(self.work, state.params, state.buffers)
        for task in propose_tasks(method, state.slots, state.round, everyone):
            open_task(self.work, task, memory, broadcast)

    def tasks(self, state: ServerState) -> Sequence[Task]:
        """The tasks of the next round."""
        # Sampling protects clients only from those who cannot work out who was asked.
        seed = self.secret.derive("cohort").seed() if self.method.needs_secret else self.seed
        cohort = self.cohort.draw(seed, state.round, self.work.federation.samples())
        return propose_tasks(self.method, state.slots, state.round, cohort)

    def conclude(
        self, state: ServerState, replies: Replies | None, outcome: Outcome
    ) -> tuple[ServerState, Outcome]:
        """The state after the replies of a round."""
        refused = () if replies is None else tuple(self.engine.refused)
        state, outcome = conclude(self.server, state, replies, outcome)
        return state, outcome._replace(
            replied=outcome.replied + len(refused), rejected=(*refused, *outcome.rejected)
        )

    def evaluate(self, state: ServerState, tested: Tree | None = None) -> dict[str, Any]:
        """Scores on the test set, and, where there are any, on the server's validation set and on held-out client samples.

        `tested`: the counts of `count_all` on the test set, where they are known already.
        """
        federation = self.work.federation
        with threads(self.settings.threads), arithmetic(self.settings.precision):
            clients = federation.holders()
            alone = not len(federation.test.y)  # a server without a test set
            counted = count_all if alone else count
            sums = self._measure_clients(state, clients, counted) if self.scoring.clients else {}
            if alone:
                tested = tmap(lambda leaf: leaf.sum(0), sums)
            own = federation.validation
            held = None if own is None else self._sums(state, own)
            # the threshold is chosen on validation samples alone, never on those that it is scored on
            scores = self.scoring.scores(
                self._sums(state, federation.test) if tested is None else tested, held
            )
            if held is not None:
                scores["validation"] = self.scoring.scores(held)
            if self.scoring.clients:
                scores["clients"] = score_clients(clients, list(sums["confusion"]))
            if self.scoring.personal:
                models = self.engine.measure_own(clients, *self.presented(state), count)
                scores["personal"] = score_clients(clients, list(models["confusion"]))
                scores["personal_balanced_accuracy"] = scores["personal"]["mean_client_balanced_accuracy"]
            if self.probes:
                scores["probes"] = self._probe(state)
        return scores | self.diagnostics(state)

    def confusion(self, state: ServerState) -> Tensor:
        """Counts [true class, answer] of the scored model on the test set; of all models where each client has its own."""
        with threads(self.settings.threads), arithmetic(self.settings.precision):
            confusion: Tensor = self._sums(state, self.work.federation.test, count)["confusion"]
        return confusion

    def diagnostics(self, state: ServerState) -> dict[str, Any]:
        """The charts of the method's parts."""
        found = diagnose(self.method, state)
        return {"diagnostics": found} if found else {}

    def probe_names(self) -> dict[str, list[str]]:
        """Names of the numbers that each probe gives."""
        return names_given(self.work.model, self.work.federation, self.probes)

    def validate(self, models: Params, buffers: Params) -> Scores:
        """Balanced accuracy of stacked models on the server's validation set, else on all held-out client samples."""
        federation = self.work.federation
        if federation.validation is not None:
            given = self.work.model, models, buffers, federation.validation, federation.scaling
            return Scores(balanced_accuracies(measure_many(*given, count)["confusion"]))
        clients, number = federation.holders(), len(next(iter(models.values())))
        pairs = [Pair(client, model) for client in clients for model in range(number)]
        sums = self.engine.measure(pairs, models, buffers, count)
        traffic = Traffic(len(clients) * (bytes_of(models) + bytes_of(buffers)), bytes_of(sums))
        confusions = sums["confusion"].unflatten(0, (len(clients), number)).sum(0)
        return Scores(balanced_accuracies(confusions), traffic)

    def close(self) -> None:
        """Stop worker processes."""
        self.engine.close()

    def presented(self, state: ServerState) -> tuple[Params, Params]:
        """The parameters and buffers that are scored and saved."""
        return present(self.method, state)

    def module(self, state: ServerState) -> nn.Module:
        """The trained model as a torch module."""
        return self.work.model.load(*self.presented(state))

    def _first_model(self) -> tuple[Params, Params]:
        model, device = self.work.model, self.work.federation.train.x.device
        params, buffers = (
            {name: t.to(device) for name, t in tree.items()} for tree in (model.params(), model.buffers())
        )
        return params, buffers

    def _measure(self) -> Measure | None:
        """How a server rule may measure a model on the server's validation samples; None without such samples."""
        federation = self.work.federation
        if federation.validation is None:
            return None
        own = federation.validation
        return lambda params, buffers, sums: measure(
            self.work.model, params, buffers, own, federation.scaling, sums
        )

    def _sums(self, state: ServerState, samples: Samples, counted: Measurement = count_all) -> Tree:
        """Of the scored model on these samples; where clients train alone, the sums of all their models.

        All of them answer the same samples, so that accuracies and recalls of such sums are means over clients.
        """
        params, buffers = self.presented(state)
        if (alone := self.method.alone) is not None:
            if not isinstance(self.engine, EmbeddedEngine):
                raise ConfigError(f"{alone.name} needs all clients in this process, to score their models")
            return self.engine.measure_everyone(params, buffers, samples, counted)
        return measure(self.work.model, params, buffers, samples, self.work.federation.scaling, counted)

    def _probe(self, state: ServerState) -> dict[str, Any]:
        """Probe name -> its numbers of the scored model."""
        federation, (params, buffers) = self.work.federation, self.presented(state)
        own = server_samples(federation)
        return {**look(self.work.model, params, buffers, own, federation.scaling, self.probes)}

    def _measure_clients(self, state: ServerState, clients: list[int], counted: Measurement) -> Tree:
        """Sums [W, ...] of the model on the held-out samples of each of these clients."""
        if self.method.alone is not None:
            return self.engine.measure_own(clients, *self.presented(state), counted)
        params, buffers = (tmap(lambda leaf: leaf.unsqueeze(0), tree) for tree in self.presented(state))
        return self.engine.measure([Pair(client, 0) for client in clients], params, buffers, counted)


def advance(
    simulations: Sequence[Simulation],
    states: Sequence[ServerState],
    tasks: Sequence[Sequence[Task]] | None = None,
) -> list[tuple[ServerState, Outcome]]:
    """One more round of each run; joined runs train in one program."""
    settings = simulations[0].settings
    asked = tasks or [sim.tasks(state) for sim, state in zip(simulations, states, strict=True)]
    with threads(settings.threads), arithmetic(settings.precision):
        trained = train_round(simulations, states, asked)
        return [
            sim.conclude(state, reply, outcome)
            for sim, state, (reply, outcome) in zip(simulations, states, trained, strict=True)
        ]


def train_round(
    simulations: Sequence[Simulation], states: Sequence[ServerState], tasks: Sequence[Sequence[Task]]
) -> list[tuple[Replies | None, Outcome]]:
    """The replies to each run's tasks of a round, from which nothing follows yet."""
    opened = [
        open_round(sim.method, state, wanted, sim.work.local.rate(state.round, sim.rounds))
        for sim, state, wanted in zip(simulations, states, tasks, strict=True)
    ]
    requests = [Request(wanted, sent) for wanted, (sent, _) in zip(tasks, opened, strict=True)]
    replies = train_all([sim.engine for sim in simulations], requests)
    return [(reply, outcome) for reply, (_, outcome) in zip(replies, opened, strict=True)]


def evaluate(simulations: Sequence[Simulation], states: Sequence[ServerState]) -> list[dict[str, Any]]:
    """Scores of each run; models of joined runs are evaluated on the test set in one pass."""
    apart = len(simulations) == 1 or simulations[0].method.alone is not None
    tested = [None] * len(simulations) if apart else _tested(simulations, states)
    return [sim.evaluate(state, sums) for sim, state, sums in zip(simulations, states, tested, strict=True)]


def _tested(simulations: Sequence[Simulation], states: Sequence[ServerState]) -> list[Tree]:
    work, settings = simulations[0].work, simulations[0].settings
    shown = [sim.presented(state) for sim, state in zip(simulations, states, strict=True)]
    params, buffers = stack([params for params, _ in shown]), stack([buffers for _, buffers in shown])
    with threads(settings.threads), arithmetic(settings.precision):
        sums = measure_many(work.model, params, buffers, work.federation.test, work.federation.scaling)
    return [take(sums, run) for run in range(len(states))]


def balanced_accuracies(confusions: Tensor) -> Tensor:
    """[M] of confusions [M, C, C]; rounded, so that equal scores are equal in whatever order recalls were summed."""
    scores = [round(balanced_accuracy(one) or 0.0, EXACT_DIGITS) for one in confusions.cpu()]
    return torch.tensor(scores, dtype=torch.float64)
