"""Commands that run: run, resume, validate."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from counterpoise.experiment.config import Experiment

File = Annotated[Path, typer.Argument(help="Experiment file in TOML; docs/reference.md lists every key.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Values to change: key.sub=value, such as local.lr=0.05 method=fedcm seed=3."),
]
Out = Annotated[
    Path | None, typer.Option(help="Folder of the run; by default a new numbered one under runs/.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def add_to(app: typer.Typer) -> None:
    for command in (run, resume, validate):
        app.command()(command)


def run(experiment: File, overrides: Overrides = None, out: Out = None, as_json: AsJson = False) -> None:
    """Run an experiment. Ctrl-C leaves a run that `resume` continues to the same result."""
    from counterpoise.experiment.config import load_experiment
    from counterpoise.experiment.folder import next_folder
    from counterpoise.experiment.runner import start

    config = load_experiment(experiment, overrides or [])
    folder = out or next_folder(Path("runs"), f"{config.build_method().name}-{config.data.name}")
    report(watched(lambda watch: start(config, folder, watch), folder), folder, as_json)


def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of the run.")], as_json: AsJson = False
) -> None:
    """Go on with a run that was stopped or killed; the result is that of an undisturbed run, bit for bit."""
    from counterpoise.experiment import runner

    report(watched(lambda watch: runner.resume(folder, watch), folder), folder, as_json)


def validate(experiment: File, overrides: Overrides = None) -> None:
    """Check an experiment without running it: every key, the data, the model, and which engine would be chosen."""
    from counterpoise.experiment.assemble import assemble, load_federation
    from counterpoise.experiment.config import load_experiment
    from counterpoise.experiment.track import check_tracker

    config = load_experiment(experiment, overrides or [])
    check_tracker(config.track.to)
    simulation = assemble(config, load_federation(config))
    try:
        simulation.rehearse()
        typer.echo("\n".join(_plan_lines(config, simulation)))
    finally:
        simulation.close()


def watched(
    work: Callable[[Callable[[Mapping[str, Any], int], None]], dict[str, Any]], folder: Path
) -> dict[str, Any]:
    from counterpoise.cli.live import Live
    from counterpoise.experiment.folder import RunFolder

    with interruptible(RunFolder(folder).way_on), Live() as live:
        return work(live.show)


@contextmanager
def interruptible(way_on: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and a polite kill end in one line that says how to go on."""
    from counterpoise.errors import RunError

    ours = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() != ours:
            os._exit(1)  # a worker process, which inherited this: only its parent has something to say
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise RunError(f"stopped; {way_on()}") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def report(summary: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    from counterpoise.report.table import table

    if summary["rejected_replies"]:
        typer.echo(
            f"note: {summary['rejected_replies']} replies could not be used and {summary['skipped_rounds']} of {summary['rounds']} rounds were skipped; {folder / 'metrics.jsonl'} says why",
            err=True,
        )
    typer.echo(json.dumps(summary, indent=2) if as_json else f"{table([summary])}\n{folder}")


def _plan_lines(config: Experiment, simulation: Any) -> Iterator[str]:
    federation, settings = simulation.work.federation, simulation.settings
    sizes = federation.samples()
    parameters = sum(p.numel() for p in simulation.work.model.params().values())
    yield f"data       {federation.name}: {len(federation.train.y)} training and {len(federation.test.y)} test samples, {len(federation.classes)} classes"
    yield f"classes    {federation.counts().sum(0).tolist()}"
    yield from (f"note       {note}" for note in federation.notes)
    yield f"clients    {len(sizes)} of {int(sizes.min())} to {int(sizes.max())} samples, {config.cohort.size or len(sizes)} a round"
    yield f"model      {config.model.name}: {parameters} parameters, inputs {federation.input_shape}"
    yield f"method     {simulation.method.name}: {', '.join(part.name for part in simulation.method.parts) or 'plain averaging'}; clients weigh by {simulation.method.weighting}"
    yield f"engine     {settings.name} on {settings.device}: {settings.reason}"
    yield "legal"
