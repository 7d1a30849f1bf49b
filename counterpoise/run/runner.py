"""Run experiments in folders, one or several in one program; each can be killed at any moment and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from counterpoise.data.federation import Federation
from counterpoise.engines.choose import build_engine
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Count
from counterpoise.run.assemble import assemble, load_federation
from counterpoise.run.build import Connect
from counterpoise.run.config.experiment import Experiment, load_experiment, make_experiment, with_max_skipped
from counterpoise.run.driver import drive
from counterpoise.run.giving_up import GivenUpError, Rows
from counterpoise.run.joined import join, share_samples
from counterpoise.run.listener import Listener
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.extend import extend
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.restore import restore, rows_before
from counterpoise.run.store.run import conclude, found_run, keep_start, new_run, record_round, resumable
from counterpoise.run.store.stored import Run
from counterpoise.run.track import check_tracker, tracked
from counterpoise.server.state import ServerState


class Member(NamedTuple):
    """A run: its experiment, folder and federation."""

    experiment: Experiment
    path: Path
    federation: Federation
    file: str = ""  # name of the experiment's file, for the record
    extended: bool = False  # to the rounds of its experiment, which its folder does not have yet


def start(
    experiment: Experiment,
    out: Path,
    listeners: Sequence[Listener] = (),
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
    file: str = "",
) -> dict[str, Any]:
    """A new run; returns its summary. `file`: name of the experiment's file, for lists of runs."""
    RunFolder(out).check_free()
    check_tracker(experiment.track.to)
    member = Member(experiment, out, federation or load_federation(experiment), file)
    return _run_alone(member, listeners, model, connect)


def resume(
    path: Path,
    listeners: Sequence[Listener] = (),
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
    max_skipped: int | None = None,
    rounds: Count | None = None,
) -> dict[str, Any]:
    """Go on from the newest intact checkpoint, with another `max_skipped` where given; returns the summary.

    With `rounds` to so many, if the rounds already done would be the same in such a run.
    """
    folder = RunFolder(path)
    if not folder.holds_run():
        raise ConfigError(f"{path} holds no run: there is no config.toml in it")
    experiment = with_max_skipped(load_experiment(folder.config), max_skipped)
    if experiment.engine.together:
        raise ConfigError(f"{path} is trained together with other runs; repeat the command that started them")
    if rounds is not None:
        experiment = make_experiment({**experiment.tables(), "rounds": rounds}, str(path))
    check_tracker(experiment.track.to)
    given = federation or load_federation(experiment)
    member = Member(experiment, path, given, extended=rounds is not None)
    return _run_alone(member, listeners, model, connect)


def run_together(members: Sequence[Member], listeners: Sequence[Listener] = ()) -> list[dict[str, Any] | str]:
    """Start or resume runs that train in one program; returns their summaries, or why they have none."""
    names = [member.path.name for member in members]
    members = [member._replace(experiment=_named(member, names)) for member in members]
    check_tracker(members[0].experiment.track.to)
    first = assemble(members[0].experiment, members[0].federation)
    placed = first.work.federation
    rest = [assemble(member.experiment, share_samples(placed, member.federation)) for member in members[1:]]
    return _execute(members, join([first, *rest]), listeners)


def _run_alone(
    member: Member, listeners: Sequence[Listener], model: nn.Module | None, connect: Connect
) -> dict[str, Any]:
    simulation = assemble(member.experiment, member.federation, model, connect)
    [ended] = _execute([member], [simulation], listeners)
    if isinstance(ended, str):
        raise GivenUpError(f"{member.path} has no result: {ended}")
    return ended


def _execute(
    members: Sequence[Member], simulations: Sequence[Simulation], listeners: Sequence[Listener]
) -> list[dict[str, Any] | str]:
    """Runs from their start or newest checkpoint to their end."""
    folders = [RunFolder(member.path) for member in members]
    began = [folder.holds_run() for folder in folders]
    with ExitStack() as held:
        for simulation in simulations:
            held.callback(simulation.close)
        # Simulations are made before the locks, so that worker processes do not inherit them, and opened before the
        # folders, so that a config that does not fit leaves no folder.
        states = [] if any(began) else [simulation.open() for simulation in simulations]
        for folder, known in zip(folders, began, strict=True):
            if not known:
                folder.create()
            held.enter_context(folder.locked())
            held.enter_context(resumable(folder))
        runs = [
            (found_run if known else new_run)(
                member.experiment, simulation, member.federation, folder, member.file
            )
            for member, simulation, folder, known in zip(members, simulations, folders, began, strict=True)
        ]
        for run, member in zip(runs, members, strict=True):
            if member.extended:
                extend(run)
        starts = [(state, 0.0) for state in states] or _restore(runs)
        for run, (state, _) in zip(runs, starts, strict=True):
            keep_start(run, state)
        for listener in listeners:
            for run in runs:
                listener.began(run)
        return _go_on(runs, starts, listeners)


def _go_on(
    runs: Sequence[Run], starts: Sequence[tuple[ServerState, float]], listeners: Sequence[Listener]
) -> list[dict[str, Any] | str]:
    """Rounds until the end, each recorded."""
    states, seconds = [state for state, _ in starts], [spent for _, spent in starts]
    experiment, before = runs[0].experiment, [rows_before(*pair) for pair in zip(runs, states, strict=True)]
    with ExitStack() as trackers:
        tracks = [trackers.enter_context(tracked(run.experiment, run.folder)) for run in runs]
        simulations = [run.simulation for run in runs]
        for ended in drive(simulations, states, experiment.evaluate.every, before):
            states = [one.state for one in ended]
            for place, one in enumerate(ended):
                seconds[place] += one.seconds
                record_round(runs[place], one, seconds[place])
                for notify in (*(listener.round_ended for listener in listeners), tracks[place]):
                    notify(one.row, experiment.rounds)

    def notify_end(run: Run, rows: Rows) -> None:
        for listener in listeners:
            listener.ended(run, rows)

    return [conclude(*one, notify_end) for one in zip(runs, states, seconds, strict=True)]


def _restore(runs: Sequence[Run]) -> list[tuple[ServerState, float]]:
    """The states at the newest round of which all runs have a checkpoint; a kill may have come between two saves."""
    while True:
        found = [restore(run) for run in runs]
        last = min(state.round for state, _ in found)
        if all(state.round == last for state, _ in found):
            return found
        for run, (state, _) in zip(runs, found, strict=True):
            if state.round > last:
                run.store.drop_after(last)


def _named(member: Member, names: list[str]) -> Experiment:
    """The config of each run names all that train with it, so that they can only be resumed together."""
    folder = RunFolder(member.path)
    if not folder.holds_run():
        return replace(member.experiment, engine=replace(member.experiment.engine, together=names))
    known = load_experiment(folder.config)
    if known.engine.together != names:
        raise ConfigError(
            f"{member.path} began together with {known.engine.together or 'none'} and cannot be resumed with {names}"
        )
    return with_max_skipped(known, member.experiment.engine.max_skipped)
