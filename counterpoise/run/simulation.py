"""A method at work on a federation, round by round, whoever answers for the clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from counterpoise.client.measure import measure, measure_many
from counterpoise.client.round import enroll
from counterpoise.core.messages import Replies, Task
from counterpoise.core.method import Method
from counterpoise.core.part import Census, Measure, Measurement
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, bytes_of, tmap
from counterpoise.data.dataset import Samples
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.precision import arithmetic
from counterpoise.engines.threads import threads
from counterpoise.engines.workplace import Engine, Workplace, open_task
from counterpoise.metrics import balanced_accuracy
from counterpoise.metrics.scoring import Scoring, count, count_all, score_clients
from counterpoise.server.cohort import Cohort
from counterpoise.server.round import (
    Outcome,
    Server,
    ServerState,
    announce,
    conclude,
    diagnose,
    open_round,
    open_server,
)
from counterpoise.server.search import Scores, Traffic, propose_tasks

EXACT_DIGITS = 12  # of a mean of recalls; those behind come from rounding


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
        bound = self.cohort.max_influence or None
        return Server(self.method, self.engine, clients, self.validate, self._measure(), bound)

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

    def rehearse(self) -> None:
        """Open a first task of every client, and train nothing: parts that do not fit the clients say so."""
        state, method = self.open(), self.method
        everyone = Cohort().draw(self.seed, state.round, self.work.federation.samples())
        broadcast = announce(method, state, self.work.local.rate(state.round, self.rounds))
        memory = enroll(method, state.params, len(self.work.federation.classes))
        for task in propose_tasks(method, state.slots, state.round, everyone):
            open_task(self.work, task, memory, broadcast)

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

        `tested`: what `count_all` counts on the test set, where that is known already.
        """
        federation = self.work.federation
        with threads(self.settings.threads), arithmetic(self.settings.precision):
            clients = federation.holders()
            alone = not len(federation.test.y)  # a server without a test set of its own
            counted = count_all if alone else count
            sums = self._measure_clients(state, clients, counted) if self.scoring.clients else {}
            if alone:
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

    def validate(self, models: Params, buffers: Params) -> Scores:
        """Balanced accuracy of stacked models on the server's validation set, else on all that clients hold out."""
        federation = self.work.federation
        if federation.validation is not None:
            given = self.work.model, models, buffers, federation.validation, federation.scaling
            return Scores(balanced_accuracies(measure_many(*given, count)["confusion"]))
        clients = federation.holders()
        sums = self.engine.measure(clients, models, buffers, count)
        traffic = Traffic(len(clients) * (bytes_of(models) + bytes_of(buffers)), bytes_of(sums))
        return Scores(balanced_accuracies(sums["confusion"].sum(0)), traffic)

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

    def _measure_clients(self, state: ServerState, clients: list[int], counted: Measurement) -> Tree:
        """Sums [W, ...] of the model on what each of these clients holds out."""
        params, buffers = (
            tmap(lambda leaf: leaf.unsqueeze(0), tree) for tree in (state.params, state.buffers)
        )
        return tmap(lambda leaf: leaf[:, 0], self.engine.measure(clients, params, buffers, counted))


def balanced_accuracies(confusions: Tensor) -> Tensor:
    """[M] of confusions [M, C, C]; equal scores come out equal, in whatever order their recalls were added up."""
    scores = [round(balanced_accuracy(one) or 0.0, EXACT_DIGITS) for one in confusions.cpu()]
    return torch.tensor(scores, dtype=torch.float64)
