"""Captions of the tables, and the verdicts and notes below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from counterpoise.errors import noun
from counterpoise.metrics.catalogue import capital, find
from counterpoise.report.render.layout import COURSE, score_columns
from counterpoise.report.render.verdict_table import limits_of, words_of_tests
from counterpoise.results.comparison import Comparison
from counterpoise.results.words import show_p

AT = {
    "last": " after the last round",
    "best": ", each at its own best evaluation of a run",
    "mean_last_10": " as means of the last 10 evaluations",
}


class Shown(NamedTuple):
    """One of the tables that every form of a comparison has."""

    name: str
    caption: str
    columns: Sequence[str]


def shown_tables(comparison: Comparison) -> list[Shown]:
    """The scores, then the course of the runs."""
    return [
        Shown("scores", scores_caption(comparison), score_columns(comparison)),
        Shown("course", course_caption(comparison), COURSE),
    ]


def scores_caption(comparison: Comparison) -> str:
    """Moment, seeds, score and test."""
    return (
        f"Scores in percent{AT[comparison.at]}, mean ± sample deviation over {_seeds(comparison)}; the best mean is bold."
        f" † better, ‡ worse than {comparison.baseline} in {find(comparison.score).words}: {words_of_tests(comparison)}"
        " over paired seeds, 5 % after Holm's correction."
    )


def course_caption(comparison: Comparison) -> str:
    """What the second table shows, with the targets."""
    targets = [
        f"{100 * target:.1f} %{f' ({problem})' if problem else ''}"
        for problem, target in comparison.targets.items()
        if target is not None
    ]
    return (
        f"{capital(find(comparison.score).words)} in percent: last, best and mean of the last 10 evaluations; what it took to reach"
        f" {', '.join(targets) or 'no target'}, over the seeds that did; totals. MB count numbers sent both ways."
    )


def findings(comparison: Comparison) -> Iterator[str]:
    """What limits the verdicts, then the ranking."""
    yield from limits_of(comparison.verdicts)
    ranking = comparison.ranking
    if ranking is None:
        return
    ranks = ", ".join(
        f"{method} {rank:.2f}" for method, rank in zip(ranking.methods, ranking.average_ranks, strict=True)
    )
    found = "the methods differ" if ranking.differs else "no evidence that the methods differ"
    yield (
        f"Average ranks over {ranking.blocks} blocks ({ranking.unit}): {ranks}. Friedman's test: {found}"
        f" (chi squared {ranking.friedman:.2f}, {show_p(ranking.p)});"
        f" Nemenyi's critical difference at 5 % is {ranking.critical_difference:.2f}."
    )


def remarks(comparison: Comparison) -> Iterator[str]:
    """Runs left out, then notes."""
    yield from (f"Left out: {path}: {line}" for path, line in comparison.failures)
    yield from comparison.notes


def _seeds(comparison: Comparison) -> str:
    counts = sorted({len(row.seeds) for row in comparison.rows}) or [0]
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} {noun(counts[-1], 'seed')}"
