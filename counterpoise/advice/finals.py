"""The finals: finalists over many seeds, as far as the time goes; less time never takes back what finals have told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from counterpoise.advice.memory import Memory
from counterpoise.advice.plan import FEWEST_SEEDS, Rung, is_more, plan_finals
from counterpoise.advice.race import Race
from counterpoise.advice.recommend import Finals, differences_of
from counterpoise.advice.rules import BASELINE
from counterpoise.advice.trials import Trial

LEAST_PAIRS = 2  # seeds below which a comparison tells nothing


class Final(NamedTuple):
    """Finalists, the baseline first, and how far they ran."""

    trials: Sequence[Trial]
    rung: Rung

    @property
    def stage(self) -> str:
        return f"finals: {len(self.trials)} methods, {self.rung.rounds} rounds, up to {self.rung.seeds} seeds"

    def runs(self, race: Race) -> Finals:
        return {trial.label: race.results(trial, self.rung) for trial in self.trials}

    def pairs(self, race: Race) -> int:
        """Seeds over which a finalist can be compared with the baseline."""
        found = differences_of(self.runs(race), BASELINE, race.goal)
        return max(map(len, found.values()), default=0)


def run_finals(finalists: list[Trial], everyone: Iterable[Trial], race: Race, memory: Memory) -> Final:
    """The finals that tell most; once more with more rounds or methods where they took less time than was thought."""
    best = _reached(memory, everyone, race)
    rung = memory.finals or _plan(finalists, race, best)
    while True:
        memory.keep(finals=rung)
        final = Final(finalists[: rung.trials], rung)
        race.rung(final.trials, rung, final.stage, final=True)
        if best is None or _tells_as_much(final, best, race):
            best = final
            memory.keep(reached=[[trial.name for trial in best.trials], best.rung])
        rung = _plan(finalists, race, final)
        if rung == final.rung:
            return best


def _reached(memory: Memory, everyone: Iterable[Trial], race: Race) -> Final | None:
    """The finals that told most in former calls, if they told anything; other minutes may have other finalists."""
    by_name = {trial.name: trial for trial in everyone}
    if memory.reached is None or not by_name.keys() >= {*memory.reached[0]}:
        return None
    names, rung = memory.reached
    found = Final([by_name[name] for name in names], rung)
    return found if found.pairs(race) >= LEAST_PAIRS else None


def _plan(finalists: Sequence[Trial], race: Race, done: Final | None) -> Rung:
    """What the time allows, and no less than finals of the same finalists that are done."""
    same = done is not None and [*done.trials] == [*finalists[: len(done.trials)]]
    known = done.rung if done is not None and same else None
    rung = plan_finals(len(finalists), race.course.experiment.rounds, race.time(), known)
    return rung if known is None or is_more(rung, known) else known


def _tells_as_much(final: Final, best: Final, race: Race) -> bool:
    """As many rounds, and as many seeds or those that finals are planned for."""
    known = best.pairs(race)
    enough = final.pairs(race) >= min(known, FEWEST_SEEDS)
    return enough and (known < LEAST_PAIRS or final.rung.rounds >= best.rung.rounds)
