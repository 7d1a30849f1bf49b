"""Another number of rounds for a run that has begun, where a run of that many from the start would be the same so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.core.rounds import counted
from counterpoise.errors import ConfigError, short
from counterpoise.run.store.describe import write_notes
from counterpoise.run.store.facts import check_facts
from counterpoise.run.store.run import write_config
from counterpoise.run.store.stored import Run


def extend(run: Run) -> None:
    """Prepare the folder for the rounds of `run.experiment`, or refuse; the folder must be locked.

    Whenever this is stopped, the same call does the rest.
    """
    newest = run.store.load()
    if newest is not None:
        _check(run, newest.round, newest.facts)
        if newest.round < run.experiment.rounds:
            run.folder.summary.unlink(missing_ok=True)  # first: without it the run is just not finished
    write_config(run)
    write_notes(run)
    run.store.change_facts(lambda round, facts: _changed(run, round, facts))


def _check(run: Run, done: int, facts: Mapping[str, Any]) -> None:
    """Whether the rounds done would have been the same in a run of the new length."""
    before, now = _rounds(facts), run.experiment.rounds
    check_facts(run.folder.path, _with_rounds(facts, now), run.facts)
    if now < done:
        raise ConfigError(
            f"{run.folder.path} has done {done} rounds: rounds must be at least {done}, not {now}"
        )
    why = _other_rate(run, done, before, now) or _planner(run, before)
    if why:
        raise ConfigError(f"{run.folder.path} cannot go on to {now} rounds: {why}; start a new run")


def _other_rate(run: Run, done: int, before: int, now: int) -> str:
    local = run.simulation.work.local
    other = (at for at in range(done) if local.rate(at, before) != local.rate(at, now))
    first = next(other, None)
    if first is None:
        return ""
    return f"local.schedule = {short(local.schedule)} gives round {counted(first)} another rate in a run of {now} rounds than in one of {before}"


def _planner(run: Run, before: int) -> str:
    part = run.simulation.planner(before)
    return "" if part is None else f"{part} plans for all rounds, and began with {before}"


def _changed(run: Run, round: int, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The facts of a checkpoint with the new rounds; None if its last row would be evaluated in only one of both runs."""
    ends = (round == _rounds(facts), round == run.experiment.rounds)
    if round % run.experiment.evaluate.every and ends[0] != ends[1]:
        return None
    return _with_rounds(facts, run.experiment.rounds)


def _rounds(facts: Mapping[str, Any]) -> int:
    return int(facts["config"]["rounds"])


def _with_rounds(facts: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    return {**facts, "config": {**facts["config"], "rounds": rounds}}
