"""The commands run, resume and validate."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoise.cli.interrupt import interruptible
from counterpoise.cli.runs import AsJson

if TYPE_CHECKING:
    from counterpoise.run.config.experiment import Experiment
    from counterpoise.run.listener import Listener

File = Annotated[Path, typer.Argument(help="Experiment file in TOML; docs/reference.md lists every key.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Values to change: key.sub=value, such as local.lr=0.05 method=fedcm seed=3."),
]
Out = Annotated[
    Path | None, typer.Option(help="Folder of the run; by default a new numbered one under runs/.")
]
# Listeners, function that prints a line -> summary
Work = Callable[["Sequence[Listener]", Callable[[str], None]], dict[str, Any]]


def add_to(app: typer.Typer) -> None:
    for command in (run, resume, validate):
        app.command()(command)


def run(experiment: File, overrides: Overrides = None, out: Out = None, as_json: AsJson = False) -> None:
    """Run an experiment. Ctrl-C leaves a run that `resume` continues to the same result."""
    from counterpoise.run.listener import DataNotes
    from counterpoise.run.runner import start
    from counterpoise.run.store.folder import next_folder

    config = read_experiment(experiment, overrides or [])
    notes = [] if as_json else [DataNotes(typer.echo)]
    folder = out or next_folder(Path("runs"), f"{config.build_method().name}-{config.data.name}")
    summary = watched(
        lambda listeners, _: start(config, folder, [*notes, *listeners], file=experiment.name), folder
    )
    report(summary, folder, as_json)


def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of the run.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Only rounds=NUMBER: go on to so many rounds.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Continue a run that was stopped or killed, to the result of an uninterrupted run, bit for bit.

    With rounds=80 also a finished run goes on, to what a run of 80 rounds would be; one line says if its schedule or its
    method does not allow that.
    """
    from counterpoise.run import runner

    rounds = _rounds_of(overrides or [])
    summary = watched(lambda listeners, _: runner.resume(folder, listeners, rounds=rounds), folder)
    report(summary, folder, as_json)


def _rounds_of(overrides: list[str]) -> Any:
    """The number of rounds to go on to; nothing else may change in a run that has begun."""
    from counterpoise.errors import ConfigError, short
    from counterpoise.system.toml import override

    given: dict[str, Any] = {}
    for assignment in overrides:
        given = override(given, assignment)
        if set(given) != {"rounds"}:
            raise ConfigError(f"resume changes only rounds=NUMBER, not {short(assignment)}: start a new run")
    return given.get("rounds")


def validate(experiment: File, overrides: Overrides = None) -> None:
    """Check an experiment without running it: every key, the data, the model, the engine, and what the server would learn.

    Where clients bring their own data (flower.clients), what the server has is checked, as for `counterpoise flower server`.
    """
    from counterpoise.run.assemble import assemble, load_federation
    from counterpoise.run.track import check_tracker

    config = read_experiment(experiment, overrides or [])
    check_tracker(config.track.to)
    if config.flower.clients:
        typer.echo("\n".join(_foreseen_lines(config)))
        return
    simulation = assemble(config, load_federation(config))
    try:
        simulation.rehearse()
        typer.echo("\n".join(_plan_lines(config, simulation)))
    finally:
        simulation.close()


def read_experiment(path: Path, overrides: list[str]) -> Experiment:
    """The experiment of a file; a sweep is recognised by keys that no experiment has."""
    from counterpoise.data.tables.table import is_table
    from counterpoise.errors import ConfigError, short
    from counterpoise.run.config.experiment import open_experiment

    if is_table(path):
        file = shlex.quote(str(path))
        raise ConfigError(
            f"{short(path)} must be an experiment in TOML, not a table; `counterpoise init {file} --label COLUMN` writes one"
        )
    try:
        return open_experiment(path, overrides)
    except ConfigError:
        keys = _keys_of_sweeps(path)
        if not keys:
            raise
        raise ConfigError(
            f"{path}: {', '.join(keys)}: this is a sweep, for `counterpoise compare {shlex.quote(str(path))}`; an experiment has one method and one seed"
        ) from None


