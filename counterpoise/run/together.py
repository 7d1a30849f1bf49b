"""Several runs that differ only in seed and learning rate, trained in one program, each in a folder of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError, RunError
from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import Experiment, load_experiment, with_patience
from counterpoise.run.joined import Together, join, share_samples
from counterpoise.run.patience import Patience
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.restore import restore, rows_before
from counterpoise.run.store.run import (
    Run,
    conclude,
    found_run,
    is_scored,
    new_run,
    record_round,
    resumable,
)
from counterpoise.run.track import check_tracker, tracked
from counterpoise.server.round import ServerState


class Member(NamedTuple):
    """One of the runs: what it is, where it goes, and its clients."""

    experiment: Experiment
    path: Path
    federation: Federation


def run_together(members: Sequence[Member]) -> list[dict[str, Any] | str]:
    """Start the runs, or go on with all of them where they were stopped; their summaries, or why they have none."""
    members = _settled(members)
    check_tracker(members[0].experiment.track.to)
    folders = [RunFolder(member.path) for member in members]
    began = [folder.holds_run() for folder in folders]
    with closing(_assemble(members)) as together, ExitStack() as locks:
        states = together.open()
        for folder, known in zip(folders, began, strict=True):
            if not known:
                folder.create()
            locks.enter_context(folder.locked())
            locks.enter_context(resumable(folder))
        runs = [
            (found_run if known else new_run)(member.experiment, simulation, member.federation, folder)
            for member, simulation, folder, known in zip(
                members, together.simulations, folders, began, strict=True
            )
        ]
        states, seconds = _restore(runs) if any(began) else (states, [0.0] * len(runs))
        return _go_on(together, runs, states, seconds)


def _go_on(
    together: Together, runs: Sequence[Run], states: Sequence[ServerState], seconds: list[float]
) -> list[dict[str, Any] | str]:
    """Rounds of all runs until the end; each is charged an equal share of the time. One that diverges stops no other."""
    rounds = runs[0].experiment.rounds
    patience = [
        Patience(run.experiment.engine.max_skipped, rows_before(run, state))
        for run, state in zip(runs, states, strict=True)
    ]
    lost: dict[int, RunError] = {}
    with ExitStack() as trackers:
        tracks = [trackers.enter_context(tracked(run.experiment, run.folder)) for run in runs]
        while states[0].round < rounds:
            began = time.perf_counter()
            ended = together.advance(states)
            states = [state for state, _ in ended]
            scores = together.evaluate(states) if is_scored(runs[0], states[0]) else [{} for _ in runs]
            spent = (time.perf_counter() - began) / len(runs)
            for place, (run, (state, outcome)) in enumerate(zip(runs, ended, strict=True)):
                row = outcome.row() | scores[place]
                seconds[place] += spent
                record_round(run, state, row, spent, seconds[place])
                if (track := tracks[place]) is not None:
                    track(row, rounds)
                try:
                    if state.round < rounds:  # the end has words of its own
                        patience[place].see(outcome)
                except RunError as error:
                    lost[place] = error
            if len(lost) == len(runs):
                raise lost[0]
    return [conclude(run, state, spent) for run, state, spent in zip(runs, states, seconds, strict=True)]


def _restore(runs: Sequence[Run]) -> tuple[list[ServerState], list[float]]:
    """The newest round that all runs have a checkpoint of; a stop may have come between two of them."""
    while True:
        found = [restore(run) for run in runs]
        last = min(state.round for state, _ in found)
        if all(state.round == last for state, _ in found):
            return [state for state, _ in found], [spent for _, spent in found]
        for run, (state, _) in zip(runs, found, strict=True):
            if state.round > last:
                run.store.drop_after(last)


def _settled(members: Sequence[Member]) -> list[Member]:
    """Every run's config names all of them, so that they are only continued together, as they began."""
    names = [member.path.name for member in members]
    return [member._replace(experiment=_settle(member, names)) for member in members]


def _settle(member: Member, names: list[str]) -> Experiment:
    if not RunFolder(member.path).holds_run():
        return replace(member.experiment, engine=replace(member.experiment.engine, together=names))
    known = load_experiment(RunFolder(member.path).config)
    if known.engine.together != names:
        raise ConfigError(
            f"{member.path} began together with {known.engine.together or 'none'} and cannot go on with {names}"
        )
    return with_patience(known, member.experiment.engine.max_skipped)


def _assemble(members: Sequence[Member]) -> Together:
    first = assemble(members[0].experiment, members[0].federation)
    placed = first.work.federation
    rest = [assemble(member.experiment, share_samples(placed, member.federation)) for member in members[1:]]
    return join([first, *rest])
