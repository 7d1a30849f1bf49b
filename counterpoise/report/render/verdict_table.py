"""Verdicts as a table: one row per method and problem instead of a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpoise.results.comparison import Comparison
from counterpoise.results.labels import score_words
from counterpoise.results.verdicts import ALL, EQUAL, Verdict

ALL_PROBLEMS = "all problems"


def verdict_caption(comparison: Comparison) -> str:
    """What the columns are."""
    return (
        f"Each method minus {comparison.baseline} in {score_words(comparison.score)}: mean of the paired differences, Student's"
        " 95 % interval, p of Wilcoxon's signed-rank test, and after Holm's correction, which the verdict goes by."
    )


def verdict_head(comparison: Comparison) -> list[str]:
    place = ["problem"] if _several(comparison) else []
    return ["method", *place, "verdict", "points", "95 % interval", "pairs", "p", "after Holm"]


def verdict_rows(comparison: Comparison) -> list[list[str]]:
    """The cells of every verdict, those over all problems first."""
    ordered = sorted(comparison.verdicts, key=lambda verdict: verdict.problem != ALL)
    return [_cells(verdict, _several(comparison)) for verdict in ordered]


def limits_of(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Why pairs were too few, each reason once, with the number of verdicts that it holds for."""
    found = [verdict.limits for verdict in verdicts if verdict.limits not in ("", EQUAL)]
    for words in dict.fromkeys(found):
        count = found.count(words)
        yield words if count == 1 else f"{words} This holds for {count} verdicts."


def _several(comparison: Comparison) -> bool:
    return any(verdict.problem == ALL for verdict in comparison.verdicts)


def _cells(verdict: Verdict, several: bool) -> list[str]:
    place = [ALL_PROBLEMS if verdict.problem == ALL else verdict.problem] if several else []
    found = "equal on every pair" if verdict.limits == EQUAL else verdict.verdict
    low, high = verdict.interval or (None, None)
    interval = "n/a" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f}"
    return [
        verdict.method, *place, found, f"{100 * verdict.difference:+.1f}", interval,
        str(verdict.pairs), _p(verdict.p), _p(verdict.adjusted),
    ]  # fmt: skip


def _p(p: float) -> str:
    return f"{p:.2g}" if p >= 0.001 else "< 0.001"
