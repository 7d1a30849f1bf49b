"""Predictions for a file: classes and probabilities as CSV, and scores where the file has labels."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.data.own.inputs import Given, read_inputs
from counterpoise.data.preprocessing import UNKNOWN
from counterpoise.data.root import sha256_of
from counterpoise.data.tables.table import TEST_FILE, is_table
from counterpoise.metrics.catalogue import PER_CLASS
from counterpoise.metrics.confusion import confusion
from counterpoise.metrics.scores import accuracy, balanced_accuracy, macro_f1
from counterpoise.metrics.threshold import Decision
from counterpoise.report.confusion import Confusion
from counterpoise.run.trained import Predictions
from counterpoise.system.atomic import write_atomically
from counterpoise.trained.answers import class_scores
from counterpoise.trained.load import LoadedRun

DIGITS = 6  # of a probability
FIRST = ("row", "class")  # columns before the probabilities
TRUE = "label"  # column of the true class, where it is known
HEADER = re.compile(rf'{",".join(FIRST)},({TRUE},)?"?p\('.encode())
LONGEST_HEADER = 100  # bytes up to the first probability


class Predicted(NamedTuple):
    """What a model says of a file, and how good that is where the file has labels."""

    given: Given
    said: Predictions
    confusion: Confusion | None
    decision: Decision | None = None  # the run's threshold, which answers go by
    trained_on: bool = False  # some of the samples trained the model, so that scores are no test

    @property
    def threshold(self) -> dict[str, Any]:
        """The threshold by name; empty without one."""
        if self.decision is None:
            return {}
        return {"threshold": self.decision.chance, "positive": self.said.classes[self.decision.positive]}

    def scores(self) -> dict[str, Any]:
        """Scores of the labelled samples; empty without any."""
        if self.confusion is None:
            return {}
        counts = torch.from_numpy(self.confusion.counts)
        return {
            "samples": int(counts.sum()),
            "accuracy": accuracy(counts),
            "balanced_accuracy": balanced_accuracy(counts),
            "macro_f1": macro_f1(counts),
            **{
                f"{PER_CLASS}{name}": dict(zip(self.said.classes, scores, strict=True))
                for name, scores in class_scores(counts).items()
            },
            "confusion": self.confusion.counts.tolist(),
        }


def predict_file(run: LoadedRun, path: Path | str) -> Predicted:
    """Everything that the model of a run says of the samples of a file or folder."""
    module = run.module
    given = read_inputs(path, run.preprocessing)
    said = module.predict_inputs(given.x)
    counted = (
        None if given.y is None else Confusion(_count(said.codes, given.y, len(said.classes)), said.classes)
    )
    return Predicted(given, said, counted, module.decision, _trained_on(run, Path(path), len(said.codes)))


def _trained_on(run: LoadedRun, path: Path, samples: int) -> bool:
    """Whether a file holds training samples of the run; of arrays with halves the test half alone is predicted."""
    if not path.is_file():
        return False
    files = run.result.record["data"]["files"]
    known = {digest for name, digest in files.items() if not name.startswith(TEST_FILE)}
    return (is_table(path) or 0 < run.test_samples < samples) and sha256_of(path) in known


def write_predictions(predicted: Predicted, path: Path) -> None:
    """A CSV file, written whole or not at all: the row or file, the class, the label where it is known, probabilities."""
    write_atomically(path, _csv(predicted).encode(errors="backslashreplace"))


def holds_predictions(path: Path) -> bool:
    """Whether a file begins as one of `write_predictions`."""
    with path.open("rb") as stream:
        return HEADER.match(stream.read(LONGEST_HEADER)) is not None


def _csv(predicted: Predicted) -> str:
    given, said = predicted.given, predicted.said
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    true = _true(given.y, said)
    rows.writerow([*FIRST, *([TRUE] if true else []), *(f"p({name})" for name in said.classes)])
    for place, (name, label) in enumerate(zip(given.names, said.labels, strict=True)):
        shares = [f"{share:.{DIGITS}g}" for share in said.probabilities[place].tolist()]
        rows.writerow([name, label, *true[place : place + 1], *shares])
    return stream.getvalue()


def _true(y: Tensor | None, said: Predictions) -> list[str]:
    """The true class of each sample, empty where it is not known; an empty list without any."""
    return [] if y is None else ["" if code == UNKNOWN else said.classes[code] for code in y.tolist()]


def _count(codes: Tensor, y: Tensor, classes: int) -> Any:
    known = y != UNKNOWN
    answers = torch.nn.functional.one_hot(codes[known], classes)
    return np.asarray(confusion(answers, y[known]))
