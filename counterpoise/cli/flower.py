"""Commands for Flower: up, simulate, server, client, status, certs, describe, compare-received."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoise.cli.experiments import Out, Overrides, read_experiment, report, watched
from counterpoise.cli.interrupt import interruptible
from counterpoise.cli.runs import AsJson

if TYPE_CHECKING:
    from counterpoise.run.config.experiment import Experiment

app = typer.Typer(
    help="The same methods over a real network, with Flower (pip install 'counterpoise\\[flower]').",
    no_args_is_help=True,
)

File = Annotated[Path | None, typer.Argument(help="Experiment file in TOML; left out with --resume.")]
Resume = Annotated[Path | None, typer.Option(help="Folder of a stopped run to continue.")]
Certs = Annotated[
    Path | None,
    typer.Option(help="Folder of `counterpoise flower certs`; a client needs ca.crt and its key."),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text; only on 127.0.0.1.")]


@app.command()
def up(
    experiment: File = None,
    overrides: Overrides = None,
    clients: Annotated[int | None, typer.Option(min=1, help="Number of clients, one process each.")] = None,
    out: Out = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Start a whole deployment on this machine, with TLS and node keys, run the experiment, and take it down."""
    commands = _commands()
    config, folder = _which(experiment, overrides, resume, out, clients)
    report(
        watched(lambda listeners, say: commands.up(config, folder, listeners, say), folder), folder, as_json
    )


@app.command()
def simulate(
    experiment: File = None,
    overrides: Overrides = None,
    out: Out = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Run the experiment in Flower's simulation, on Ray."""
    commands = _commands()
    config, folder = _which(experiment, overrides, resume, out)
    report(
        watched(lambda listeners, say: commands.simulate(config, folder, listeners, say), folder),
        folder,
        as_json,
    )


@app.command()
def server(
    experiment: File = None,
    overrides: Overrides = None,
    out: Out = None,
    resume: Resume = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 9092,
    certs: Certs = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Listen for clients on other machines and run the experiment with them."""
    commands = _commands()
    endpoint = _endpoint(host, port, certs, insecure)
    config, folder = _which(experiment, overrides, resume, out)
    report(
        watched(lambda listeners, say: commands.serve(config, folder, endpoint, listeners, say), folder),
        folder,
        as_json,
    )


@app.command()
def client(
    name: Annotated[
        str, typer.Option("--client", help="This client's name, as the server's experiment lists it.")
    ],
    server: Annotated[str, typer.Option(help="HOST:PORT of the server.")] = "127.0.0.1:9092",
    data: Annotated[Path | None, typer.Option(help="Your table, npz file, pack or folder of images.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of a table that holds the class.")] = None,
    test_share: Annotated[
        float, typer.Option(help="Share of your samples that is held out, to score on.")
    ] = 0.2,
    state: Annotated[
        Path | None, typer.Option(help="Folder for what this client keeps between rounds.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Your copy of the experiment's model.weights, where a part of it is frozen."),
    ] = None,
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="Take part only in runs that hide your class counts (privacy.histogram)."
        ),
    ] = False,
    certs: Certs = None,
    insecure: Insecure = False,
) -> None:
    """Take part as one client with your own data, until stopped. Only messages leave this machine."""
    _commands()
    from counterpoise.data.faults import check_share, no_such
    from counterpoise.errors import ConfigError, short
    from counterpoise.flower.deployment import check_client_trust
    from counterpoise.flower.job import ClientFile, check_name
    from counterpoise.flower.resident import join

    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"--server must be HOST:PORT, not {short(server)}")
    if data is not None and not data.exists():
        raise ConfigError(f"--data {no_such(data, 'file or folder')}")
    if weights is not None and not weights.is_file():
        raise ConfigError(f"--weights {no_such(weights)}")
    endpoint = _endpoint(host.strip("[]"), int(port), certs, insecure)  # [::1]:9092
    check_client_trust(endpoint, name)
    check_share(test_share)
    reading: dict[str, Any] = {"label": label, "test_share": test_share}
    place = (state or Path.home() / ".local" / "state" / "counterpoise" / check_name(name)).absolute()
    own = None if data is None else str(data.absolute())
    frozen = None if weights is None else str(weights.absolute())
    with interruptible(lambda: "start it again to rejoin"):
        trust = None if endpoint.certs is None else str(endpoint.certs.path)
        join(ClientFile(check_name(name), str(place), own, reading, frozen, trust, private), endpoint, _say)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a run over a network, on its server.")],
    live: Annotated[bool, typer.Option("--live", help="Refresh until the run ends or Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show which clients are connected, replies, bytes, seconds, and which were refused and why."""
    from counterpoise.cli.flower_status import show_status

    show_status(folder, live, as_json)


@app.command()
def certs(
    folder: Annotated[Path, typer.Argument(help="Folder to write; existing files are kept.")],
    client: Annotated[list[str], typer.Option(help="Name of a client; repeat for more.")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address of the server, besides 127.0.0.1, ::1 and localhost."),
    ] = None,
) -> None:
    """Make an authority, the server's certificate, and one key pair per client; prints who gets which file."""
    for who, files in _commands().certificates(folder, client, host or []).items():
        typer.echo(f"{who}: {files}")


@app.command()
def describe(
    data: Annotated[Path, typer.Argument(help="A table, npz file, pack or folder of images.")],
    label: Annotated[str | None, typer.Option(help="Column of a table that holds the class.")] = None,
    client: Annotated[
        str | None, typer.Option(help="Column of a table that names the client; left out.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column of a table to leave out, such as an identifier; repeat for more."),
    ] = None,
) -> None:
    """Print the form of a file as the data table of a config, for a server without data; read it before you share it."""
    from counterpoise.system.toml import write_toml

    found = _commands().describe(data, label, client, drop or [])
    typer.echo(write_toml({"data": found.data}).strip())
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)


@app.command("compare-received")
def compare_received(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="`received.jsonl` of two or more clients.")
    ],
    as_json: AsJson = False,
) -> None:
    """Check that a server sent the same model to clients who pass each other their logs; exit code 5 where it did not."""
    import json

    from counterpoise.flower.received import compare_received as compare

    found = compare(files)
    if as_json:
        typer.echo(json.dumps(found._asdict()))
        return
    typer.echo(
        f"{found.common} of {found.rounds} rounds in common of {len(found.clients)} clients, all alike"
    )


