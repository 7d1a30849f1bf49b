"""How long trials run and how many seeds they get, so that all of it fits into the minutes given."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

FINALISTS = 4  # methods that are compared over many seeds, the baseline among them
MOST_SEEDS = 10  # of a finalist
FEWEST_SEEDS = 5  # that the finals are planned for
SEEDS = 3  # of a trial before the finals, where time allows
SHORTEST = 0.2  # share of the experiment's rounds that a trial runs at least
LONG = 0.5  # share that it runs where fewer rungs allow it: after few rounds the fastest leads, not the best
HALVING = 0.5  # share of the time that is planned for what comes before the finals
LATEST = 0.7  # share of the time after which the finals begin in any case
SAFETY = 0.8  # of the time is planned with
OVERHEAD = 0.3  # seconds of a run beside its rounds, before it is measured


class Rung(NamedTuple):
    """A stage of the race: so many trials, each over so many rounds and seeds; the better half goes on."""

    trials: int
    rounds: int
    seeds: int


class Time(NamedTuple):
    """What there is to spend: seconds on the clock, processes, and what a round and all else of a run take in one of them."""

    seconds: float
    processes: int
    pace: float
    overhead: float = OVERHEAD

    def runs(self, rounds: int) -> float:
        """Runs of so many rounds that fit."""
        return SAFETY * self.seconds * self.processes / (rounds * self.pace + self.overhead)

    def rounds(self, runs: float) -> int:
        """Rounds of each of so many runs that fit."""
        each = SAFETY * self.seconds * self.processes / runs
        return max(0, math.floor((each - self.overhead) / self.pace))


class Clock:
    """Counts seconds over several calls of the command."""

    def __init__(self, limit: float, spent: float = 0.0) -> None:
        self.limit, self._began = limit, time.monotonic() - spent

    @property
    def spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        return max(0.0, self.limit - self.spent)


def plan_rung(trials: int, rounds: int, spend: Time, least: int = 1) -> Rung | None:
    """The next rung of a race that halves its trials until as many are left as there are finalists.

    Each rung gets the same time; where they would be short, there are fewer of them. None if even a single one would be
    too short to tell anything, or shorter than the `least` rounds that a trial ran in the rung before.
    """
    if trials <= FINALISTS:
        return None
    halvings = math.ceil(math.log2(trials / FINALISTS))
    options = [
        _rung(trials, rounds, spend._replace(seconds=spend.seconds / of)) for of in range(halvings, 0, -1)
    ]
    rung = next((one for one in options if one.rounds >= max(LONG * rounds, least)), options[-1])
    return None if rung.rounds < max(SHORTEST * rounds, least) else rung


def _rung(trials: int, rounds: int, share: Time) -> Rung:
    affordable = min(share.rounds(trials), rounds)
    seeds = math.floor(share.runs(rounds) / trials) if affordable == rounds else 1
    return Rung(trials, max(affordable, 1), min(max(seeds, 1), SEEDS))


def plan_finals(finalists: int, rounds: int, spend: Time, done: Rung | None = None) -> Rung:
    """As many finalists as can be compared over enough seeds; with two left, fewer rounds. `done`: finals that have ended."""
    ready = done.trials if done is not None and done.rounds == rounds else 0
    for count in range(finalists, 2, -1):
        if spend.runs(rounds) >= (count - ready) * FEWEST_SEEDS:
            return Rung(count, rounds, MOST_SEEDS)
    few = min(finalists, 2)
    fewer = min(rounds, spend.rounds(few * FEWEST_SEEDS))
    return Rung(few, max(fewer, math.ceil(SHORTEST * rounds)), MOST_SEEDS)


def is_more(other: Rung, than: Rung) -> bool:
    """Whether it has more methods or more rounds, and not less of the other."""
    return other.trials >= than.trials and other.rounds >= than.rounds and other[:2] != than[:2]
