"""Clients with data of their own: the form that the server describes, and federations of which each side sees its part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.data.federation import Federation
from counterpoise.engines.flower.messages import Hello
from counterpoise.experiment.config import Experiment


def own_federation(data: str, reading: Mapping[str, Any], form: str, number: int, clients: int) -> Federation:
    raise NotImplementedError


def surveyed_federation(experiment: Experiment, form: str, hellos: Sequence[Hello]) -> Federation:
    raise NotImplementedError


def describe_form(experiment: Experiment) -> str:
    raise NotImplementedError
