"""Run an experiment in a folder, so that it can be stopped at any moment and go on to the same end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from torch import nn

from counterpoise.data.federation import Federation
from counterpoise.engines.choose import build_engine
from counterpoise.errors import ConfigError, RunError
from counterpoise.run.assemble import assemble, load_federation
from counterpoise.run.build import Connect
from counterpoise.run.config.experiment import Experiment, load_experiment, with_patience
from counterpoise.run.patience import GivenUpError, Patience
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

Watch = Callable[[Mapping[str, Any], int], None]  # a row of metrics, all rounds


def start(
    experiment: Experiment,
    out: Path,
    watch: Watch | None = None,
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
) -> dict[str, Any]:
    """A new run; returns its summary."""
    folder = RunFolder(out)
    folder.check_free()
    check_tracker(experiment.track.to)
    federation = federation or load_federation(experiment)
    # Before the lock, so that worker processes do not hold it, and before the folder, so that a bad config leaves none.
    with closing(assemble(experiment, federation, model, connect)) as simulation:
        state = simulation.open()
        folder.create()
        with folder.locked(), resumable(folder):
            return _go_on(new_run(experiment, simulation, federation, folder), state, 0.0, watch)


def resume(
    path: Path,
    watch: Watch | None = None,
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
    max_skipped: int | None = None,
) -> dict[str, Any]:
    """Go on from the newest whole checkpoint, with other patience where that is given; returns the summary."""
    folder = RunFolder(path)
    if not folder.holds_run():
        raise ConfigError(f"{path} holds no run: there is no config.toml in it")
    experiment = with_patience(load_experiment(folder.config), max_skipped)
    if experiment.engine.together:
        raise ConfigError(
            f"{path} is trained together with other runs; give the command again that started them"
        )
    check_tracker(experiment.track.to)
    federation = federation or load_federation(experiment)
    with (
        closing(assemble(experiment, federation, model, connect)) as simulation,
        folder.locked(),
        resumable(folder),
    ):
        run = found_run(experiment, simulation, federation, folder)
        return _go_on(run, *restore(run), watch)


def _go_on(run: Run, state: ServerState, seconds: float, watch: Watch | None) -> dict[str, Any]:
    """Rounds until the end."""
    patience = Patience(run.experiment.engine.max_skipped, rows_before(run, state))
    with tracked(run.experiment, run.folder) as track:
        while state.round < run.experiment.rounds:
            began = time.perf_counter()
            state, outcome = run.simulation.advance(state)
            if outcome.unanswered and state.round == run.experiment.rounds:
                # Not written down, so that the run can still get a result.
                raise RunError(f"nobody answered in the last round, of {outcome.asked} clients asked")
            row = outcome.row() | (run.simulation.evaluate(state) if is_scored(run, state) else {})
            spent = time.perf_counter() - began
            seconds += spent
            record_round(run, state, row, spent, seconds)
            for tell in filter(None, (watch, track)):
                tell(row, run.experiment.rounds)
            if state.round < run.experiment.rounds:  # the end has words of its own
                patience.see(outcome)
    ended = conclude(run, state, seconds)
    if isinstance(ended, str):
        raise GivenUpError(f"{run.folder.path} has no result: {ended}")
    return ended
