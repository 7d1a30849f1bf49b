"""Which method to use: the paragraph that tables and reports open with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from counterpoise.errors import few_digits, listed
from counterpoise.results.statistics import Interval
from counterpoise.results.verdicts import where_judged
from counterpoise.results.words import with_interval

Confidence: TypeAlias = Literal["high", "fair", "low", "none"]  # none: it cannot be told
LEVELS: Sequence[Confidence] = ("none", "low", "fair", "high")
SAME = 0.05  # points of accuracy, or share of a cost, below which two are called the same


class Change(NamedTuple):
    """A figure of the baseline and of the method that is recommended."""

    what: str
    before: float
    after: float


class Claim(NamedTuple):
    """That a method is better than the baseline, and how sure that is."""

    method: str
    mean: float  # of the score, or of its gain over the baseline; the higher the better
    confidence: Confidence
    why: str  # of the confidence
    guess: bool  # whether it is the better guess where it cannot be told

    def to_use(self, baseline: str) -> str:
        return baseline if self.confidence == "none" and not self.guess else self.method


def surest(claims: Sequence[Claim]) -> Claim:
    """The best mean of those with the most confidence that any has; where another mean is better, it says so."""
    chosen = max(claims, key=lambda one: (LEVELS.index(one.confidence), one.mean))
    best = max(claims, key=lambda one: one.mean)
    if best.mean == chosen.mean:
        return chosen
    ahead = f"{best.method} is {100 * (best.mean - chosen.mean):.2g} points better in the mean, but with less evidence"
    return chosen._replace(why=f"{chosen.why}; {ahead}")


class Recommendation(NamedTuple):
    """The method to use on a problem, what it gains over the baseline and costs, and how sure that is."""

    problem: str  # label, or "all"
    method: str  # a guess where `confidence` is none; the baseline where nothing else can be named
    baseline: str
    score: str  # in words
    why: str  # of the confidence
    confidence: Confidence = "fair"
    leader: str = ""  # the method that figures are of: the surest, or the best mean if none is sure; none if no mean is better
    difference: float = 0.0  # leader minus baseline
    interval: Interval | None = None
    recall: Change | None = None  # of the rarest class
    accuracy: float = 0.0  # change
    seconds: float | None = None  # times those of the baseline
    bytes: float | None = None
    aside: Sequence[str] = ()  # methods that pool all samples: compared with, and never recommended

    @property
    def paragraph(self) -> str:
        """All of it in words."""
        place = where_judged(self.problem)
        if self.confidence == "none":
            return f"Cannot tell{place}: {self._cannot_tell}."
        if not self.leader:
            return f"Use {self.baseline}{place}: no other method{self._aside} has a better mean {self.score}; {self.why}."
        parts = ", ".join([self._gain, *self._recall_words()])
        return f"Use {self.method}{place}: {parts}; {self._costs}. Confidence: {self.confidence}, since {self.why}."

    @property
    def named(self) -> str:
        """The method, and whether it is a guess."""
        return (
            f"{self.method} (a guess)"
            if self.confidence == "none" and self.method == self.leader
            else self.method
        )

    @property
    def _cannot_tell(self) -> str:
        stay = f"Stay with {self.baseline}"
        if not self.leader:
            return f"{self.why}. {stay}"
        guess = f"It is the better guess: it {self._costs}" if self.method == self.leader else stay
        return f"{self.leader} has the best mean{self._aside or ','} {self._gain}, but {self.why}. {guess}"

    @property
    def _aside(self) -> str:
        return f", {listed(self.aside)} aside," if self.aside else ""

    @property
    def _gain(self) -> str:
        mean = f"{self.score} {100 * self.difference:+.1f} points against {self.baseline}"
        return with_interval(mean, self.interval)

    def _recall_words(self) -> Iterator[str]:
        if self.recall is not None:
            what, before, after = self.recall
            yield f"recall of {what} {100 * before:.0f} to {100 * after:.0f} %"

    @property
    def _costs(self) -> str:
        return ", ".join(self._each_cost())

    def _each_cost(self) -> Iterator[str]:
        points = 100 * self.accuracy
        small = abs(points) < SAME
        yield (
            "costs no accuracy"
            if small
            else f"{'costs' if points < 0 else 'gains'} {abs(points):.1f} points of accuracy"
        )
        for what, ratio in {"time": self.seconds, "traffic": self.bytes}.items():
            if ratio is not None:
                yield (
                    f"the same {what}"
                    if abs(ratio - 1) < SAME
                    else f"{few_digits(ratio, 2)} times the {what}"
                )


def opening(found: Sequence[Recommendation]) -> list[str]:
    """The paragraphs to open with: the first, and where problems differ, which method leads on which."""
    if not found:
        return []
    by_method: dict[str, list[str]] = {}
    for one in found[1:]:
        by_method.setdefault(one.named, []).append(one.problem)
    places = "; ".join(f"{method} on {', '.join(problems)}" for method, problems in by_method.items())
    return [found[0].paragraph, *([f"Problem by problem: {places}."] if len(by_method) > 1 else [])]
