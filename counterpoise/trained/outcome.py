"""What a run leaves to its user, of `simulate` and of a folder alike: scores by key, the model, confusion counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.errors import DataError, printable
from counterpoise.metrics.threshold import Decision
from counterpoise.report.confusion import Confusion
from counterpoise.report.outcome import Facts, five_lines, outcome_html
from counterpoise.run.trained import Predictions, TrainedModel
from counterpoise.trained.answers import BY_PROBABILITY, CALLED, called_from, scores_at_threshold


class RunOutcome(Mapping[str, Any]):
    """The summary of a run by key; `module` is the trained model, which takes data as in training and gives logits."""

    if TYPE_CHECKING:  # at run time a dataclass below would take these for defaults of its fields

        @property
        def summary(self) -> dict[str, Any]: ...
        @property
        def module(self) -> TrainedModel: ...
        @property
        def facts(self) -> Facts: ...

    def __getitem__(self, key: str) -> Any:
        return self.summary[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.summary)

    def __len__(self) -> int:
        return len(self.summary)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return outcome_html(self._lines())

    @property
    def classes(self) -> tuple[str, ...]:
        return self.module.classes

    @property
    def decision(self) -> Decision | None:
        """From which probability on a sample is called positive, where the run chose a threshold."""
        return self.module.decision

    def predict(self, x: Any) -> Predictions:
        """Named classes and probabilities of rows of a frame, pixels or numbers, as they were before training."""
        return self.module.predict(x)

    def confusion(self) -> Confusion:
        """The counts of the last model's answers on the test set, by its threshold where it has one; `draw` makes a picture of them."""
        if "confusion" not in self.summary:
            raise DataError(
                "there are no confusion counts: the run has no test set, very many classes, or is of an older version"
            )
        counts = self.summary.get(CALLED) or self.summary["confusion"]
        return Confusion(np.array(counts, dtype=np.int64), self.classes)

    def _lines(self) -> list[str]:
        *lines, use = five_lines(self.summary, self.facts)
        return [*lines, *self._answers(), use]

    def _answers(self) -> list[str]:
        """With a threshold the scores of the model that answers, since the others are of another one."""
        if self.decision is None:
            return []
        called, scores = called_from(self.decision, self.classes), scores_at_threshold(self.summary)
        return [
            printable(f"answers: {called}, which gives {scores}; the scores above are of {BY_PROBABILITY}")
        ]
