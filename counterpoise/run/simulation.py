"""A method on a federation, round by round, with any engine: one run, or several joined ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from counterpoise.client.measure import measure_many
from counterpoise.client.probing import names_given
from counterpoise.core.checked import checked
from counterpoise.core.messages import Replies, Task
from counterpoise.core.method import Method
from counterpoise.core.part import Census, call
from counterpoise.core.secret import SecretKey
from counterpoise.core.tree import Params, Tree, stack, take
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.embedded import Request, train_all
from counterpoise.engines.opening import open_task
from counterpoise.engines.rehearsal import try_round
from counterpoise.engines.service import first_memory
from counterpoise.engines.workplace import Engine, Workplace
from counterpoise.metrics.catalogue import HELD_OUT, TEST_SET
from counterpoise.metrics.probe import Probe
from counterpoise.metrics.scoring import Scoring, count
from counterpoise.run.caution import note_of_few_tests, warn_of_lost_tail
from counterpoise.run.planning import check_patience, planning_part
from counterpoise.run.scorer import Presented, Scorer
from counterpoise.server.cohort import Cohort
from counterpoise.server.round import (
    announce,
    ask_everyone,
    conclude,
    diagnose,
    first_slots,
    open_round,
    present,
)
from counterpoise.server.search import propose_tasks
from counterpoise.server.state import Outcome, Server, ServerState


@dataclass(frozen=True)
class Simulation:
    """All fixed choices of a run; the state that changes is passed in and returned."""

    work: Workplace
    engine: Engine
    settings: EngineSettings
    cohort: Cohort
    rounds: int
    scoring: Scoring
    probes: tuple[Probe, ...] = ()
    patience: int | None = None  # evaluations without a better validation score after which the run ends
    secret: SecretKey = field(default_factory=SecretKey.new)  # a run in a folder has its own from there

    @property
    def method(self) -> Method:
        return self.work.method

    @property
    def seed(self) -> int:
        return self.work.seed

    @property
    def server(self) -> Server:
        """What all rounds share."""
        # A bound by the median of all would let one client's update change those of others.
        bound = None if self.method.guard is not None else self.cohort.max_influence or None
        return Server(
            method=self.method,
            ask=self.engine,
            clients=len(self.work.federation.clients),
            score=self.scorer.validate,
            measure=self.scorer.on_server,
            max_influence=bound,
            seed=self.seed,
            secret=self.secret,
        )

    @property
    def scorer(self) -> Scorer:
        return Scorer(self.work, self.engine, self.scoring, self.probes)

    @property
    def scored_on(self) -> str:
        """The samples that scores are of."""
        return TEST_SET if len(self.work.federation.test.y) else HELD_OUT

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
        slots = first_slots(checked(self.method), params, self.census, known)
        return self._tried(ServerState(params, buffers, slots))

    def _tried(self, state: ServerState) -> ServerState:
        """The first state, after a made-up client's round from it has gone well."""
        method, rate = checked(self.method), self.work.local.rate(state.round, self.rounds)
        asked = (
            Cohort().draw(self.seed, state.round, self.work.federation.samples())
            if method.owner("propose")
            else [0]
        )
        task = propose_tasks(method, state.slots, state.round, asked)[0]
        try_round(self.work, task, announce(method, state, rate))
        return state

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
        """Scores of the model, and the charts of the method's parts; `tested` as in `Scorer.scores`."""
        with self.settings.computing():
            return self.scorer.scores(self.presented(state), tested) | self.diagnostics(state)

    def confusion(self, state: ServerState) -> Tensor:
        """Counts [true class, answer] of the scored model on the test set; of all models where each client has its own."""
        with self.settings.computing():
            sums = self.scorer.sums(self.presented(state), self.work.federation.test, count)
        confusion: Tensor = sums["confusion"]
        return confusion

    def diagnostics(self, state: ServerState, scored: bool = True) -> dict[str, Any]:
        """The charts of the method's parts, as a round's row has them."""
        found = diagnose(self.method, state, scored)
        return {"diagnostics": found} if found else {}

    def probe_names(self) -> dict[str, list[str]]:
        """Names of the numbers that each probe gives."""
        return names_given(self.work.model, self.work.federation, self.probes)

    def close(self) -> None:
        """Stop worker processes."""
        self.engine.close()

    def presented(self, state: ServerState) -> Presented:
        """The parameters and buffers that are scored and saved."""
        return Presented(*present(self.method, state))

    def module(self, state: ServerState) -> nn.Module:
        """The trained model as a torch module."""
        return self.work.model.load(*self.presented(state))

    def _first_model(self) -> tuple[Params, Params]:
        model, device = self.work.model, self.work.federation.train.x.device
        params, buffers = (
            {name: t.to(device) for name, t in tree.items()} for tree in (model.params(), model.buffers())
        )
        return params, buffers


def advance(
    simulations: Sequence[Simulation],
    states: Sequence[ServerState],
    tasks: Sequence[Sequence[Task]] | None = None,
) -> list[tuple[ServerState, Outcome]]:
    """One more round of each run; joined runs train in one program."""
    settings = simulations[0].settings
    asked = tasks or [sim.tasks(state) for sim, state in zip(simulations, states, strict=True)]
    with settings.computing():
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
    with settings.computing():
        sums = measure_many(work.model, params, buffers, work.federation.test, work.federation.scaling)
    return [take(sums, run) for run in range(len(states))]
