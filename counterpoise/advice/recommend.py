"""From the finals to a recommendation: the gain with its interval, what it costs, and how sure that is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from counterpoise.advice.figures import Figures
from counterpoise.advice.goal import Goal
from counterpoise.errors import plural
from counterpoise.results.cells import values_of
from counterpoise.results.recommendation import Change, Claim, Confidence, Recommendation, surest
from counterpoise.results.results import RunResult
from counterpoise.results.statistics import ALPHA, Interval
from counterpoise.results.student import mean_error, mean_interval

ENOUGH_SEEDS = 6  # pairs, below which confidence is not high
ENOUGH_SAMPLES = 10  # validation samples of the rarest class, below which it is not high either

Finals: TypeAlias = Mapping[str, Mapping[int, RunResult]]  # runs by label and seed


class Held(NamedTuple):
    """The validation samples of a run."""

    samples: int
    rarest: int  # of the rarest class
    share: float  # of all samples that are not for testing
    own: bool  # whether the experiment has them itself
    anew: bool  # drawn anew with each seed
    fixed_by: tuple[str, ...] = ()  # keys of the experiment that hold them out, the same for each seed

    @property
    def inflation(self) -> float:
        """Validation over training samples: runs whose samples overlap agree too well (Nadeau and Bengio 2003)."""
        return self.share / (1 - self.share) if self.anew else 0.0


class Gain(NamedTuple):
    """Paired differences of a finalist from the baseline, by their mean."""

    label: str
    pairs: int
    mean: float
    error: float  # standard error; infinite with one pair
    interval: Interval | None

    @property
    def is_likely(self) -> bool:
        """Beyond one standard error, which includes the noise of few validation samples if they are drawn anew with each seed, and else not."""
        return self.mean > self.error


def gain_of(label: str, differences: Sequence[float], held: Held, compared: int) -> Gain:
    """Student's interval of the mean, at 95 % for all that are compared together (Bonferroni).

    The variance of the mean is ``s^2 (1 / pairs + validation / training)``, the correction of Nadeau and Bengio (2003).
    """
    interval = mean_interval(differences, held.inflation, ALPHA / max(compared, 1))
    error = mean_error(differences, held.inflation)
    return Gain(label, len(differences), statistics.fmean(differences), error, interval)


def gains_of(finals: Finals, baseline: str, goal: Goal, held: Held) -> list[Gain]:
    """Every finalist against the baseline, the best first."""
    found = differences_of(finals, baseline, goal)
    gains = [gain_of(label, values, held, len(found)) for label, values in found.items() if values]
    return sorted(gains, key=lambda gain: -gain.mean)


def differences_of(finals: Finals, baseline: str, goal: Goal) -> dict[str, list[float]]:
    """Every finalist minus the baseline on the seeds that all of them finished.

    One that has fewer than half the baseline's seeds failed with the others, and is left out.
    """
    scores = {label: _scores(runs, goal) for label, runs in finals.items()}
    least = len(scores[baseline]) / 2
    known = {label: by_seed for label, by_seed in scores.items() if by_seed and len(by_seed) >= least}
    base = known.pop(baseline, {})
    seeds = sorted(set(base).intersection(*known.values()))
    return {label: [by_seed[seed] - base[seed] for seed in seeds] for label, by_seed in known.items()}


def conclude(
    finals: Finals,
    baseline: str,
    goal: Goal,
    data: Figures,
    held: Held,
    notes: Sequence[str],
) -> Recommendation:
    """The surest finalist, or the best mean as a guess where none is sure; the baseline where one pair is all there is."""
    gains = gains_of(finals, baseline, goal, held)
    if not gains:
        why = f"no finalist could be compared with {baseline} in the time; give it more minutes"
        return Recommendation("", baseline, baseline, goal.words, why, "none")
    claims = [
        Claim(one.label, one.mean, *_confidence(one, data, held, notes), guess=one.pairs > 1)
        for one in gains
        if one.mean > 0
    ]
    if not claims:
        return Recommendation("", baseline, baseline, goal.words, _unbeaten(gains, data, held, notes))
    chosen = surest(claims)
    gain = next(one for one in gains if one.label == chosen.method)
    found = Recommendation(
        "",
        chosen.to_use(baseline),
        baseline,
        goal.words,
        chosen.why,
        chosen.confidence,
        gain.label,
        gain.mean,
        gain.interval,
    )
    return _with_costs(found, finals, data)


def _unbeaten(gains: Sequence[Gain], data: Figures, held: Held, notes: Sequence[str]) -> str:
    """What the baseline stood against, and what speaks against leaving it at that."""
    pairs = gains[0].pairs
    tried = f"the finals tried {plural(len(gains), 'other')} over {plural(pairs, 'seed')}"
    doubts = _doubts(pairs, data, held, notes)
    return f"{tried}, but {'; '.join(doubts)}" if doubts else tried


def _doubts(pairs: int, data: Figures, held: Held, notes: Sequence[str]) -> list[str]:
    doubts = [*notes]
    if pairs < ENOUGH_SEEDS:
        doubts.append(f"there are only {plural(pairs, 'seed')}")
    if held.rarest < ENOUGH_SAMPLES:
        doubts.append(
            f"only {held.rarest} of {held.samples:,} validation samples are of {data.rarest}, the rarest class"
        )
    if not held.anew:
        doubts.append(_same_samples(held))
    return doubts


def _confidence(gain: Gain, data: Figures, held: Held, notes: Sequence[str]) -> tuple[Confidence, str]:
    pairs = plural(gain.pairs, "seed")
    doubts = _doubts(gain.pairs, data, held, notes)
    if gain.interval is None or gain.interval[0] <= 0:
        doubts.insert(0, f"the interval over {pairs} includes zero")
        return "low" if gain.is_likely else "none", "; ".join(doubts)
    sure = f"the interval over {pairs} is above zero"
    return ("fair", f"{sure}, but {'; '.join(doubts)}") if doubts else ("high", sure)


def _same_samples(held: Held) -> str:
    """The doubt, and what to do about it where a key can."""
    doubt = "all seeds are scored on the same validation samples, so that their spread says too little"
    if not held.fixed_by:
        return doubt
    return f"{doubt} ({' '.join(f'{key}=0' for key in held.fixed_by)} with another folder draws them anew for each seed)"


def _with_costs(found: Recommendation, finals: Finals, data: Figures) -> Recommendation:
    """With accuracy, time, traffic and the rarest class on the seeds that both have."""
    before, after = finals[found.baseline], finals[found.leader]
    seeds = sorted({*before} & {*after})
    changes = {key: _means(before, after, seeds, key) for key in ("accuracy", "seconds", "bytes")}
    return found._replace(
        accuracy=changes["accuracy"][1] - changes["accuracy"][0],
        recall=_recall(before, after, seeds, data.rarest),
        seconds=_ratio(*changes["seconds"]),
        bytes=_ratio(*changes["bytes"]),
    )


def _ratio(before: float, after: float) -> float | None:
    return after / before if before else None


def _means(
    before: Mapping[int, RunResult], after: Mapping[int, RunResult], seeds: Sequence[int], key: str
) -> tuple[float, float]:
    first, second = (
        [values_of(runs[seed], "accuracy", "last", None)[key] or 0.0 for seed in seeds]
        for runs in (before, after)
    )
    return statistics.fmean(first), statistics.fmean(second)


def _recall(
    before: Mapping[int, RunResult], after: Mapping[int, RunResult], seeds: Sequence[int], rarest: str
) -> Change | None:
    """Mean recall of the rarest class over seeds in which it has validation samples."""
    means = []
    for runs in (before, after):
        place = runs[seeds[0]].record["data"]["classes"].index(rarest)
        found = [runs[seed].scored[-1]["per_class_recall"][place] for seed in seeds]
        known = [recall for recall in found if recall is not None]
        if not known:
            return None
        means.append(statistics.fmean(known))
    return Change(f"the rarest class ({rarest})", *means)


def _scores(runs: Mapping[int, RunResult], goal: Goal) -> dict[int, float]:
    found = {seed: goal.read(run.scored[-1]) for seed, run in runs.items()}
    return {seed: score for seed, score in found.items() if score is not None}
