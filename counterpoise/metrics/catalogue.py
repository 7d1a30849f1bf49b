"""What every score is: its titles, direction, unit, formula, and where it is shown. Tables and charts read it here."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import torch

from counterpoise.core.tree import Tree
from counterpoise.metrics import roc, scores

Unit: TypeAlias = Literal["percent", "plain"]
Place: TypeAlias = Literal["summary", "table", "runs", "curve", "line"]
# Takes the sums of `scoring.count_all`, and the scores computed before it, all by name.
Formula: TypeAlias = Callable[[Mapping[str, Any]], Any]


class ScoreEntry(NamedTuple):
    """One score; its entry and its formula are all that a new one needs."""

    name: str  # key in the rows of metrics.jsonl
    definition: str = ""
    title: str = ""  # on its own, above a chart; by default the words, with a capital
    short: str = ""  # above a column; by default the words
    words: str = ""  # within a sentence; by default the name
    lower: bool = False  # lower is better
    unit: Unit = "percent"
    places: tuple[Place, ...] = ()
    formula: Formula | None = None  # None: it needs more than sums, such as groups of classes
    needs: str = ""  # a sum that only some runs have; without it there is no such score


HEADLINE: tuple[Place, ...] = ("summary",)  # with last, best and mean; columns of CSV and JSON files
COLUMN: tuple[Place, ...] = ("summary", "table")  # of the comparison's table and the report's
ALWAYS: tuple[Place, ...] = ("summary", "table", "runs", "curve")  # also where a run has few columns
OPTIONAL: tuple[Place, ...] = ("table",)  # a column where a run has it
SHORTEST: tuple[Place, ...] = (*ALWAYS, "line")  # also where a run has one line

GROUPS = ("head", "medium", "tail")
TEST_SET, HELD_OUT = "the test set", "samples that clients hold out"
PER_CLASS = "per_class_"  # begins the names of lists with a value for each class
SCORES: dict[str, ScoreEntry] = {}  # by name, in the order of tables


def register(entry: ScoreEntry) -> ScoreEntry:
    """Add a score after those registered before."""
    SCORES[entry.name] = _complete(entry)
    return SCORES[entry.name]


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def find(name: str) -> ScoreEntry:
    """The entry of a score; an unregistered one is a share, and higher is better."""
    return SCORES.get(name) or _complete(ScoreEntry(name))


def headline() -> tuple[str, ...]:
    """Scores of every summary, in the order of tables."""
    return shown_in("summary")


def shown_in(place: Place) -> tuple[str, ...]:
    return tuple(name for name, entry in SCORES.items() if place in entry.places)


def worth_showing(names: Sequence[str], has: Callable[[str], bool]) -> tuple[str, ...]:
    """The scores to show: head, medium and tail together where there is one of them, what few runs have where one has it."""
    grouped = any(map(has, GROUPS))
    return tuple(name for name in names if (grouped if name in GROUPS else not find(name).needs or has(name)))


def comparable() -> tuple[str, ...]:
    """Scores that methods may be compared by: the headline ones, then other shares of the whole test set."""
    others = [name for name, entry in SCORES.items() if entry.formula and _is_share(entry)]
    return tuple(dict.fromkeys([*headline(), *others]))


def compute_scores(sums: Tree) -> dict[str, Any]:
    """Every score that has a formula."""
    found: dict[str, Any] = {}
    known = ChainMap(found, _prepared(sums))
    for name, entry in SCORES.items():
        if entry.formula is not None and (not entry.needs or entry.needs in known):
            found[name] = entry.formula(known)
    return found


def _prepared(sums: Tree) -> Tree:
    """Sums with only the occupied bins of histograms; none where there were too many classes."""
    counts = sums.get("histograms")
    if counts is None:
        counts = torch.zeros(0, 2, len(sums["confusion"]), dtype=torch.int64)
    return {**sums, "histograms": roc.occupied(counts)}


def _of_positive(scores_of: Callable[[Any], list[scores.Score]]) -> Formula:
    return lambda sums: scores_of(sums["confusion"])[sums["positive"]]


def _at_threshold(score_of: Callable[[Any], scores.Score]) -> Formula:
    """None where no threshold would do on the validation samples."""
    return lambda sums: None if sums["called"] is None else score_of(sums["called"])


def _is_share(entry: ScoreEntry) -> bool:
    return entry.unit == "percent" and not entry.name.startswith(PER_CLASS)


def _complete(entry: ScoreEntry) -> ScoreEntry:
    words = entry.words or entry.name.replace("_", " ").replace("f1", "F1")
    return entry._replace(words=words, short=entry.short or words, title=entry.title or capital(words))


for known in (
    ScoreEntry("accuracy", "share of samples that are recognised", places=SHORTEST),
    ScoreEntry("balanced_accuracy", "mean recall over classes", short="balanced", places=ALWAYS),
    ScoreEntry(
        "macro_f1", "mean F1 over classes", "Macro-F1", "macro-F1", places=("summary", "table", "runs")
    ),
    ScoreEntry("weighted_f1", "mean F1, each class by its samples", places=HEADLINE),
    ScoreEntry("g_mean", "geometric mean of recall over classes", "G-mean", "G-mean", places=HEADLINE),
    ScoreEntry("per_class_recall", "share of a class's samples that are recognised", short="recall"),
    ScoreEntry("per_class_precision", "share of the answers of a class that are right", short="precision"),
    ScoreEntry("per_class_f1", "harmonic mean of a class's precision and recall", short="F1"),
    ScoreEntry("head", "mean recall over the largest classes", "Recall of head classes", places=ALWAYS),
    ScoreEntry("medium", "mean recall over those between", "Recall of medium classes", places=ALWAYS),
    ScoreEntry("tail", "mean recall over the rarest classes", "Recall of tail classes", places=SHORTEST),
    ScoreEntry(
        "worst_class_recall",
        "lowest recall of a class",
        "Recall of the worst class",
        "worst class",
        places=COLUMN,
    ),
    ScoreEntry(
        "calibration_error",
        "mean distance of confidence from accuracy, over 15 bins of confidence",
        lower=True,
        formula=lambda sums: scores.expected_calibration_error(sums["calibration"]),
    ),
    ScoreEntry(
        "cross_entropy",
        "mean of -log p of the true class",
        "Cross-entropy of the scored samples",
        lower=True,
        unit="plain",
        formula=lambda sums: scores.mean_cross_entropy(sums["cross_entropies"]),
    ),
    ScoreEntry(
        "matthews",
        "correlation of true and predicted classes, from -1 over 0, which is chance, to 1",
        "Matthews correlation",
        "Matthews",
        "Matthews correlation",
        formula=lambda sums: scores.matthews(sums["confusion"]),
    ),
    ScoreEntry(
        "per_class_auroc",
        "chance that a sample of the class gets a higher probability of it than one of the rest",
        short="AUROC",
        words="AUROC of each class",
        formula=lambda sums: roc.per_class_auroc(sums["histograms"]),
    ),
    ScoreEntry(
        "per_class_average_precision",
        "mean precision at the samples of the class, ranked by its probability",
        short="AP",
        formula=lambda sums: roc.per_class_average_precision(sums["histograms"]),
    ),
    ScoreEntry(
        "auroc",
        "mean over classes of the area under the ROC curve, one class against the rest",
        "AUROC, mean over classes",
        "AUROC",
        "AUROC",
        formula=lambda sums: scores.mean_score(sums["per_class_auroc"]),
    ),
    ScoreEntry(
        "average_precision",
        "mean over classes of the area under the precision-recall curve (AUPRC), as a sum of steps",
        "Average precision, mean over classes",
        "AP",
        formula=lambda sums: scores.mean_score(sums["per_class_average_precision"]),
    ),
    ScoreEntry(
        "positive_recall",
        "recall of the positive class, `data.positive`: of its samples, the share that is found",
        formula=_of_positive(scores.per_class_recall),
        places=OPTIONAL,
        needs="positive",
    ),
    ScoreEntry(
        "positive_precision",
        "precision of the positive class: of the samples called so, the share that is",
        formula=_of_positive(scores.per_class_precision),
        places=OPTIONAL,
        needs="positive",
    ),
    ScoreEntry(
        "positive_f1",
        "F1 of the positive class",
        formula=_of_positive(scores.per_class_f1),
        needs="positive",
    ),
    ScoreEntry(
        "positive_average_precision",
        "average precision of the positive class",
        formula=lambda sums: sums["per_class_average_precision"][sums["positive"]],
        needs="positive",
    ),
    ScoreEntry(
        "threshold",
        "probability from which on a sample is called positive, chosen on validation samples (`evaluate.threshold`)",
        unit="plain",
        formula=lambda sums: sums["threshold"],
        needs="threshold",
    ),
    ScoreEntry(
        "threshold_recall",
        "recall of the positive class at the threshold; with `{ precision = p }` recall at a given precision",
        short="threshold recall",
        words="recall at the threshold",
        formula=_at_threshold(lambda called: scores.per_class_recall(called)[1]),
        places=OPTIONAL,
        needs="threshold",
    ),
    ScoreEntry(
        "threshold_precision",
        "precision of the positive class at the threshold",
        short="threshold precision",
        words="precision at the threshold",
        formula=_at_threshold(lambda called: scores.per_class_precision(called)[1]),
        places=OPTIONAL,
        needs="threshold",
    ),
    ScoreEntry(
        "threshold_f1",
        "F1 of the positive class at the threshold",
        words="F1 at the threshold",
        formula=_at_threshold(lambda called: scores.per_class_f1(called)[1]),
        needs="threshold",
    ),
    ScoreEntry(
        "threshold_balanced_accuracy",
        "balanced accuracy at the threshold",
        words="balanced accuracy at the threshold",
        formula=_at_threshold(scores.balanced_accuracy),
        needs="threshold",
    ),
    ScoreEntry("weighted_score", "mean of recalls and precisions by the weights of the config"),
    ScoreEntry(
        "mean_client_balanced_accuracy",
        "mean over clients, each on what it holds out",
        "Balanced accuracy, mean over clients",
    ),
    ScoreEntry(
        "worst_client_balanced_accuracy",
        "lowest of a client, on what it holds out",
        "Balanced accuracy of the worst client",
    ),
    ScoreEntry(
        "mean_client_accuracy",
        "mean over clients, each on what it holds out",
        "Accuracy, mean over clients",
    ),
    ScoreEntry(
        "worst_client_accuracy",
        "lowest of a client, on what it holds out",
        "Accuracy of the worst client",
    ),
    ScoreEntry(
        "personal_balanced_accuracy",
        "mean over clients of the model that each would use, on what it holds out (evaluate.personal)",
        "Balanced accuracy of clients' own models",
        "Own models",
    ),
):
    register(known)


def scored_on(summary: Mapping[str, Any]) -> str:
    """The samples that a run's scores are of: without a test set those that clients hold out."""
    return str(summary.get("scored_on", TEST_SET))