def _say(words: str) -> None:
    """A line of a client's log, on standard error."""
    from datetime import datetime

    typer.echo(f"{datetime.now():%Y-%m-%d %H:%M:%S} {words}", err=True)


def _commands() -> Any:
    """The module of the commands, if the required version of Flower is installed."""
    from importlib.metadata import PackageNotFoundError, version

    from counterpoise.errors import ConfigError
    from counterpoise.flower import FLWR

    try:
        found = version("flwr")
    except PackageNotFoundError:
        found = "none"
    if found != FLWR:
        raise ConfigError(f"flwr must be {FLWR}, not {found}: pip install 'counterpoise[flower]'")
    from counterpoise.flower import commands

    return commands


def _endpoint(host: str, port: int, certs: Path | None, insecure: bool) -> Any:
    from counterpoise.flower.certs import CertFolder
    from counterpoise.flower.deployment import Endpoint, check_endpoint

    endpoint = Endpoint(host, port, None if certs is None else CertFolder(certs))
    check_endpoint(endpoint, insecure)
    return endpoint


def _which(
    experiment: Path | None,
    overrides: list[str] | None,
    resume: Path | None,
    out: Path | None,
    clients: int | None = None,
) -> tuple[Experiment | None, Path]:
    """The experiment and its folder; no experiment for --resume."""
    from counterpoise.errors import ConfigError
    from counterpoise.run.store.folder import next_folder

    if experiment is None and resume is not None:
        for option, value in (("--out", out), ("--clients", clients)):
            if value is not None:
                raise ConfigError(f"{option} does not go with --resume: a run keeps its folder and clients")
        return None, resume
    if experiment is None or resume is not None:
        raise ConfigError("give an experiment file, or --resume with the folder of a run, and not both")
    wanted = [*(overrides or []), *([f"partition.clients={clients}"] if clients else [])]
    config = read_experiment(experiment, wanted)
    return config, out or next_folder(Path("runs"), f"{config.build_method().name}-{config.data.name}-flower")
