"""Commands that compare methods: compare and demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterpoise.cli.interrupt import interruptible
from counterpoise.cli.runs import AsJson, wide_console

if TYPE_CHECKING:
    from counterpoise.sweep.run import Execution, Finished
    from counterpoise.sweep.sweep import Sweep

Processes = Annotated[
    int | None,
    typer.Option(min=1, max=512, help="Runs at once; by default one per core, or one on a GPU."),
]
GO_ON = "the same command continues where it stopped"


def add_to(app: typer.Typer) -> None:
    for command in (compare, demo):
        app.command()(command)


def compare(
    sweep: Annotated[
        Path,
        typer.Argument(
            help="Sweep file in TOML: methods, seeds, what seeds repeat (runs, splits or folds), problems, tuning; docs/compare.md explains it."
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Values to change: key.sub=value, such as seeds=3 base.rounds=20."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; by default runs/ and the name of the file.")
    ] = None,
    processes: Processes = None,
    on: Annotated[Literal["local", "ray"], typer.Option(help="Where runs are executed.")] = "local",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and estimate the time; run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods over problems and seeds: runs what is missing, then tables, tests and a report."""
    from counterpoise.sweep.run import default_execution
    from counterpoise.sweep.sweep import open_sweep

    wanted = open_sweep(sweep, overrides or [])
    folder, execution = out or Path("runs") / sweep.stem, default_execution(processes, on)
    if dry_run:
        return _print_plan(wanted, folder, execution, as_json)
    return run_and_print(wanted, folder, execution, as_json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs, the tables and the report.")] = Path(
        "demo-out"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each method.")] = 10,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of each run.")] = None,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Compare FedAvg with remedies for class imbalance on long-tailed data, over several seeds."""
    from counterpoise.sweep.demo import demo_sweep
    from counterpoise.sweep.run import default_execution

    run_and_print(demo_sweep(seeds, rounds), out, default_execution(processes), as_json)


def run_and_print(sweep: Sweep, out: Path, execution: Execution, as_json: bool) -> None:
    """Run a sweep and print its result."""
    from counterpoise.cli.progress import RunsBar
    from counterpoise.sweep.foreseen import foreseen
    from counterpoise.sweep.run import run_sweep

    for line in [] if as_json else foreseen(sweep):
        typer.echo(f"note: {line}")
    with interruptible(lambda: GO_ON), RunsBar() as bar:
        finished = run_sweep(sweep, out, execution, bar.show)
    typer.echo(json.dumps(_as_data(finished), indent=2)) if as_json else _print_result(sweep, finished)
    _report_failures(finished)


def _print_plan(sweep: Sweep, out: Path, execution: Execution, as_json: bool) -> None:
    from counterpoise.sweep.estimate import plan_sweep
    from counterpoise.sweep.foreseen import foreseen

    plan = plan_sweep(sweep, out)
    runs = [
        {"state": state, "folder": str(job.path(out)), "method": job.method, "problem": job.problem, "seed": job.experiment.seed}
        for job, state in zip(plan.jobs, plan.states, strict=True)
    ]  # fmt: skip
    seconds = plan.seconds / min(execution.processes, max(1, len(runs) - plan.states.count("done")))
    if as_json:
        known = {"processes": execution.processes, "seconds": seconds, "notes": foreseen(sweep)}
        typer.echo(json.dumps({"runs": runs, **known}, indent=2))
        return
    for run in runs:
        typer.echo(f"{run['state']:<8} {run['folder']}")
    for line in foreseen(sweep):
        typer.echo(f"note: {line}")
    todo = len(runs) - plan.states.count("done")
    typer.echo(
        f"{len(runs)} runs, {todo} of them to do: about {in_words(seconds)} in {execution.processes} processes, estimated from a few steps of each problem, without what each run takes to start and to write its files"
    )


def in_words(seconds: float) -> str:
    """Seconds as text, in a suitable unit."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _print_result(sweep: Sweep, finished: Finished) -> None:
    from counterpoise.report.render import print_comparison
    from counterpoise.sweep.tune import budget_lines

    if sweep.tune is not None:
        typer.echo("\n".join(budget_lines(finished.tuned, sweep.tune)) + "\n")
    print_comparison(finished.comparison, wide_console())
    typer.echo(f"\ntables:  {finished.out / 'table.md'} (.tex, .csv, .json)")
    if figures := sorted(finished.out.glob("*.png")):
        typer.echo(f"figures: {', '.join(map(str, figures))} (.svg)")
    typer.echo(f"runs:    {finished.out / 'runs'}")
    typer.echo(f"report:  {finished.report}")


def _as_data(finished: Finished) -> dict[str, Any]:
    from counterpoise.report.render import render_json

    return {
        "out": str(finished.out),
        "runs": len(finished.jobs),
        "failures": {str(path): error for path, error in (finished.failures | finished.given_up).items()},
        "report": str(finished.report),
        "comparison": json.loads(render_json(finished.comparison)),
    }


def _report_failures(finished: Finished) -> None:
    """Print which runs failed and why; the command then exits with 4, since it can be repeated."""
    from counterpoise.errors import RunError

    for path, error in finished.unscored.items():
        typer.echo(f"note: not chosen, since it failed: {path}: {error}", err=True)
    failures = finished.failures | finished.given_up
    if failures:
        path, error = next(iter(failures.items()))
        count = "" if len(failures) == 1 else f"{len(failures)} runs, the first "
        again = "; the same command tries again" if finished.failures else ""
        raise RunError(f"failed: {count}{path}: {error}{again}")
