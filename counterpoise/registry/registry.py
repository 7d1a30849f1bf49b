"""Named factories whose signature is their schema: what the config, `ls`, `show` and the docs read."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import math
import pkgutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar

from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.registry.plugins import load_plugins
from counterpoise.registry.settings import Parameter, read_parameters

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Product = TypeVar("Product")
Piece = TypeVar("Piece", bound="DataclassInstance")  # a product that has a name
Arguments = ParamSpec("Arguments")
Factory = TypeVar("Factory", bound=Callable[..., Any])
LOADING = threading.RLock()  # shared by all registries: a module that one loads may use another


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
    "probe": Place("evaluate.probes", "counterpoise ls probes"),
}


def unknown_name(kind: str, name: object, known: Iterable[str], place: Place) -> str:
    """The error for a name that is not registered: the key, the name, and the nearest or all known ones."""
    key = f"{place.key}: " if place.key else ""
    return f"{key}no {kind} {short(name)}; {legal_words(str(name), known, place.command)}"


@dataclass(frozen=True)
class Entry(Generic[Product]):
    """A registered factory, with its paper and facts for the docs."""

    name: str
    factory: Callable[..., Product]
    paper: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    largest: float = math.inf  # bound on the absolute value of numeric arguments
    kind: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)  # old name of an argument -> its name now

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
        given, owner = self.current_names(arguments or {}), owner or self.title
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

    def current_names(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under their names of today; an old name still works for one release, with a warning."""
        given = dict(arguments)
        for old, new in self.renamed.items():
            if old in given and new in given:
                raise ConfigError(f"{self.title}: `{old}` is the old name of `{new}`; give only `{new}`")
            if old in given:
                _warn_renamed(self.title, old, new)
                given[new] = given.pop(old)
        return given

    @property
    def title(self) -> str:
        """What errors call it, such as "method fedavg"."""
        return f"{self.kind} {self.name}".strip()


@functools.cache  # once per process: a config is built several times
def _warn_renamed(owner: str, old: str, new: str) -> None:
    logging.getLogger("counterpoise").warning(
        "%s: `%s` is called `%s` now; the old name goes in the next release", owner, old, new
    )


class Registry(Generic[Product]):
    """Factories of one kind by name; every module of `packages` registers its own when it is imported, plugins come after."""

    def __init__(self, kind: str, packages: Sequence[str] = (), largest: float = math.inf) -> None:
        self.kind = kind
        self.place = PLACES.get(kind, NOWHERE)
        self._packages, self._largest = packages, largest
        self._loading = self._loaded = False
        self._entries: dict[str, Entry[Product]] = {}

    def register(
        self, name: str, paper: str = "", renamed: Mapping[str, str] | None = None, **facts: Any
    ) -> Callable[[Factory], Factory]:
        """Decorator: put a factory under a name, with its paper, old names of its arguments, and further facts."""
        check_called(self.kind, name)

        def decorate(factory: Factory) -> Factory:
            known = self._entries.get(name)
            if known is not None and known.factory.__module__ != factory.__module__:
                raise ConfigError(
                    f"{self.kind} {name!r} is registered already, by {known.factory.__module__}"
                )
            self._entries[name] = Entry(name, factory, paper, facts, self._largest, self.kind, renamed or {})
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
        return self.entry(name).build(arguments)

    def _ensure_loaded(self) -> None:
        """Import all modules once; other threads wait, and a module may look up entries while it loads."""
        if self._loaded:
            return
        with LOADING:
            if self._loading or self._loaded:
                return
            self._loading = True
            try:
                for package in self._packages:
                    import_modules(package)
                load_plugins()
                self._loaded = True
            finally:
                # After an error whoever asks next gets it too, and not those entries that came before it.
                self._loading = False


def check_called(kind: str, name: object) -> None:
    """Refuse a decorator without parentheses, whose first argument is the factory: it would register nothing."""
    if callable(name):
        given = getattr(name, "__name__", short(name))
        raise ConfigError(f"the decorator of {kind} {given} needs parentheses, such as ({given!r})")


def naming(
    registry: Registry[Piece], name: str = "", **facts: Any
) -> Callable[[Callable[Arguments, Piece]], Callable[Arguments, Piece]]:
    """Decorator: register a factory, by default under its own name, which what it makes then has."""
    check_called(registry.kind, name)

    def decorate(factory: Callable[Arguments, Piece]) -> Callable[Arguments, Piece]:
        called = name or factory.__name__

        @functools.wraps(factory)
        def named(*given: Arguments.args, **arguments: Arguments.kwargs) -> Piece:
            made = factory(*given, **arguments)
            return replace(made, name=called) if is_dataclass(made) else made

        return registry.register(called, **facts)(named)

    return decorate


def import_modules(package: str) -> None:
    """Import a module, or a package with all its modules."""
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(getattr(found, "__path__", ())):
        importlib.import_module(f"{package}.{module.name}")
