"""The result of benchmarks/tables.py as Markdown and CSV, with notes on what lies below by more than noise."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student
from table_scores import LEARNERS, SCORES, Scores

REFERENCE = "FedAvg linear"
ARMS = (REFERENCE, "centralised linear", "FedAvg", "balanced softmax", "local", "centralised")
NOISE = 0.95  # of the interval of a difference; one that excludes zero is more than noise
TEST_OVER_TRAIN = (
    0.25  # Nadeau and Bengio (2003): splits of one table share rows, so their scores vary together
)
GOAL = "balanced_accuracy"

BySeed = Mapping[int, Scores]


class Study(NamedTuple):
    """A table under one kind of clients: what it holds, and the scores of each arm and learner by seed."""

    table: str
    clients: str  # hospital (4), Dirichlet (10)
    facts: Mapping[str, Any]  # rows, classes, imbalance
    scores: Mapping[str, BySeed]


def mean(scores: BySeed, key: str = GOAL) -> float | None:
    known = [one[key] for one in scores.values() if one[key] is not None]
    return float(np.mean(known)) if known else None


def spread(scores: BySeed) -> float:
    known = [one[GOAL] for one in scores.values()]
    return float(np.std(known, ddof=1)) if len(known) > 1 else 0.0


def below(study: Study, arm: str, other: str) -> float | None:
    """By how many points an arm lies below another, where the interval of the paired difference excludes zero."""
    low, high = study.scores[arm], study.scores[other]
    gaps = np.array([100 * (low[seed][GOAL] - high[seed][GOAL]) for seed in low if seed in high])
    if len(gaps) < 2 or gaps.mean() >= 0:
        return None
    error = gaps.std(ddof=1) * np.sqrt(1 / len(gaps) + TEST_OVER_TRAIN)
    reach = student.ppf((1 + NOISE) / 2, len(gaps) - 1) * error
    return -float(gaps.mean()) if gaps.mean() + reach < 0 else None


def notes(study: Study) -> Iterator[str]:
    """Which arms lie below FedAvg's logistic regression, and this below scikit-learn's, by more than noise."""
    for arm in ARMS:
        other = LEARNERS[0] if arm == REFERENCE else REFERENCE
        gap = below(study, arm, other)
        if gap is not None:
            yield f"{arm} by {gap:.1f}" + (f" (than {other})" if arm == REFERENCE else "")


def lines(studies: Sequence[Study]) -> Iterator[str]:
    """Balanced accuracy in percent, mean ± deviation over seeds."""
    facts = ["table", "rows", "classes", "imbalance", "clients"]
    yield f"| {' | '.join([*facts, *LEARNERS, *ARMS, 'below by more than noise'])} |"
    yield f"| --- | ---: | ---: | ---: | --- |{' ---: |' * (len(LEARNERS) + len(ARMS))} --- |"
    for one in studies:
        known = [f"{one.facts['rows']:,}", str(one.facts["classes"]), f"{one.facts['imbalance']:g}"]
        cells = [cell(one.scores[arm]) for arm in (*LEARNERS, *ARMS)]
        yield f"| {' | '.join([one.table, *known, one.clients, *cells, '; '.join(notes(one))])} |"


def cell(scores: BySeed) -> str:
    found = mean(scores)
    return "n/a" if found is None else f"{100 * found:.1f} ± {100 * spread(scores):.1f}"


def csv_of(studies: Sequence[Study]) -> str:
    """One row per table, clients and arm; those of scikit-learn are the same for all clients of a table."""
    header = ["table", "rows", "classes", "imbalance", "clients", "arm", "seeds", *SCORES, "deviation"]
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in studies:
        for arm in (*LEARNERS, *ARMS):
            clients = "" if arm in LEARNERS else one.clients
            facts = [one.table, *map(str, one.facts.values()), clients, arm]
            rows[one.table, clients, arm] = [*facts, *numbers(one.scores[arm])]
    return text_of([header, *rows.values()])


def numbers(scores: BySeed) -> list[str]:
    """Seeds, means, and the deviation of balanced accuracy."""
    means = ["" if (value := mean(scores, key)) is None else f"{value:.4f}" for key in SCORES]
    return [str(len(scores)), *means, f"{spread(scores):.4f}"]


def text_of(rows: Sequence[Sequence[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
