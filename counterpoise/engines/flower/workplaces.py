"""What a client works on: its share of the experiment's data, or its own files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from counterpoise.data.federation import Federation
from counterpoise.engines.flower.client import Seat
from counterpoise.engines.flower.job import ClientFile, read_client_file
from counterpoise.engines.flower.own_data import own_federation
from counterpoise.engines.flower.refusal import Refused
from counterpoise.engines.workplace import Workplace
from counterpoise.experiment.assemble import assemble, load_federation
from counterpoise.experiment.config import Experiment, parse_experiment
from counterpoise.experiment.tables import EvaluateTable


def take_seat(run_config: Mapping[str, Any], node_config: Mapping[str, Any]) -> Seat:
    """The client of this node, at work on this run."""
    client = read_client_file(node_config)
    experiment = parse_experiment(str(run_config["experiment"]))
    names = client_names(experiment, int(run_config["clients"]))
    if client.name not in names:
        raise Refused("client")
    number = names.index(client.name)
    text, form = str(run_config["experiment"]), str(run_config["form"])
    return Seat(client.name, number, _workplace(text, form, number, _key(client)), Path(client.state))


def client_names(experiment: Experiment, clients: int) -> list[str]:
    """Names in the order of their numbers: those listed, or the numbers themselves."""
    return list(experiment.flower.clients) or [str(number) for number in range(clients)]


def _key(client: ClientFile) -> tuple[str, tuple[tuple[str, Any], ...]] | None:
    return None if client.data is None else (client.data, tuple(sorted(client.reading.items())))


@lru_cache(maxsize=4)
def _workplace(
    text: str, form: str, number: int, data: tuple[str, tuple[tuple[str, Any], ...]] | None
) -> Workplace:
    """Built once a process: a simulation asks the same process again and again."""
    experiment = parse_experiment(text)
    if not experiment.flower.clients:
        return build_workplace(experiment, _shared_federation(text))
    if data is None:
        raise Refused("data")
    count = len(experiment.flower.clients)
    return build_workplace(experiment, own_federation(data[0], dict(data[1]), form, number, count))


@lru_cache(maxsize=1)
def _shared_federation(text: str) -> Federation:
    return load_federation(parse_experiment(text))


def build_workplace(experiment: Experiment, federation: Federation) -> Workplace:
    """The experiment at work on a federation, client by client."""
    engine = experiment.engine.model_copy(update={"name": "loop", "processes": 1})
    plain = experiment.model_copy(update={"engine": engine, "evaluate": EvaluateTable()})
    return assemble(plain, federation).work