def _keys_of_sweeps(path: Path) -> list[str]:
    from counterpoise.run.config.experiment import Experiment
    from counterpoise.sweep.sweep import Sweep
    from counterpoise.system.toml import read_toml

    alone = Sweep.parameters().keys() - Experiment.parameters().keys()
    return [key for key in read_toml(path) if key in alone]


def watched(work: Work, folder: Path) -> dict[str, Any]:
    """Run with a progress bar and pictures; an interruption says how to continue."""
    from counterpoise.report.client_tables import ClientTable
    from counterpoise.report.pictures import Pictures
    from counterpoise.run.progress import Live
    from counterpoise.run.store.folder import RunFolder

    with interruptible(RunFolder(folder).resume_hint), Live() as live:
        return work([live, Pictures(), ClientTable()], live.say)


def report(summary: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    from counterpoise.report.outcome import class_lines
    from counterpoise.report.table import table

    if summary["rejected_replies"]:
        typer.echo(
            f"note: {summary['rejected_replies']} replies could not be used and {summary['skipped_rounds']} of {summary['rounds']} rounds were skipped; {folder / 'metrics.jsonl'} says why",
            err=True,
        )
    if "stopped" in summary:
        typer.echo(f"note: {summary['stopped']}", err=True)
    lines = [table([summary]), *class_lines(summary), str(folder)]
    typer.echo(json.dumps(summary, indent=2) if as_json else "\n".join(lines))


def _plan_lines(config: Experiment, simulation: Any) -> Iterator[str]:
    from counterpoise.errors import listed

    federation, settings = simulation.work.federation, simulation.settings
    sizes = federation.samples()
    yield f"data       {federation.name}: {len(federation.train.y)} training and {len(federation.test.y)} test samples, {len(federation.classes)} classes"
    counts = federation.counts().sum(0).tolist()
    yield f"classes    {listed([f'{name}: {count:,}' for name, count in zip(federation.classes, counts, strict=True)])}"
    yield from (f"note       {note}" for note in federation.notes)
    yield f"clients    {len(sizes)} of {int(sizes.min())} to {int(sizes.max())} samples, {config.cohort.size or len(sizes)} per round"
    yield from _model_lines(config, simulation)
    for probe, names in simulation.probe_names().items():
        yield f"probe      {probe}: {', '.join(names)}"
    yield from (f"{part:<10} {note}" for part, note in simulation.notes.items())
    yield f"engine     {settings.name} on {settings.device}: {settings.reason}"
    yield from _last_lines(config)


def _foreseen_lines(config: Experiment) -> Iterator[str]:
    """The plan of a run whose clients have not connected: what they hold is not known."""
    from counterpoise.flower.commands import prepared_simulation

    simulation = prepared_simulation(config)
    federation = simulation.work.federation
    yield f"data       the server's own: {len(federation.test.y)} test samples, {len(federation.classes)} classes"
    yield from (f"note       {note}" for note in federation.notes)
    yield f"clients    {', '.join(config.flower.clients)}, each with its own data, {config.cohort.size or len(config.flower.clients)} per round"
    yield from _model_lines(config, simulation)
    yield "engine     flower: run it by `counterpoise flower server`"
    yield from _last_lines(config)


def _model_lines(config: Experiment, simulation: Any) -> Iterator[str]:
    model, inputs = simulation.work.model, simulation.work.federation.input_shape
    parameters, frozen = (sum(p.numel() for p in tree.values()) for tree in (model.params(), model.frozen()))
    yield f"model      {config.model.name}: {parameters} parameters{f' and {frozen} frozen ones' if frozen else ''}, inputs {inputs}"
    yield f"method     {simulation.method.name}: {', '.join(part.name for part in simulation.method.parts) or 'plain averaging'}; client weights: {simulation.method.weighting}"


def _last_lines(config: Experiment) -> Iterator[str]:
    from counterpoise.run.learned import learned_in

    yield from (f"learns     {one.words}" for one in learned_in(config))
    yield "valid"
