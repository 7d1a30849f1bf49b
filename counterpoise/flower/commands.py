"""The commands: a whole local deployment, a simulation, a server."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.client.probing import names_given
from counterpoise.data.own import kind_of
from counterpoise.data.tables.table import open_table
from counterpoise.errors import ConfigError, listed, short
from counterpoise.flower import adapter, children
from counterpoise.flower.certs import CertFolder, make_certs
from counterpoise.flower.children import Child
from counterpoise.flower.data_form import to_config
from counterpoise.flower.deployment import Endpoint
from counterpoise.flower.front import listening
from counterpoise.flower.grid import HubGrid
from counterpoise.flower.hub import Hub
from counterpoise.flower.job import JobFolder, check_name, job_settings
from counterpoise.flower.own_data import describe_form, foreseen_federation, refuse_unused_keys, server_data
from counterpoise.flower.serve import LOG, Prepared, Say, run
from counterpoise.flower.workplaces import build_workplace
from counterpoise.metrics.probe import build_probes
from counterpoise.models.foreign import is_foreign
from counterpoise.run.assemble import assemble, load_federation
from counterpoise.run.config.experiment import Experiment, load_experiment, make_experiment
from counterpoise.run.listener import Listener
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.run import resumable
from counterpoise.system.atomic import write_atomically
from counterpoise.system.toml import write_toml


class Description(NamedTuple):
    """The form of a file as config values, and warnings about its columns."""

    data: Mapping[str, Any]
    notes: tuple[str, ...]


def up(
    experiment: Experiment | None, out: Path, listeners: Sequence[Listener] = (), say: Say = LOG.info
) -> dict[str, Any]:
    """A server and a process per client, all on this machine with TLS, stopped at the end.

    Without an experiment, the run in the folder is resumed.
    """
    ready = prepare(experiment, out, named_nodes=True, local=True)
    certs = make_certs(ready.folder.path / "certs", ready.names)
    with _served(ready, Endpoint("127.0.0.1", 0, certs)) as (grid, endpoint):
        clients = [local_client(ready, endpoint, name) for name in ready.names]
        with children.kept_alive(clients):
            return run(grid, ready, listeners, say)


def serve(
    experiment: Experiment | None,
    out: Path,
    endpoint: Endpoint,
    listeners: Sequence[Listener] = (),
    say: Say = LOG.info,
) -> dict[str, Any]:
    """A run with a port to which clients on other machines connect."""
    ready = prepare(experiment, out, named_nodes=endpoint.certs is not None)
    with _served(ready, endpoint) as (grid, _):
        return run(grid, ready, listeners, say)


def simulate(
    experiment: Experiment | None, out: Path, listeners: Sequence[Listener] = (), say: Say = LOG.info
) -> dict[str, Any]:
    """The run in Flower's simulation, with clients as Ray tasks on this machine."""
    from counterpoise.flower.simulated import simulation

    ready = prepare(experiment, out, named_nodes=False, local=True)
    root, weights = ready.experiment.data.root, ready.experiment.model.weights
    nodes = simulation(ready.settings, ready.folder.path, len(ready.names), root, weights)
    with resumable(RunFolder(ready.out)), _logged(ready.folder), nodes as grid:
        return run(grid, ready, listeners, say)


@contextmanager
def _served(ready: Prepared, endpoint: Endpoint) -> Iterator[tuple[HubGrid, Endpoint]]:
    """The port of a run, open to its own clients only."""
    hub = Hub()
    if endpoint.certs is not None:
        hub.names = {_register(hub, endpoint.certs, name): name for name in ready.names}
    with resumable(RunFolder(ready.out)), _logged(ready.folder), listening(hub, endpoint) as there:
        yield HubGrid(hub, adapter.open_run(hub.link, ready.settings)), there


def _register(hub: Hub, certs: CertFolder, name: str) -> int:
    path = certs.public_key(name)
    if not path.is_file():
        raise ConfigError(f"{path} is missing; make it by `counterpoise flower certs` with client {name}")
    try:
        return adapter.register(hub.link, path, name)
    except ValueError:
        raise ConfigError(f"{path} is damaged, or is also the key of another client") from None


def _refuse_without_federation(experiment: Experiment) -> None:
    """There is nothing to send where clients train alone, and no client to ask where all samples are in one place."""
    method = experiment.build_method()
    if method.pools is not None:
        raise ConfigError(
            f"method {method.name} needs the samples of all clients in one place, which none sends over a network; use `counterpoise run`"
        )
    if method.alone is not None:
        raise ConfigError(
            f"method {method.name} trains each client alone and sends nothing over a network; use `counterpoise run`"
        )


