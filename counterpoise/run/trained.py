"""A trained model together with the preprocessing of its data: it takes data as its user has it and names classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from counterpoise.client.functional import FunctionalModel, scored_outputs
from counterpoise.client.measure import BATCH
from counterpoise.client.trial import example_of
from counterpoise.core.method import Method
from counterpoise.core.rng import generator
from counterpoise.data.dataset import Scaling
from counterpoise.data.preprocessing import Preprocessing
from counterpoise.errors import ConfigError, DataError
from counterpoise.metrics.threshold import Decision
from counterpoise.models.foreign import check_trusted
from counterpoise.models.headed import whole_network
from counterpoise.models.heads import has_features
from counterpoise.models.pretrained import load_weights
from counterpoise.parts.optimizer import with_local
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.first_model import Start, adapt_model, build_named_model


class Predictions(NamedTuple):
    """What a model says of samples: the names of the classes, and a probability of each."""

    classes: tuple[str, ...]
    probabilities: Tensor  # [n, C]
    codes: Tensor  # [n] the class of each sample, by number: the most probable, or by the run's threshold

    @property
    def labels(self) -> list[str]:
        """The class of each sample, by name."""
        return [self.classes[code] for code in self.codes.tolist()]

    def frame(self) -> Any:
        """A data frame: the class, and the probability of every class."""
        pandas = need_pandas()
        frame = pandas.DataFrame(self.probabilities.numpy(), columns=list(self.classes))
        frame.insert(0, "class", self.labels, allow_duplicates=True)
        return frame


class TrainedModel(nn.Module):
    """``module(x)`` gives logits [n, C] of data as in training: raw pixels or numbers, or rows of a frame.

    ``module(federation.test.x)`` works for tables too, whose tensors hold encoded rows. ``model`` is the network inside,
    which takes scaled inputs. With a `decision`, the threshold that the run chose, answers go by it; else the most probable class
    is the answer.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        model: nn.Module,
        how: Preprocessing,
        method: Method | None = None,
        decision: Decision | None = None,
    ) -> None:
        super().__init__()
        self.method, self.decision = method or Method(), decision
        self.model, self.how = model.eval(), how
        first = next(model.parameters())
        for name, factor in how.form.scaling.to(first.device, first.dtype)._asdict().items():
            self.register_buffer(name, factor, persistent=False)
        self._arrange = FunctionalModel(model).arrange

    @property
    def classes(self) -> tuple[str, ...]:
        return self.how.form.classes

    def forward(self, x: Any) -> Tensor:
        """Logits; a tensor for a model of tables holds encoded rows."""
        return self.logits(self.how.fitting("x", x) if isinstance(x, Tensor) else self.how.inputs(x))

    def logits(self, x: Tensor) -> Tensor:
        """Of inputs [n, ...] that are read, but not yet scaled: the very steps by which the run scored its model."""
        refuse_without_model(self.method, "the run")
        scaled = Scaling(self.scale, self.shift)(x.to(self.scale.device))
        outputs = scored_outputs(self.model, self._arrange(scaled), has_features(self.model))
        return outputs.logits

    @torch.no_grad()
    def predict(self, x: Any) -> Predictions:
        """Named classes and probabilities of data as in training."""
        return self.predict_inputs(self.how.inputs(x))

    @torch.no_grad()
    def predict_inputs(self, x: Tensor) -> Predictions:
        """As `predict`, of inputs that are read already."""
        mode = self.training
        whole = torch.cat([self.eval().logits(piece) for piece in torch.split(x, BATCH)])
        self.train(mode)
        codes = whole.argmax(1) if self.decision is None else self.decision.codes(whole)
        return Predictions(self.classes, whole.double().softmax(1).cpu(), codes.cpu())


def refuse_without_model(method: Method, where: str) -> None:
    """Where each client has a model of its own, the one that all started from is not worth asking."""
    if method.alone is not None:
        raise ConfigError(
            f"{where} has no model to use: with {method.alone.name} every client has its own, and nothing is averaged"
        )


def decision_of(
    summary: Mapping[str, Any], classes: Sequence[str], positive: str | int | None
) -> Decision | None:
    """The threshold that a run chose on validation samples; None without one, or where none would do."""
    chance = summary.get("threshold")
    return None if chance is None else Decision(list(classes).index(str(positive)), float(chance))


def build_trained(
    experiment: Experiment, how: Preprocessing, weights: Path, decision: Decision | None = None
) -> TrainedModel:
    """The model that a config describes, with the weights of a file in it."""
    given, form = experiment.model, how.form
    check_trusted(given.name)
    module, drawn = build_named_model(
        given.name, given.arguments, form.shape, len(form.classes), experiment.seed
    )
    method = with_local(experiment.build_method(), experiment.local)
    place = torch.device("cpu"), getattr(torch, experiment.engine.dtype)
    stream = generator(experiment.seed, "init")
    kind = torch.int64 if form.scaling.whole else place[1]  # token ids are looked up, not multiplied
    example = example_of(form.shape, (place[0], kind))
    start = Start(drawn, freeze=tuple(given.freeze or ()), head=given.head)
    module = adapt_model(method, module, start, stream, place, lambda _: example, len(form.classes))
    if lacking := load_weights(module, weights):
        raise DataError(f"{weights} lacks {lacking[0]}, which the model has")
    return TrainedModel(whole_network(module).requires_grad_(False), how, decision=decision)


def need_pandas() -> Any:
    """The package pandas, or one line on how to get it."""
    try:
        import pandas
    except ImportError:
        raise ConfigError("frames need pandas; install counterpoise[frame]") from None
    return pandas
