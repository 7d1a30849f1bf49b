"""Named factories whose signature is their schema: what the config, `ls`, `show` and the docs read."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.registry.places import NOWHERE, PLACES, unknown_name
from counterpoise.registry.plugins import load_plugins
from counterpoise.registry.settings import Parameter, read_parameters

Product = TypeVar("Product")
Factory = TypeVar("Factory", bound=Callable[..., Any])
LOADING = threading.RLock()  # of all registries: what one loads may ask another


@dataclass(frozen=True)
class Entry(Generic[Product]):
    """A registered factory with what the docs say of it."""

    name: str
    factory: Callable[..., Product]
    paper: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    largest: float = math.inf  # size of a number among the arguments

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.factory) or ""

    @property
    def summary(self) -> str:
        return self.doc.split("\n", 1)[0]

    @property
    def parameters(self) -> dict[str, Parameter]:
        return read_parameters(self.factory)

    def build(self, arguments: Mapping[str, Any] | None = None, owner: str | None = None) -> Product:
        """Call the factory after checking every argument against its signature."""
        given = dict(arguments or {})
        owner = owner or self.name
        for key in given:
            if key not in self.parameters:
                raise ConfigError(
                    f"{owner}: no argument {short(key)}; {legal_words(key, self.parameters) if self.parameters else 'it takes none'}"
                )
        for name, parameter in self.parameters.items():
            parameter.check_given(f"{owner}: {name}", given)
        checked = {
            key: self.parameters[key].check(f"{owner}: {key}", value, self.largest)
            for key, value in given.items()
        }
        return self.factory(**checked)


class Registry(Generic[Product]):
    """Factories of one kind by name; every module of `packages` registers its own when it is imported, plugins come after."""

    def __init__(self, kind: str, packages: Sequence[str] = (), largest: float = math.inf) -> None:
        self.kind = kind
        self.place = PLACES.get(kind, NOWHERE)
        self._packages, self._largest = packages, largest
        self._loading = self._loaded = False
        self._entries: dict[str, Entry[Product]] = {}

    def register(self, name: str, paper: str = "", **facts: Any) -> Callable[[Factory], Factory]:
        """Decorator: put a factory under a name, with its paper and further facts."""

        def decorate(factory: Factory) -> Factory:
            known = self._entries.get(name)
            if known is not None and known.factory.__module__ != factory.__module__:
                raise ConfigError(
                    f"{self.kind} {name!r} is registered already, by {known.factory.__module__}"
                )
            self._entries[name] = Entry(name, factory, paper, facts, self._largest)
            return factory

        return decorate

    def names(self) -> list[str]:
        self._ensure_loaded()
        return sorted(self._entries)

    def __contains__(self, name: str) -> bool:
        self._ensure_loaded()
        return name in self._entries

    def entry(self, name: str) -> Entry[Product]:
        self._ensure_loaded()
        if not isinstance(name, str) or name not in self._entries:
            raise ConfigError(unknown_name(self.kind, name, self._entries, self.place))
        return self._entries[name]

    def build(self, name: str, arguments: Mapping[str, Any] | None = None) -> Product:
        return self.entry(name).build(arguments, owner=f"{self.kind} {name}")

    def _ensure_loaded(self) -> None:
        """Once; other threads wait until it is done, and what is loaded may ask for entries meanwhile."""
        if self._loaded:
            return
        with LOADING:
            if not self._loading:
                self._loading = True
                for package in self._packages:
                    import_modules(package)
                load_plugins()
                self._loaded = True


def import_modules(package: str) -> None:
    """Import a package or a module, and all that a package holds."""
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(getattr(found, "__path__", ())):
        importlib.import_module(f"{package}.{module.name}")
