"""Which method a table recommends: from rows and verdicts to recommendations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from counterpoise.errors import plural
from counterpoise.metrics.catalogue import find
from counterpoise.results.cells import At, Row, lower_is_better
from counterpoise.results.labels import Labels, Runs
from counterpoise.results.recommendation import Change, Claim, Confidence, Recommendation, surest
from counterpoise.results.results import RunResult
from counterpoise.results.statistics import ALPHA
from counterpoise.results.student import steady_effect
from counterpoise.results.verdicts import ALL, Verdict
from counterpoise.results.words import bare_p, show_p


def recommend(
    rows: Sequence[Row], runs: Runs, verdicts: Sequence[Verdict], baseline: str, score: str, at: At
) -> tuple[Recommendation, ...]:
    """One for each problem, before them one over all if there are several; none without a method to compare."""
    pooled = {row.method: None for row in rows if row.method != baseline and _needs_all_data(row, runs)}
    rows = [row for row in rows if row.method not in pooled]
    problems = list(dict.fromkeys(row.problem for row in rows))
    places = [ALL, *problems] if len(problems) > 1 else problems
    found = []
    for place in places:
        here = {
            row.method: [
                other for other in rows if other.method == row.method and place in (ALL, other.problem)
            ]
            for row in rows
        }
        whole = {
            method: mine
            for method, mine in here.items()
            if len(mine) == (len(problems) if place == ALL else 1)
        }
        judged = {verdict.method: verdict for verdict in verdicts if verdict.problem == place}
        if baseline in whole and len(whole) > 1:
            found.append(_recommend(place, whole, judged, baseline, score)._replace(aside=tuple(pooled)))
    return tuple(one if at != "last" else with_recall(one, runs) for one in found)


def _needs_all_data(row: Row, runs: Runs) -> bool:
    """Whether a method pools the samples of all clients: something to compare with, and not to use in a federation."""
    by_seed = runs.get(Labels(row.problem, row.method), {})
    return any(run.pools for run in by_seed.values())


def _recommend(
    place: str, rows: Mapping[str, Sequence[Row]], judged: Mapping[str, Verdict], baseline: str, score: str
) -> Recommendation:
    words = find(score).words
    claims = _claims(rows, judged, baseline, score)
    if not claims:
        why = f"{len(rows) - 1} {'other was' if len(rows) == 2 else 'others were'} tried"
        return Recommendation(place, baseline, baseline, words, why)
    chosen = surest(claims)
    verdict = judged[chosen.method]
    return Recommendation(
        place,
        chosen.to_use(baseline),
        baseline,
        words,
        chosen.why,
        chosen.confidence,
        chosen.method,
        verdict.difference,
        verdict.interval,
        accuracy=_change(rows, chosen.method, baseline, "accuracy"),
        seconds=_ratio(rows, chosen.method, baseline, "seconds"),
        bytes=_ratio(rows, chosen.method, baseline, "bytes"),
    )


def _claims(
    rows: Mapping[str, Sequence[Row]], judged: Mapping[str, Verdict], baseline: str, score: str
) -> list[Claim]:
    """Of every method with a better mean than the baseline, over all seeds and over those that both have."""
    sign = -1 if lower_is_better(score) else 1
    means = {method: sign * mean for method, mine in rows.items() if (mean := _mean(mine, score)) is not None}
    least = means.get(baseline, -math.inf)
    return [
        _claim(judged[method], mean, sign)
        for method, mean in means.items()
        if mean > least and method in judged and sign * judged[method].difference > 0
    ]


def _claim(verdict: Verdict, mean: float, sign: int) -> Claim:
    guess = verdict.pairs > 1 and verdict.verdict != "worse"
    return Claim(verdict.method, mean, *_confidence(verdict, sign), guess)


def _confidence(verdict: Verdict, sign: int) -> tuple[Confidence, str]:
    """How sure a gain is; no surer than the verdict, or with the reason."""
    pairs = plural(verdict.pairs, "pair")
    if verdict.verdict == "better":
        return "high", f"the difference is significant after Holm's correction over {pairs}"
    if verdict.verdict == "worse":
        return "none", f"it is worse on most of {pairs}: a few make its mean"
    if verdict.p < ALPHA and sign * _direction(verdict) > 0:
        return (
            "fair",
            f"{show_p(verdict.p)} over {pairs}, but {bare_p(verdict.adjusted)} after Holm's correction, which is no evidence",
        )
    if verdict.interval is None and _is_steady(verdict, sign):
        return (
            "low",
            f"it is better on each of {pairs} by similar amounts, but they are too few for the test, which finds no evidence",
        )
    return "none", f"the difference could be chance with {pairs}: run more seeds"


def _direction(verdict: Verdict) -> float:
    """Which way the test points; a mean may be that of one pair far out."""
    return verdict.effect["rank_biserial"] or 0.0 if verdict.test == "signed ranks" else verdict.difference


def _is_steady(verdict: Verdict, sign: int) -> bool:
    """Better on every pair, and by more than its spread: what a few pairs can say at best."""
    spread = verdict.effect["cohen_dz"]
    every = sign * (verdict.effect["rank_biserial"] or 0.0) == 1 and verdict.pairs > 1
    return every and (spread is None or abs(spread) >= steady_effect(verdict.pairs))


def with_recall(one: Recommendation, runs: Runs) -> Recommendation:
    """With the recall of the problem's rarest class, where the runs know it."""
    before, after = (
        rarest_recall(list(runs.get(Labels(one.problem, method), {}).values()))
        for method in (one.baseline, one.method)
    )
    known = before is not None and after is not None and before[0] == after[0] and one.leader == one.method
    return one._replace(recall=Change(before[0], before[1], after[1])) if known and before and after else one


def rarest_recall(runs: Sequence[RunResult]) -> tuple[str, float] | None:
    """The rarest class in words and its mean recall at the last evaluation."""
    counts = [run.class_counts for run in runs if run.class_counts is not None]
    if not runs or len(counts) < len(runs) or len({tuple(count).index(min(count)) for count in counts}) > 1:
        return None
    rarest = counts[0].index(min(counts[0]))
    recalls = [run.scored[-1]["per_class_recall"][rarest] for run in runs]
    if None in recalls:
        return None
    return f"the rarest class ({runs[0].record['data']['classes'][rarest]})", statistics.fmean(recalls)


def _mean(rows: Sequence[Row], key: str) -> float | None:
    """The mean over problems; None unless every seed of every problem has a value."""
    cells = [row.cells[key] for row in rows]
    if any(cell.mean is None or None in cell.values for cell in cells):
        return None
    return statistics.fmean(cell.mean for cell in cells if cell.mean is not None)


def _change(rows: Mapping[str, Sequence[Row]], method: str, baseline: str, key: str) -> float:
    after, before = _mean(rows[method], key), _mean(rows[baseline], key)
    return 0.0 if after is None or before is None else after - before


def _ratio(rows: Mapping[str, Sequence[Row]], method: str, baseline: str, key: str) -> float | None:
    after, before = _mean(rows[method], key), _mean(rows[baseline], key)
    return after / before if after is not None and before else None
