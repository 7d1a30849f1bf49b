"""What the commands do: a whole local deployment, a simulation, a server."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.engines.flower import deployment, processes
from counterpoise.engines.flower.app_folder import write_app
from counterpoise.engines.flower.certs import CertFolder, make_certs
from counterpoise.engines.flower.deployment import Link
from counterpoise.engines.flower.described import in_words
from counterpoise.engines.flower.job import ClientFile, Job, JobFolder, check_name, write_client_file
from counterpoise.engines.flower.own_columns import open_table
from counterpoise.engines.flower.own_data import describe_form, form_notes, server_data
from counterpoise.engines.flower.processes import Child
from counterpoise.engines.flower.workplaces import build_workplace, client_names
from counterpoise.errors import ConfigError, RunError, listed
from counterpoise.experiment.assemble import load_federation
from counterpoise.experiment.atomic import write_atomically
from counterpoise.experiment.config import Experiment, load_experiment, make_experiment
from counterpoise.experiment.folder import RunFolder, read_rows
from counterpoise.experiment.runner import Watch
from counterpoise.experiment.toml import write_toml

KINDS = {".npz": "arrays", ".safetensors": "pack"}


class Prepared(NamedTuple):
    """A run that is ready to be handed to Flower."""

    folder: JobFolder
    names: list[str]
    experiment: Experiment
    out: Path
    job: Job


class Description(NamedTuple):
    """The form of a file in the words of a config, and what to think twice about."""

    data: Mapping[str, Any]
    notes: tuple[str, ...]


def up(experiment: Experiment | None, out: Path, watch: Watch | None = None) -> dict[str, Any]:
    """Superlink, a supernode a client, and the run, all on this machine with TLS; taken down at the end.

    Without an experiment, the run in the folder goes on.
    """
    ready = prepare(experiment, out, named_nodes=True)
    certs = make_certs(ready.folder.path / "certs", ready.names)
    link = Link("127.0.0.1", processes.free_port(), certs)
    with _guarded(ready), processes.children() as children:
        children.append(deployment.start_superlink(ready.folder, link))
        for name in ready.names:
            deployment.register(ready.folder, certs, name)
            children.append(local_supernode(ready.folder, link, name))
        deployment.submit(ready.folder)
        return follow(ready, children[0], watch)


def simulate(experiment: Experiment | None, out: Path, watch: Watch | None = None) -> dict[str, Any]:
    """The run in Flower's simulation, whose clients are tasks of Ray on this machine."""
    ready = prepare(experiment, out, named_nodes=False)
    link = Link("127.0.0.1", processes.free_port(), None)
    with _guarded(ready), processes.children() as children:
        children.append(deployment.start_superlink(ready.folder, link, simulation=True))
        deployment.submit(ready.folder, [f"num-supernodes={len(ready.names)}", "client-resources-num-cpus=1"])
        return follow(ready, children[0], watch)


def serve(experiment: Experiment | None, out: Path, link: Link, watch: Watch | None = None) -> dict[str, Any]:
    """A superlink that clients of other machines come to, and the run."""
    ready = prepare(experiment, out, named_nodes=link.certs is not None)
    with _guarded(ready), processes.children() as children:
        children.append(deployment.start_superlink(ready.folder, link))
        if link.certs is not None:
            for name in ready.names:
                deployment.register(ready.folder, link.certs, name)
        deployment.submit(ready.folder)
        return follow(ready, children[0], watch)


def prepare(experiment: Experiment | None, out: Path, named_nodes: bool) -> Prepared:
    """Check everything that can be checked here, then write what Flower will run."""
    run, folder = RunFolder(out), JobFolder(out)
    resume = experiment is None
    if experiment is None:
        if not run.holds_run():
            raise ConfigError(f"{out} holds no run: there is no config.toml in it")
        experiment = _as_started(run, folder)
    else:
        run.check_free()
    engine = experiment.engine.model_copy(update={"name": "flower"})
    experiment = experiment.model_copy(update={"engine": engine})
    count, form = _settle(experiment)
    deployment.end_server_app(folder)
    folder.open(resume)
    write_atomically(folder.experiment, write_toml(experiment.tables()).encode())
    write_app(folder.app, experiment, count, folder.run_id(), form)
    job = Job(str(out.absolute()), resume, named_nodes)
    folder.write_job(job)
    return Prepared(folder, client_names(experiment, count), experiment, out, job)


