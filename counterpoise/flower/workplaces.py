"""The workplace of a client: its share of the experiment's data, or its own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from counterpoise.data.federation import Federation
from counterpoise.engines.workplace import Workplace
from counterpoise.flower.client import ClientContext
from counterpoise.flower.identity import identity_of
from counterpoise.flower.job import ClientFile
from counterpoise.flower.own_data import own_federation
from counterpoise.flower.refusal import Refused
from counterpoise.models.foreign import is_foreign
from counterpoise.run.assemble import assemble, load_federation
from counterpoise.run.config.experiment import Experiment, parse_experiment
from counterpoise.run.config.tables import EvaluateTable, ShotsTable
from counterpoise.run.learned import own_questions


def open_context(
    settings: Mapping[str, Any], client: ClientFile, shared: Federation | None = None
) -> ClientContext:
    """The context of a client in a run, with its data loaded; `shared`: the experiment's data, where it is loaded already."""
    experiment = _with_own_weights(parse_experiment(str(settings["experiment"])), client)
    if is_foreign(experiment.model.name):  # a server must not choose what this machine imports and calls
        raise Refused("model")
    names = client_names(experiment, int(settings["clients"]))
    if client.name not in names:
        raise Refused("client")
    if client.private and experiment.privacy.histogram == "plain":
        raise Refused("private")
    number = names.index(client.name)
    federation = _federation(experiment, str(settings["form"]), number, client, shared)
    work, own = build_workplace(experiment, federation), bool(experiment.flower.clients)
    run, identity = str(settings["run"]), identity_of(client.certs, client.name)
    precision = experiment.engine.precision
    return ClientContext(client.name, number, work, Path(client.state), own, run, identity, precision)


def _with_own_weights(experiment: Experiment, client: ClientFile) -> Experiment:
    """The experiment with this machine's copy of the weights, where some of them are frozen and so never sent."""
    if experiment.model.weights is None:
        return experiment
    if client.weights is None:
        raise Refused("weights")
    return replace(experiment, model=replace(experiment.model, weights=client.weights))


def _federation(
    experiment: Experiment, form: str, number: int, client: ClientFile, shared: Federation | None
) -> Federation:
    if not experiment.flower.clients:
        return shared or load_federation(experiment)
    if client.data is None:
        raise Refused("data")
    return own_federation(client.data, client.reading, form, number, len(experiment.flower.clients))


def client_names(experiment: Experiment, clients: int) -> list[str]:
    """Client names by index: those in the config, or the indices themselves."""
    return list(experiment.flower.clients) or [str(number) for number in range(clients)]


def build_workplace(experiment: Experiment, federation: Federation) -> Workplace:
    """The workplace of an experiment on a federation, with the loop engine, and what the run itself asks of clients."""
    engine, everything = replace(experiment.engine, name="loop", processes=1), range(len(federation.classes))
    # Nothing is scored here, so any groups will do, and what is not known of the clients is not needed.
    groups, untested = ShotsTable(head=list(everything), medium=[], tail=[]), not len(federation.test.y)
    plain = replace(experiment, engine=engine, evaluate=EvaluateTable(shots=groups, clients=untested))
    return with_questions(assemble(plain, federation).work, experiment)


def with_questions(work: Workplace, experiment: Experiment) -> Workplace:
    """The same work, with what the run itself asks of clients before round 0 as further parts; both sides need them."""
    asked = replace(work.method, parts=(*work.method.parts, *own_questions(experiment)))
    return replace(work, method=asked)
