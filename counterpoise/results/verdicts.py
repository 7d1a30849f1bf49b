"""Is a method better than the baseline? A test, an effect and a sentence per problem, and over all."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from counterpoise.results.cells import lower_is_better
from counterpoise.results.labels import score_words
from counterpoise.results.statistics import (
    ALPHA,
    Scores,
    SignedRank,
    blocks_of,
    cohen_dz,
    fewest_pairs,
    holm,
    mean_interval,
    name_blocks,
    signed_rank,
)

Judgement: TypeAlias = Literal["better", "worse", "no evidence"]
ALL = "all"
EQUAL = "The two are equal on every pair."


class Verdict(NamedTuple):
    """A method against the baseline over pairs; differences are method minus baseline."""

    method: str
    baseline: str
    problem: str  # label, or "all"
    score: str
    pairs: int
    difference: float  # mean over pairs
    interval: tuple[float, float] | None  # Student's 95 % interval of the mean; None for one pair
    p: float  # Wilcoxon's signed-rank test, two-sided
    adjusted: float  # by Holm over the methods compared on this problem
    effect: dict[str, float | None]  # "rank_biserial" (of matched pairs) and "cohen_dz"
    verdict: Judgement
    sentence: str  # the same as a sentence
    limits: str = ""  # where the pairs are too few to find a difference: why


class Family(NamedTuple):
    """Tests that are corrected together: all methods against the baseline on these problems."""

    label: str
    problems: Sequence[str]
    baseline: str
    score: str


def judge(
    scores: Scores, problems: Sequence[str], methods: Sequence[str], baseline: str, score: str
) -> tuple[Verdict, ...]:
    """Every other method against the baseline: on each problem, then over all if there are several."""
    families = [Family(problem, [problem], baseline, score) for problem in problems]
    if len(problems) > 1:
        families.append(Family(ALL, problems, baseline, score))
    return tuple(verdict for family in families for verdict in _judge_family(scores, methods, family))


def _judge_family(scores: Scores, methods: Sequence[str], family: Family) -> list[Verdict]:
    """One verdict per method that has a pair with the baseline."""
    differences = {
        method: [
            mine - theirs for mine, theirs in blocks_of(scores, family.problems, (method, family.baseline))
        ]
        for method in methods
        if method != family.baseline
    }
    tests = {method: signed_rank(values) for method, values in differences.items() if values}
    adjusted = holm([test.p for test in tests.values()])
    verdicts = [
        _verdict(family, method, differences[method], test, p)
        for (method, test), p in zip(tests.items(), adjusted, strict=True)
    ]
    unit = name_blocks(family.problems)
    return [
        _in_words(verdict, unit, test.informative, len(tests))
        for verdict, test in zip(verdicts, tests.values(), strict=True)
    ]


def _verdict(
    family: Family, method: str, differences: Sequence[float], test: SignedRank, adjusted: float
) -> Verdict:
    return Verdict(
        method,
        family.baseline,
        family.label,
        family.score,
        len(differences),
        statistics.fmean(differences),
        mean_interval(differences),
        test.p,
        adjusted,
        {"rank_biserial": test.rank_biserial, "cohen_dz": cohen_dz(differences)},
        _decide(test.rank_biserial, adjusted, family.score),
        "",
    )


def _decide(rank_biserial: float, adjusted: float, score: str) -> Judgement:
    if adjusted >= ALPHA:
        return "no evidence"
    return "better" if (rank_biserial > 0) != lower_is_better(score) else "worse"


def _in_words(verdict: Verdict, unit: str, informative: int, tests: int) -> Verdict:
    limits = _limits(verdict, informative, tests)
    sentence = f"{_sentence(verdict, unit, tests)} {limits}".rstrip()
    return verdict._replace(sentence=sentence, limits=limits)


def _sentence(verdict: Verdict, unit: str, tests: int) -> str:
    """The verdict as a sentence."""
    place = {"": "", ALL: " over all problems"}.get(verdict.problem, f" on {verdict.problem}")
    found = (
        f"No evidence that {verdict.method} differs from {verdict.baseline}{place}"
        if verdict.verdict == "no evidence"
        else f"{verdict.method} is {verdict.verdict} than {verdict.baseline}{place}"
    )
    pairs = f"{verdict.pairs} {'pair' if verdict.pairs == 1 else 'pairs'} ({unit})"
    chance = f"{show_p(verdict.adjusted)}{' after Holm' if tests > 1 else ''}"
    return f"{found}: {_difference(verdict)}, {pairs}, {chance}."


def _difference(verdict: Verdict) -> str:
    mean = f"{score_words(verdict.score)} {100 * verdict.difference:+.1f} points"
    if verdict.interval is None:
        return mean
    low, high = verdict.interval
    return f"{mean} (95 % interval {100 * low:+.1f} to {100 * high:+.1f})"


def _limits(verdict: Verdict, informative: int, tests: int) -> str:
    """A note where the pairs are too few to find a difference."""
    needed = fewest_pairs(tests)
    if verdict.verdict != "no evidence" or informative >= needed:
        return ""
    if informative == 0:
        return EQUAL
    least = 2.0 ** (1 - informative)
    differing = f"{informative} that differ" if informative < verdict.pairs else f"{informative}"
    corrected = f", {min(1.0, tests * least):.2g} after Holm" if tests > 1 else ""
    return (
        f"Too few pairs to find anything: the smallest p that {differing} can give is {least:.2g}{corrected};"
        f" it takes {needed}."
    )


def show_p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
