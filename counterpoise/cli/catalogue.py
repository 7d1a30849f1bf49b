"""All registries in one place, for `ls`, `show` and the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from counterpoise.core.local import SCHEDULES
from counterpoise.core.method import METHODS, PARTS, Method
from counterpoise.data.augment import AUGMENTATIONS
from counterpoise.data.dataset import DATASETS
from counterpoise.data.imbalances import IMBALANCES
from counterpoise.data.partition import PARTITIONS
from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.metrics.probe import PROBES
from counterpoise.models.model import MODELS
from counterpoise.registry.registry import Entry, Registry

CATALOGUE: dict[str, Registry[Any]] = {
    "methods": METHODS,
    "parts": PARTS,
    "data": DATASETS,
    "imbalances": IMBALANCES,
    "partitions": PARTITIONS,
    "models": MODELS,
    "schedules": SCHEDULES,
    "augmentations": AUGMENTATIONS,
    "probes": PROBES,
}


def list_entries(kind: str) -> list[Entry[Any]]:
    """All entries of one kind, sorted by name."""
    return [CATALOGUE[kind].entry(name) for name in CATALOGUE[kind].names()]


def find(name: str) -> list[tuple[str, Entry[Any]]]:
    """Every entry of a name with its kind: a method and a part may share one."""
    found = [(kind, registry.entry(name)) for kind, registry in CATALOGUE.items() if name in registry]
    if not found:
        known = legal_words(name, all_names(), "counterpoise ls")
        raise ConfigError(f"nothing is called {short(name)}; {known}")
    return found


def all_names() -> Iterator[str]:
    for registry in CATALOGUE.values():
        yield from registry.names()


def describe_parts(method: Method) -> list[tuple[str, str]]:
    """The parts of a method, each with the hooks it fills."""
    return [(part.name, ", ".join(part.hooks())) for part in method.parts]
