"""The command init: from a table to an experiment file and a sweep file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

MOST_CLASSES = 20  # that are listed


def add_to(app: typer.Typer) -> None:
    app.command()(init)


def init(
    file: Annotated[Path, typer.Argument(help="Your table: CSV or Parquet, one row per sample.")],
    label: Annotated[str | None, typer.Option(help="Column that holds the class.")] = None,
    client: Annotated[
        str | None, typer.Option(help="Column that names who holds a row; else clients are simulated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the two files.")] = Path(),
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out rows that cannot be used, and list them.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Look at a table, write an experiment and a sweep for it, and say what was assumed."""
    from counterpoise.errors import ConfigError
    from counterpoise.sweep.draft import draft
    from counterpoise.system.atomic import write_atomically

    if out.suffix == ".toml" or (out.exists() and not out.is_dir()):
        raise ConfigError(f"--out must be a folder for the two files, not {out}")
    stem = Path(file.stem).stem if file.suffix.lower() == ".gz" else file.stem
    experiment, sweep = out / f"{stem}.toml", out / f"{stem}-sweep.toml"
    there = [path for path in (experiment, sweep) if path.exists()]
    if there and not force:
        raise ConfigError(f"{there[0]} is there already; --force overwrites it, --out names another folder")
    found = draft(file, label, client, str(out / stem), skip)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(experiment, found.experiment.encode())
    write_atomically(sweep, found.sweep.encode())
    _print_classes(found.counts)
    typer.echo("\nassumed:")
    typer.echo("\n".join(f"  {line}" for line in found.assumed))
    typer.echo(f"\nwrote {experiment} and {sweep}; go on with\n")
    typer.echo(f"  counterpoise advise {shlex.quote(str(experiment))}")
    typer.echo(f"  counterpoise run {shlex.quote(str(experiment))}")
    typer.echo(f"  counterpoise compare {shlex.quote(str(sweep))}")


def _print_classes(counts: dict[str, int]) -> None:
    from counterpoise.errors import printable, shorten

    total = sum(counts.values())
    typer.echo("class                        rows   share")
    if len(counts) > MOST_CLASSES:
        typer.echo(f"the {MOST_CLASSES} rarest of {len(counts):,}:")
    for name, count in sorted(counts.items(), key=lambda one: one[1])[:MOST_CLASSES]:
        typer.echo(f"{printable(shorten(name, 24)):<24} {count:>8,} {count / total:>7.1%}")