def _as_started(run: RunFolder, folder: JobFolder) -> Experiment:
    """The experiment that clients were told, so that each makes the same choices again; waiting may have changed."""
    settled = load_experiment(run.config)
    told = load_experiment(folder.experiment) if folder.experiment.exists() else settled
    return told.model_copy(update={"flower": settled.flower})


def _settle(experiment: Experiment) -> tuple[int, str]:
    """How many clients there are, and the form of their data where they bring their own."""
    names = experiment.flower.clients
    if names:
        if len({check_name(name) for name in names}) < len(names):
            raise ConfigError(f"flower.clients = {names} names a client twice; legal: names that differ")
        return len(names), describe_form(experiment)
    federation = load_federation(experiment)
    build_workplace(experiment, federation)
    return len(federation.clients), ""


def local_supernode(folder: JobFolder, link: Link, name: str) -> Child:
    """A client on this machine, with its share of the experiment's data."""
    place = folder.clients / name
    path = place / "client.json"
    write_client_file(path, ClientFile(name, str(place)))
    return deployment.start_supernode(name, link, path, place / "flower", folder.logs / f"client-{name}.log")


def follow(ready: Prepared, superlink: Child, watch: Watch | None) -> dict[str, Any]:
    run, shown = RunFolder(ready.out), 0

    def tick() -> None:
        nonlocal shown
        if watch is not None and run.metrics.exists():
            with contextlib.suppress(Exception):  # a row may be half written
                rows = read_rows(run.metrics)
                for row in rows[shown:]:
                    watch(row, ready.experiment.rounds)
                shown = len(rows)

    deployment.await_end(ready.folder, ready.job, superlink, tick)
    summary: dict[str, Any] = json.loads(run.summary.read_text())
    return summary


@contextmanager
def _guarded(ready: Prepared) -> Iterator[None]:
    """A run that stopped says how to go on, and leaves no server app behind."""
    try:
        yield
    except RunError as error:
        words, way_on = str(error), RunFolder(ready.out).way_on()
        raise RunError(words if way_on in words else f"{words}; {way_on}") from None
    finally:
        deployment.end_server_app(ready.folder)


def certificates(path: Path, clients: list[str], hosts: list[str]) -> Mapping[str, str]:
    """Make them, and say what goes where."""
    folder: CertFolder = make_certs(path, clients, hosts)
    return {
        "server": f"{folder.authority}, {folder.server}, {folder.server_key}, {folder.nodes}/*.pub",
        **{name: f"{folder.authority}, {folder.private_key(name)}" for name in clients},
        "nobody": f"{folder.authority_key}",
    }


def describe(
    path: Path, label: str | None = None, client: str | None = None, drop: Sequence[str] = ()
) -> Description:
    """The form of a file; the columns of a table that name the client or are dropped are no part of it."""
    name = "images" if path.is_dir() else KINDS.get(path.suffix.lower(), "table")
    if name == "table" and label is None:
        columns = listed(list(open_table(path).columns))
        raise ConfigError(f"--label is missing; legal: the column of {path} that holds the class: {columns}")
    named = {"label": label, "client": client, "drop": list(drop) or None}
    given = {key: value for key, value in named.items() if value is not None}
    form, samples = server_data(make_experiment({"data": {"name": name, "path": str(path), **given}}))
    notes = form_notes(form, len(samples.y), lambda column: f"--drop {shlex.quote(column)}")
    return Description(in_words(form), notes)
