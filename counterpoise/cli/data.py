"""Commands about data: inspect, pack, download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterpoise.cli.experiments import read_experiment
from counterpoise.cli.target import check_target, refuse_within_run

app = typer.Typer(
    help="Inspect data, pack it for another machine, or download a public data set.", no_args_is_help=True
)

PICTURES = (".png", ".svg", ".pdf", ".eps", ".ps")

Root = Annotated[
    Path | None, typer.Option(help="Folder of the data sets; else COUNTERPOISE_DATA, else the user's cache.")
]


@app.command()
def inspect(
    source: Annotated[
        str,
        typer.Argument(help="A file or folder of yours, an experiment file (.toml), or a data set's name."),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Values to change, as of `run`: data.imbalance=10 partition.name=iid."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of a table that holds the class.")] = None,
    client: Annotated[str | None, typer.Option(help="Column of a table that names the client.")] = None,
    by_client: Annotated[
        bool, typer.Option(help="Image folder with one folder per client: client/class/file.")
    ] = False,
    root: Root = None,
    picture: Annotated[Path, typer.Option(help="File for the heat map of clients by classes.")] = Path(
        "inspect.png"
    ),
) -> None:
    """Print classes, counts, imbalance, skew of each client, missing classes, and how local and global imbalance differ."""
    from counterpoise.cli.terminal import screen
    from counterpoise.errors import ConfigError, short
    from counterpoise.report.heatmap import draw_heatmap
    from counterpoise.run.inspect import look_at, report_lines

    if picture.suffix.lower() not in PICTURES:
        raise ConfigError(f"--picture must end in one of {', '.join(PICTURES)}, not {short(picture)}")
    check_target(picture, "--picture")
    federation = look_at(source, label, client, by_client, root, overrides or [])
    console = screen(highlight=False, soft_wrap=True)
    for line in report_lines(federation):
        console.print(line, markup=False)
    draw_heatmap(
        federation.counts().numpy(),
        federation.classes,
        picture,
        f"{federation.name}: samples of each client and class",
        federation.client_names or None,
    )
    console.print(f"picture: {picture}", markup=False)


@app.command()
def pack(
    experiment: Annotated[Path, typer.Argument(help="Experiment file whose data and partition are packed.")],
    target: Annotated[Path, typer.Argument(help="File to write, ending in .safetensors.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Values to change: key.sub=value.")] = None,
) -> None:
    """Write the prepared data (long-tailed, split, cut into clients) into one compact file for another machine.

    There: data.name = "pack", data.path = "FILE", and no partition. The run is the same, bit for bit.
    """
    from counterpoise.data.own import is_pack, write_pack
    from counterpoise.data.prepare import pack_federation
    from counterpoise.errors import ConfigError, few_digits, short
    from counterpoise.run.assemble import load_federation

    if target.suffix != ".safetensors":
        raise ConfigError(f"TARGET must end in .safetensors, not {short(target)}")
    check_target(target, "TARGET")
    refuse_within_run(target, "TARGET")
    if target.exists() and not is_pack(target):
        raise ConfigError(f"{short(target)} is there already and is no pack; name another file")
    config = read_experiment(experiment, overrides or [])
    packed = pack_federation(load_federation(config))
    assert packed.assignment is not None
    tables = config.tables()
    write_pack(
        packed,
        packed.assignment,
        target,
        {"seed": config.seed, "data": tables["data"], "partition": tables["partition"]},
    )
    typer.echo(
        f"{target}: {few_digits(target.stat().st_size / 2**20)} MiB, {len(packed.train.y)} training and {len(packed.test.y)} test samples, {len(packed.assignment.clients)} clients"
    )


@app.command()
def download(
    name: Annotated[str, typer.Argument(help="A data set of `counterpoise ls data`.")], root: Root = None
) -> None:
    """Download a public data set from its mirrors, and check its published checksum; interrupted downloads are resumed."""
    from counterpoise.cli.progress import DownloadBar
    from counterpoise.data.download import download as fetch

    with DownloadBar() as bar:
        paths = fetch(name, root, bar.show)
    typer.echo("\n".join(str(path) for path in paths))
