"""Scores of a run's model: on the test set, on validation samples, and on what clients hold out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from counterpoise.client.measure import measure, measure_many
from counterpoise.client.probing import look, server_samples
from counterpoise.core.part import Measure, Measurement, Pair
from counterpoise.core.tree import Params, Tree, bytes_of, tmap
from counterpoise.data.dataset import Samples
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.engines.workplace import Engine, Workplace
from counterpoise.errors import ConfigError
from counterpoise.metrics import balanced_accuracy
from counterpoise.metrics.probe import Probe
from counterpoise.metrics.scoring import Scoring, count, count_all, score_clients
from counterpoise.server.search import Scores, Traffic

EXACT_DIGITS = 12  # of a mean of recalls; further digits are rounding errors


class Presented(NamedTuple):
    """The model that is scored and saved."""

    params: Params
    buffers: Params


@dataclass(frozen=True)
class Scorer:
    """What is needed to score a model of a run; where clients train alone, the models of all of them."""

    work: Workplace
    engine: Engine
    scoring: Scoring
    probes: tuple[Probe, ...] = ()

    def scores(self, model: Presented, tested: Tree | None = None) -> dict[str, Any]:
        """On the test set, and, where there are any, on the server's validation set and on held-out client samples.

        `tested`: the counts of `count_all` on the test set, where they are known already.
        """
        federation = self.work.federation
        own = federation.validation
        held = None if own is None else self.sums(model, own)
        clients = self._on_clients(model) if self.scoring.clients else {}
        if not len(federation.test.y):  # a server without a test set
            tested = tmap(lambda leaf: leaf.sum(0), clients)
        elif tested is None:
            tested = self.sums(model, federation.test)
        # the threshold is chosen on validation samples alone, never on those that it is scored on
        found = self.scoring.scores(tested, held)
        if held is not None:
            found["validation"] = self.scoring.scores(held)
        if self.scoring.clients:
            found["clients"] = score_clients(federation.holders(), list(clients["confusion"]))
        return found | self._personal(model) | self._probed(model)

    def sums(self, model: Presented, samples: Samples, counted: Measurement = count_all) -> Tree:
        """Of the model on these samples; where clients train alone, the sums of all their models.

        All of them answer the same samples, so that accuracies and recalls of such sums are means over clients.
        """
        if (alone := self.work.method.alone) is not None:
            if not isinstance(self.engine, EmbeddedEngine):
                raise ConfigError(f"{alone.name} needs all clients in this process, to score their models")
            return self.engine.measure_everyone(*model, samples, counted)
        return measure(self.work.model, *model, samples, self.work.federation.scaling, counted)

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

    @property
    def on_server(self) -> Measure | None:
        """How a server rule may measure a model on the server's validation samples; None without such samples."""
        federation = self.work.federation
        if (own := federation.validation) is None:
            return None
        return lambda params, buffers, sums: measure(
            self.work.model, params, buffers, own, federation.scaling, sums
        )

    def _on_clients(self, model: Presented) -> Tree:
        """Sums [W, ...] on what each client holds out; all that is counted only where there is no test set."""
        clients, alone = self.work.federation.holders(), self.work.method.alone
        counted = count if len(self.work.federation.test.y) else count_all
        if alone is not None:
            return self.engine.measure_own(clients, *model, counted)
        params, buffers = (tmap(lambda leaf: leaf.unsqueeze(0), tree) for tree in model)
        return self.engine.measure([Pair(client, 0) for client in clients], params, buffers, counted)

    def _personal(self, model: Presented) -> dict[str, Any]:
        """Scores of the model that each client would use, on what it holds out."""
        if not self.scoring.personal:
            return {}
        clients = self.work.federation.holders()
        sums = self.engine.measure_own(clients, *model, count)
        found = score_clients(clients, list(sums["confusion"]))
        return {"personal": found, "personal_balanced_accuracy": found["mean_client_balanced_accuracy"]}

    def _probed(self, model: Presented) -> dict[str, Any]:
        """Probe name -> its numbers."""
        if not self.probes:
            return {}
        federation = self.work.federation
        own = server_samples(federation)
        return {"probes": {**look(self.work.model, *model, own, federation.scaling, self.probes)}}


def balanced_accuracies(confusions: Tensor) -> Tensor:
    """[M] of confusions [M, C, C]; rounded, so that equal scores are equal in whatever order recalls were summed."""
    scores = [round(balanced_accuracy(one) or 0.0, EXACT_DIGITS) for one in confusions.cpu()]
    return torch.tensor(scores, dtype=torch.float64)