def prepare(experiment: Experiment | None, out: Path, named_nodes: bool, local: bool = False) -> Prepared:
    """Check everything that can be checked before clients come, then write their settings.

    `local`: the command starts the clients, which have shares of the experiment's data and no files of their own.
    """
    place, folder = RunFolder(out), JobFolder(out)
    resume = experiment is None
    if experiment is None:
        if not place.holds_run():
            raise ConfigError(f"{out} holds no run: there is no config.toml in it")
        experiment = _as_started(place, folder)
    else:
        place.check_free()
    if local and experiment.flower.clients:
        raise ConfigError(
            "flower.clients must be left out where the clients are started by this command: they would have no data of their own; use `counterpoise flower server` and `flower client --data`"
        )
    experiment = check_before_clients(experiment)
    count, form = _count_clients(experiment)
    _refuse_too_many_replies(experiment, count)
    folder.open(resume)
    write_atomically(folder.experiment, write_toml(experiment.tables()).encode())
    settings = job_settings(experiment, out.name, count, folder.run_id(), form)
    return Prepared(experiment, out, settings, resume, named_nodes)


def _refuse_too_many_replies(experiment: Experiment, clients: int) -> None:
    asked = min(experiment.cohort.size or clients, clients)
    if experiment.flower.min_replies > asked:
        raise ConfigError(
            f"flower.min_replies must be at most {asked}, the clients of a round, not {experiment.flower.min_replies}: every round would be skipped"
        )


def check_before_clients(experiment: Experiment) -> Experiment:
    """Refuse what a server could not run, whoever connects; the experiment as a server runs it."""
    if is_foreign(experiment.model.name):
        raise ConfigError(
            f"model.name = {short(experiment.model.name)} names code, which clients do not run for a server; use a model of `counterpoise ls models`, or a plugin that each of them installs"
        )
    _refuse_without_federation(experiment)
    if names := experiment.flower.clients:
        if len({check_name(name) for name in names}) < len(names):
            raise ConfigError(f"flower.clients must be names that differ, not {short(names)}")
        refuse_unused_keys(experiment)
    return replace(experiment, engine=replace(experiment.engine, name="flower"))


def prepared_simulation(experiment: Experiment) -> Simulation:
    """What a server can check of clients that bring their own data before they connect."""
    experiment = check_before_clients(experiment)
    alone = replace(experiment, engine=replace(experiment.engine, name="loop", processes=1))
    return assemble(alone, foreseen_federation(experiment))


def _as_started(place: RunFolder, folder: JobFolder) -> Experiment:
    """The experiment as clients received it, so that they repeat the same choices; [flower] may have changed."""
    settled = load_experiment(place.config)
    started = load_experiment(folder.experiment) if folder.experiment.exists() else settled
    return replace(started, flower=settled.flower)


def _count_clients(experiment: Experiment) -> tuple[int, str]:
    """The number of clients, and the form of their data where they have their own."""
    if names := experiment.flower.clients:
        prepared_simulation(experiment)
        return len(names), describe_form(experiment)
    federation = load_federation(experiment)
    work = build_workplace(experiment, federation)
    names_given(work.model, work.federation, build_probes(experiment.evaluate.probes or ()))
    return len(federation.clients), ""


def local_client(ready: Prepared, endpoint: Endpoint, name: str) -> Child:
    """A client on this machine, with its share of the experiment's data."""
    folder, root = ready.folder, ready.experiment.data.root
    words = ["flower", "client", "--client", name, "--server", endpoint.address]
    words += ["--state", str(folder.clients / name)]
    if (weights := ready.experiment.model.weights) is not None:
        words += ["--weights", str(Path(weights).absolute())]
    words += ["--insecure"] if endpoint.certs is None else ["--certs", str(endpoint.certs.path)]
    log, env = folder.logs / f"client-{name}.log", {} if root is None else {"COUNTERPOISE_DATA": root}
    return children.start(f"client {name}", [*children.program(), *words], log, env)


@contextmanager
def _logged(folder: JobFolder) -> Iterator[None]:
    """Write the logs of Flower and the port into a file."""
    sink = logging.FileHandler(folder.logs / "server.log")
    sink.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    loggers = [logging.getLogger(name) for name in ("flwr", "uvicorn", "uvicorn.error")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [sink], False
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        sink.close()


def certificates(path: Path, clients: list[str], hosts: list[str]) -> Mapping[str, str]:
    """Make certificates, and list which file goes where."""
    folder: CertFolder = make_certs(path, clients, hosts)
    return {
        "server": f"{folder.authority}, {folder.server}, {folder.server_key}, {folder.nodes}/*.pub",
        **{
            name: ", ".join(map(str, (folder.authority, folder.private_key(name), folder.certificate(name))))
            for name in clients
        },
        "nobody": f"{folder.authority_key}",
    }


def describe(
    path: Path, label: str | None = None, client: str | None = None, drop: Sequence[str] = ()
) -> Description:
    """The form of a file or folder; without the table columns that name the client or are dropped."""
    name = kind_of(path)
    if name == "table" and label is None:
        columns = listed(list(open_table(path).columns))
        raise ConfigError(f"--label is missing; needs the column of {path} that holds the class: {columns}")
    named = {"label": label, "client": client, "drop": list(drop) or None}
    given = {key: value for key, value in named.items() if value is not None}
    experiment = make_experiment({"data": {"name": name, "path": str(path), **given}})
    found = server_data(experiment, lambda column: f"--drop {shlex.quote(column)}")
    return Description(to_config(found.form), found.warnings)
