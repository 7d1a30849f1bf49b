"""Where a config names data, models, methods and the like, and what to say of a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from counterpoise.errors import legal_words, short


class Place(NamedTuple):
    """Where a config names one of a kind, and the command that lists them."""

    key: str
    command: str


NOWHERE = Place("", "")
PLACES = {
    "method": Place("method", "counterpoise ls methods"),
    "part": Place("method", "counterpoise ls parts"),
    "data set": Place("data.name", "counterpoise ls data"),
    "imbalance": Place("data.imbalance", "counterpoise ls imbalances"),
    "augmentation": Place("data.augment", "counterpoise ls augmentations"),
    "partition": Place("partition.name", "counterpoise ls partitions"),
    "model": Place("model.name", "counterpoise ls models"),
    "schedule": Place("local.schedule", "counterpoise ls schedules"),
}


def unknown_name(kind: str, name: object, known: Iterable[str], place: Place) -> str:
    """What was given under which key, and what is legal there."""
    key = f"{place.key}: " if place.key else ""
    return f"{key}no {kind} {short(name)}; {legal_words(str(name), known, place.command)}"
