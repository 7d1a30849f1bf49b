"""Learning curves as numbers: the mean over seeds and its deviation, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from counterpoise.metrics.catalogue import find, headline
from counterpoise.report.html.study import Study, mean_and_deviation, thin
from counterpoise.results.cells import lower_is_better, scores_in
from counterpoise.results.results import RunResult, by_round

BUDGET = 250_000  # numbers of all curves together: about a megabyte and a half
FEWEST, MOST = 20, 200  # points of one curve
LOSSES = {
    "loss": "Training loss",
    "cross_entropy": find("cross_entropy").title,
    "validation_cross_entropy": "Cross-entropy on the server's validation samples",
}
CLIENTS = ("mean_client_balanced_accuracy", "worst_client_balanced_accuracy")
Read = Callable[[Mapping[str, Any]], Any]


def curve_data(study: Study) -> dict[str, Any]:
    """Scores to choose from, the curves per problem and method, and whether they were thinned."""
    runs = [run for group in study.groups.values() for run in group]
    scores = _scores(runs, study.comparison.score)
    points = points_for(2 * len(scores) * len(study.groups))
    series = [
        {
            "at": study.place(*key),
            "seeds": [run.seed for run in group],
            "curves": _curves(group, scores, points),
        }
        for key, group in study.groups.items()
    ]
    return {
        "scores": [_describe(score) for score in scores],
        "series": series,
        "points": points,
        "thinned": any(len(run.rows) > points for run in runs),
    }


def points_for(curves: int) -> int:
    """Points per curve, for this many curves."""
    return max(FEWEST, min(MOST, BUDGET // max(curves, 1)))


def curve(runs: Sequence[RunResult], read: Read, points: int) -> list[Any] | None:
    """Rounds, means and deviations over runs; None if no round is known of all of them."""
    known = [dict(by_round(run.rows, read)) for run in runs]
    rounds = thin(sorted(set.intersection(*map(set, known))), points) if known else []
    if not rounds:
        return None
    return [rounds, *mean_and_deviation([[values[r] for r in rounds] for values in known])]


def _curves(runs: Sequence[RunResult], scores: Sequence[str], points: int) -> dict[str, Any]:
    drawn = {score: curve(runs, _reader(score), points) for score in scores}
    return {score: found for score, found in drawn.items() if found is not None}


def _reader(score: str) -> Read:
    if score in CLIENTS:
        return lambda row: row.get("clients", {}).get(score)
    if score == "validation_cross_entropy":
        return lambda row: row.get("validation", {}).get("cross_entropy")
    return lambda row: row.get(score)


def _scores(runs: Sequence[RunResult], first: str) -> list[str]:
    """The chosen score, then the usual ones, then all others that were recorded."""
    clients = CLIENTS if any("clients" in row for run in runs for row in run.scored) else ()
    losses = [key for key in LOSSES if any(_reader(key)(row) is not None for run in runs for row in run.rows)]
    usual = headline()
    others = [key for key in scores_in(runs) if key not in usual]
    return list(dict.fromkeys([first, *usual, *clients, *others, *losses]))


def _describe(score: str) -> dict[str, Any]:
    if score in LOSSES:
        return {"key": score, "name": LOSSES[score], "percent": False, "lower": True}
    entry = find(score)
    share = entry.unit == "percent"
    return {"key": score, "name": entry.title, "percent": share, "lower": lower_is_better(score)}
