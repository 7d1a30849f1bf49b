"""From results of runs to a comparison: rows, verdicts, ranking, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.core.method import read_spec
from counterpoise.errors import ConfigError, legal_words, listed, short
from counterpoise.metrics.catalogue import shown_in
from counterpoise.results.cells import (
    MOMENTS,
    At,
    Cell,
    Row,
    default_target,
    lower_is_better,
    make_row,
    scores_in,
    value_at,
)
from counterpoise.results.labels import Labels, Runs, group_runs
from counterpoise.results.notes import notes_of
from counterpoise.results.ranking import Ranking, rank_methods
from counterpoise.results.recommend import recommend
from counterpoise.results.recommendation import Recommendation
from counterpoise.results.repeats import overlaps
from counterpoise.results.results import RunResult
from counterpoise.results.statistics import Scores, blocks_of, name_blocks, read_scores
from counterpoise.results.verdicts import Verdict, judge

__all__ = ["At", "Cell", "Comparison", "Labels", "Ranking", "Row", "Verdict", "compare_results"]


class Comparison(NamedTuple):
    """Everything that tables and reports show about a set of runs."""

    score: str
    at: At
    baseline: str
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    ranking: Ranking | None  # None with fewer than three methods or two blocks
    targets: dict[str, float | None]  # of the score, by problem
    failures: tuple[tuple[Path, str], ...]  # runs left out, each with the reason
    notes: tuple[str, ...]
    recommendations: tuple[Recommendation, ...] = ()  # over all problems if there are several, then on each


def compare_results(
    results: Sequence[RunResult],
    *,
    score: str = "balanced_accuracy",
    at: At = "last",
    baseline: str | None = None,
    target: float | None = None,
    labels: Mapping[Path, Labels] | None = None,
    left_out: Mapping[Path, Exception] | None = None,
) -> Comparison:
    """Methods compared on each problem, paired by seed; unfinished runs are left out and listed.

    `labels`, by path of a run: its problem and method where configs alone do not tell, as for methods tuned separately.
    `left_out`: runs that could not be read, each with the reason.
    """
    finished = [result for result in results if result.has_result]
    unfinished = [result for result in results if not result.has_result]
    _check(finished, score, at)
    runs = group_runs(finished, labels)
    problems = list(dict.fromkeys(pair.problem for pair in runs))
    methods = list(dict.fromkeys(pair.method for pair in runs))
    labelled = [label.method for label in (labels or {}).values()]  # finished or not
    chosen = _choose_baseline(baseline, list(dict.fromkeys([*labelled, *methods])), _names_of(unfinished))
    targets = {problem: _target(runs, problem, score, target) for problem in problems}
    known = scores_in(finished)
    further = [name for name in shown_in("table") if name in known]
    pairs = (Labels(problem, method) for problem in problems for method in methods)
    rows = tuple(
        make_row(*pair, runs[pair], score, at, targets[pair.problem], further)
        for pair in pairs
        if pair in runs
    )
    scores = read_scores(rows, score)
    verdicts = judge(scores, problems, methods, chosen, score, overlaps(runs))
    failures = [(result.path, _why(result)) for result in unfinished]
    failures += [(path, str(error)) for path, error in (left_out or {}).items()]
    return Comparison(
        score=score,
        at=at,
        baseline=chosen,
        rows=rows,
        verdicts=verdicts,
        ranking=_rank(scores, problems, methods, score),
        targets=targets,
        failures=tuple(failures),
        notes=notes_of(rows, runs, at, chosen, repeated=len(finished) - sum(map(len, runs.values()))),
        recommendations=recommend(rows, runs, verdicts, chosen, score, at),
    )


def _check(finished: Sequence[RunResult], score: str, at: str) -> None:
    if at not in MOMENTS:
        raise ConfigError(f"at must be one of {listed(MOMENTS)}, not {short(at)}")
    if finished and score not in (known := scores_in(finished)):
        raise ConfigError(f"no run has the score {short(score)}; {legal_words(score, known)}")


def _choose_baseline(given: str | None, methods: Sequence[str], unfinished: set[str]) -> str:
    """The method of this label, or of this name if only one has it; by default fedavg, else the first method."""
    wanted = given or "fedavg"
    named = [label for label in methods if label == wanted] or [
        label for label in methods if label.partition("(")[0] == wanted
    ]
    if len(named) == 1:
        return named[0]
    if given is None:
        return (named or methods or [""])[0]
    if not named and unfinished.intersection((wanted, wanted.partition("(")[0])):
        return wanted
    raise ConfigError(
        f"baseline {short(given)} is not one method of these runs; {legal_words(given, methods)}"
    )


def _names_of(results: Sequence[RunResult]) -> set[str]:
    """Names of methods without their arguments, which may be the reason why the run failed."""
    return {"+".join(name for name, _ in read_spec(result.config["method"])) for result in results}


def _target(runs: Runs, problem: str, score: str, given: float | None) -> float | None:
    if given is not None:
        return given
    finals = [
        [value_at(run, score, "last") for run in by_seed.values()]
        for pair, by_seed in runs.items()
        if pair.problem == problem
    ]
    return default_target(finals, score)


def _rank(scores: Scores, problems: Sequence[str], methods: Sequence[str], score: str) -> Ranking | None:
    if len(methods) < 3:
        return None
    blocks = np.asarray(blocks_of(scores, problems, methods), float).reshape(-1, len(methods))
    return rank_methods(methods, -blocks if lower_is_better(score) else blocks, name_blocks(problems))


def _why(result: RunResult) -> str:
    if (failure := result.given_up or result.failure) is not None:
        return failure
    return f"not finished: {len(result.rows)} of {result.config['rounds']} rounds"
