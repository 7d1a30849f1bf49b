"""The commands ls and show."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoise.cli.listing import list_runs
from counterpoise.cli.runs import AsJson
from counterpoise.errors import ConfigError, legal_words, short

if TYPE_CHECKING:
    from counterpoise.registry.registry import Entry
    from counterpoise.run.learned import Learned


def add_to(app: typer.Typer) -> None:
    for command in (ls, show):
        app.command()(command)


def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="methods, parts, data, imbalances, partitions, models, schedules, augmentations, probes, or runs."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(help="With runs: where to look for them; by default runs/.")
    ] = None,
    as_json: AsJson = False,
    sort: Annotated[
        str | None,
        typer.Option(
            help="With runs: data (then method and seed), run, file, method, seed, state, when, or a score."
        ),
    ] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="With runs: only the best of each problem, by the score of --sort, else balanced accuracy.",
        ),
    ] = False,
) -> None:
    """List methods, parts, data and so on, one line each; or your runs and their states."""
    if kind == "runs":
        list_runs(folder or Path("runs"), as_json, sort, best)
    elif folder is not None:
        raise typer.BadParameter(f"{short(folder)}: a folder goes only with `ls runs`")
    elif sort is not None:
        raise typer.BadParameter(f"--sort {short(sort)} goes only with `ls runs`")
    elif best:
        raise typer.BadParameter("--best goes only with `ls runs`")
    elif kind is not None and kind not in _kinds():
        raise ConfigError(f"no kind {short(kind)}; {legal_words(kind, _kinds())}")
    elif as_json:
        typer.echo(json.dumps(_rules(kind), indent=2))
    else:
        _print_rules(kind)


def _kinds() -> list[str]:
    from counterpoise.cli.catalogue import CATALOGUE

    return [*CATALOGUE, "runs"]


def _rules(kind: str | None) -> dict[str, dict[str, str]]:
    """Kind -> name -> the rule in one line."""
    from counterpoise.cli.catalogue import CATALOGUE, list_entries

    kinds = [kind] if kind else CATALOGUE
    return {name: {entry.name: _plain(entry.summary) for entry in list_entries(name)} for name in kinds}


def _print_rules(kind: str | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    from counterpoise.cli.terminal import screen

    console = screen()
    for name, rules in _rules(kind).items():
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        for entry, rule in rules.items():
            table.add_row(escape(f"  {entry}"), escape(rule))
        console.print(name)
        console.print(table)


def show(
    name: Annotated[
        str, typer.Argument(help="A method, part, data set, partition, model, ..., or the folder of a run.")
    ],
) -> None:
    """Show one name: formula, paper, parameters, its parts, and what the server learns; of a run, these and what its parts recorded."""
    from rich.markup import escape

    from counterpoise.cli.catalogue import find
    from counterpoise.cli.terminal import screen

    console = screen(highlight=False, soft_wrap=True)
    if _is_run(name):
        _print_run(console, Path(name))
        return
    for number, (kind, entry) in enumerate(find(name)):
        console.print("\n" * (number > 0) + f"[bold]{escape(name)}[/bold]  ({kind})")
        _print_entry(console, entry)
        if kind == "methods":
            _print_parts(console, entry)


def _is_run(name: str) -> bool:
    """Whether a name that no registry has is the folder of a run."""
    from counterpoise.cli.catalogue import all_names
    from counterpoise.run.store.folder import RunFolder

    return bool(name) and name not in all_names() and RunFolder(Path(name)).holds_run()


def _print_run(console: Any, folder: Path) -> None:
    from counterpoise.report.outcome import class_lines
    from counterpoise.results.inside import inside_lines
    from counterpoise.results.privacy import sum_line
    from counterpoise.results.progress import data_words
    from counterpoise.results.results import read_result
    from counterpoise.run.config.experiment import make_experiment
    from counterpoise.run.learned import learned_in

    run = read_result(folder)
    console.print(f"{folder}: {run.method} on {data_words(run.config)}, seed {run.seed}", markup=False)
    for line in class_lines(run.summary or {}):
        console.print(line, markup=False)
    _print_learned(console, learned_in(make_experiment(run.config, str(folder))))
    if tallied := run.record.get("tallied"):
        console.print(f"\nBefore the first round: {sum_line(tallied)}", markup=False)
    for line in inside_lines(run):
        console.print(line, markup=False)


def _print_learned(console: Any, found: Sequence[Learned]) -> None:
    console.print("\nThe server learns:")
    for one in found:
        console.print(f"  {one.words}", markup=False)


def _print_entry(console: Any, entry: Entry[Any]) -> None:
    console.print(_plain(entry.doc), markup=False)
    if entry.paper:
        console.print(f"\nPaper: {entry.paper}", markup=False)
    _print_parameters(console, entry)


def _print_parameters(console: Any, entry: Entry[Any]) -> None:
    console.print("\nParameters:" if entry.parameters else "\nNo parameters.")
    for parameter in entry.parameters.values():
        default = (
            "required" if parameter.default is inspect.Parameter.empty else f"default {parameter.default!r}"
        )
        console.print(f"  {parameter.name}: {parameter.legal}; {default}", markup=False)
    if off := entry.facts.get("off"):
        settings = " and ".join(f"{argument} = {value!r}" for argument, value in off.items())
        console.print(f"  ({settings}: switched off)", markup=False)


def _print_parts(console: Any, entry: Entry[Any]) -> None:
    from counterpoise.cli.catalogue import describe_parts
    from counterpoise.run.config.experiment import Experiment
    from counterpoise.run.learned import learned_in

    method = entry.build()
    console.print(f"\nClient weights: {method.weighting}", markup=False)
    console.print("Parts:" if method.parts else "Parts: none, plain averaging.")
    for part, hooks in describe_parts(method):
        console.print(f"  {part} ({hooks})", markup=False)
    _print_learned(console, learned_in(Experiment(method=entry.name)))
    with_part = f', or method = ["{entry.name}", {{ focal = {{ gamma = 2.0 }} }}]'
    console.print(
        f'\nIn a config: method = "{entry.name}"{"" if method.owner("loss") else with_part}', markup=False
    )


def _plain(text: str) -> str:
    return text.replace("``", "")
