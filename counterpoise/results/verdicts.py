"""Is a method better than the baseline? A test, an effect and a sentence per problem, and over all."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from counterpoise.errors import plural
from counterpoise.metrics.catalogue import find
from counterpoise.results.cells import lower_is_better
from counterpoise.results.paired import PairedTest
from counterpoise.results.statistics import (
    ALPHA,
    Interval,
    Scores,
    blocks_of,
    cohen_dz,
    fewest_pairs,
    holm,
    holm_factors,
    name_blocks,
    problems_are_blocks,
)
from counterpoise.results.words import on_problem, show_p, with_interval

Judgement: TypeAlias = Literal["better", "worse", "no evidence"]
Test: TypeAlias = Literal["signed ranks", "corrected t"]
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
    # Excludes zero exactly if adjusted < 5 %; None: the pairs bound nothing
    interval: Interval | None
    p: float  # two-sided
    adjusted: float  # by Holm over the methods compared on this problem
    effect: dict[str, float | None]  # "rank_biserial" (of matched pairs) and "cohen_dz"
    verdict: Judgement
    sentence: str  # the same as a sentence
    limits: str = ""  # where the pairs are too few to find a difference: why
    test: Test = "signed ranks"  # Wilcoxon's; of repeated splits Student's, corrected for their overlap


class Family(NamedTuple):
    """Tests that are corrected together: all methods against the baseline on these problems."""

    label: str
    problems: Sequence[str]
    baseline: str
    score: str
    overlap: float | None = None  # of repeated splits: test over training samples


def judge(
    scores: Scores,
    problems: Sequence[str],
    methods: Sequence[str],
    baseline: str,
    score: str,
    overlaps: Mapping[str, float] | None = None,
) -> tuple[Verdict, ...]:
    """Every other method against the baseline: on each problem, then over all if there are several.

    `overlaps`: test over training samples of the problems whose seeds split the same rows anew.
    """
    known = overlaps or {}
    families = [Family(problem, [problem], baseline, score, known.get(problem)) for problem in problems]
    if len(problems) > 1:
        families.append(Family(ALL, problems, baseline, score, _over_all(problems, known)))
    return tuple(verdict for family in families for verdict in _judge_family(scores, methods, family))


def _over_all(problems: Sequence[str], overlaps: Mapping[str, float]) -> float | None:
    """Splits of one problem agree too well, those of different ones do not; problems that count once need no correction."""
    if not overlaps or problems_are_blocks(problems):
        return None
    return statistics.fmean(overlaps.values()) / len(problems)


def _judge_family(scores: Scores, methods: Sequence[str], family: Family) -> list[Verdict]:
    """One verdict per method that has a pair with the baseline."""
    differences = {
        method: [
            mine - theirs for mine, theirs in blocks_of(scores, family.problems, (method, family.baseline))
        ]
        for method in methods
        if method != family.baseline
    }
    tests = {method: PairedTest(values, family.overlap) for method, values in differences.items() if values}
    p_values = [test.p for test in tests.values()]
    unit = name_blocks(family.problems)
    return [
        _in_words(_verdict(family, method, test, p, factor), unit, test, len(tests))
        for (method, test), p, factor in zip(
            tests.items(), holm(p_values), holm_factors(p_values), strict=True
        )
    ]


def _verdict(family: Family, method: str, test: PairedTest, adjusted: float, factor: int) -> Verdict:
    return Verdict(
        method,
        family.baseline,
        family.label,
        family.score,
        len(test.differences),
        statistics.fmean(test.differences),
        test.interval(factor),
        test.p,
        adjusted,
        {"rank_biserial": test.ranks.rank_biserial, "cohen_dz": cohen_dz(test.differences)},
        _decide(test.gain, adjusted, family.score),
        "",
        test="signed ranks" if test.overlap is None else "corrected t",
    )


def _decide(gain: float, adjusted: float, score: str) -> Judgement:
    if adjusted >= ALPHA:
        return "no evidence"
    return "better" if (gain > 0) != lower_is_better(score) else "worse"


def _in_words(verdict: Verdict, unit: str, test: PairedTest, tests: int) -> Verdict:
    informative = test.ranks.informative
    limits = _limits(verdict, informative, tests) if test.overlap is None else _limits_of_t(informative)
    sentence = f"{_sentence(verdict, unit, tests)} {limits}".rstrip()
    return verdict._replace(sentence=sentence, limits=limits)


def _sentence(verdict: Verdict, unit: str, tests: int) -> str:
    """The verdict as a sentence."""
    place = where_judged(verdict.problem)
    found = (
        f"No evidence that {verdict.method} differs from {verdict.baseline}{place}"
        if verdict.verdict == "no evidence"
        else f"{verdict.method} is {verdict.verdict} than {verdict.baseline}{place}"
    )
    pairs = f"{plural(verdict.pairs, 'pair')} ({unit})"
    chance = f"{show_p(verdict.adjusted)}{' after Holm' if tests > 1 else ''}"
    return f"{found}: {_difference(verdict)}, {pairs}, {chance}."


def where_judged(problem: str) -> str:
    """On which problem, in words; `problem` may be all."""
    return " over all problems" if problem == ALL else on_problem(problem)


def _difference(verdict: Verdict) -> str:
    mean = f"{find(verdict.score).words} {100 * verdict.difference:+.1f} points"
    return with_interval(mean, verdict.interval)


def _limits(verdict: Verdict, informative: int, tests: int) -> str:
    """A note where the pairs are too few to find a difference, or where the mean is that of a few of them."""
    if verdict.interval is not None and not verdict.interval[0] <= verdict.difference <= verdict.interval[1]:
        return f"The mean of {verdict.method} lies outside its interval, which goes by ranks: a few pairs differ far more than the others."
    needed = fewest_pairs(tests)
    if verdict.verdict != "no evidence" or informative >= needed:
        return ""
    if informative == 0:
        return EQUAL
    least = 2.0 ** (1 - informative)
    differing = f"the {informative} that {'differ' if informative > 1 else 'differs'}"
    differing = differing if informative < verdict.pairs else f"{informative}"
    corrected = f", {min(1.0, tests * least):.2g} after Holm" if tests > 1 else ""
    interval = ", or to bound the difference by an interval" if verdict.interval is None else ""
    return (
        f"Too few pairs to find anything{interval}: the smallest p that {differing} can give is {least:.2g}{corrected};"
        f" it takes {needed}."
    )


def _limits_of_t(informative: int) -> str:
    """Student's test needs no number of pairs beyond two."""
    return "" if informative else EQUAL
