"""Verdicts as a table: one row per method and problem instead of a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpoise.metrics.catalogue import find
from counterpoise.results.comparison import Comparison
from counterpoise.results.verdicts import ALL, EQUAL, Test, Verdict
from counterpoise.results.words import bare_p, show_interval

ALL_PROBLEMS = "all problems"
UNBOUNDED = "none: too few pairs"
RANKS: Test = "signed ranks"
TESTS: dict[Test, str] = {
    RANKS: "Wilcoxon's signed-rank test",
    "corrected t": "Student's test, corrected for splits that overlap (Nadeau and Bengio)",
}


def verdict_caption(comparison: Comparison) -> str:
    """What the columns are."""
    return (
        f"Each method minus {comparison.baseline} in {find(comparison.score).words}: mean of the paired differences; p of"
        f" {words_of_tests(comparison)}; p after Holm's correction, which the verdict goes by; and the interval of that same test:"
        " the differences that it does not reject at the level at which Holm decides, 95 % or stricter. So the interval"
        " excludes zero exactly where p after Holm is below 0.05."
    )


def words_of_tests(comparison: Comparison) -> str:
    """Which test gave the p-values; over all problems it may be another one than on each."""
    found = dict.fromkeys(verdict.test for verdict in comparison.verdicts) or [RANKS]
    return " or, where seeds split the same rows anew, ".join(
        TESTS[test] for test in sorted(found, reverse=True)
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
    interval = UNBOUNDED if verdict.interval is None else show_interval(verdict.interval)
    return [
        verdict.method, *place, found, f"{100 * verdict.difference:+.1f}", interval,
        str(verdict.pairs), bare_p(verdict.p), bare_p(verdict.adjusted),
    ]  # fmt: skip
