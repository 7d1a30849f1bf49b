"""What the best method is best at: a score of the validation samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from counterpoise.errors import ConfigError, legal_words, listed, short
from counterpoise.metrics.catalogue import find

GOALS = {"balanced_accuracy": "balanced_accuracy", "macro_f1": "macro_f1", "auprc": "average_precision"}
RECALL = "recall:"


class Goal(NamedTuple):
    """A score by its key in a run's rows; of one class by its place."""

    name: str  # as given
    key: str
    words: str
    place: int | None = None

    def read(self, row: Mapping[str, Any]) -> float | None:
        """The score of an evaluation; None where it is not known."""
        found = row.get(self.key)
        if found is None or self.place is None:
            return found
        return None if found[self.place] is None else float(found[self.place])


def read_goal(given: str, classes: Sequence[str]) -> Goal:
    """The goal of a name, such as ``macro_f1`` or ``recall:CLASS``."""
    if isinstance(given, str) and given.startswith(RECALL):
        return _recall(given, classes)
    if given not in GOALS:
        raise ConfigError(f"goal must be one of {listed([*GOALS, 'recall:CLASS'])}, not {short(given)}")
    key = GOALS[given]
    return Goal(given, key, find(key).words)


def _recall(given: str, classes: Sequence[str]) -> Goal:
    name = given.removeprefix(RECALL)
    if name not in classes:
        raise ConfigError(f"goal {short(given)}: there is no such class; {legal_words(name, classes)}")
    return Goal(given, "per_class_recall", f"recall of {name}", list(classes).index(name))
