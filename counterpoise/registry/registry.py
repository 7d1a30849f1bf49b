"""Named factories whose signature is their schema: what the config, `ls`, `show` and the docs read."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import pkgutil
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.registry.places import NOWHERE, PLACES, unknown_name
from counterpoise.registry.plugins import load_plugins

Product = TypeVar("Product")
Factory = TypeVar("Factory", bound=Callable[..., Any])
LARGEST = (2 - 2**-23) * 2.0**127  # of float32, which parameters are stepped in

LOADING = threading.RLock()  # of all registries: what one loads may ask another


@dataclass(frozen=True)
class Interval:
    """The legal range of a number; an open end excludes its bound."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and math.isfinite(value)

    def __str__(self) -> str:
        left = "(" if self.open_low or self.low == -math.inf else "["
        right = ")" if self.open_high or self.high == math.inf else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


Positive = Annotated[float, Interval(0, open_low=True)]
NonNegative = Annotated[float, Interval(0)]
Fraction = Annotated[float, Interval(0, 1)]
ProperFraction = Annotated[float, Interval(0, 1, open_high=True)]
Count = Annotated[int, Interval(1)]
Whole = Annotated[int, Interval(0)]


@dataclass(frozen=True)
class Parameter:
    """One argument of a factory as its signature states it."""

    name: str
    type: Any
    interval: Interval | None
    default: Any

    @property
    def legal(self) -> str:
        """The legal values in words, as errors and `show` print them."""
        return f"{_type_name(self.type)} in {self.interval}" if self.interval else _type_name(self.type)

    def check(self, owner: str, value: Any, largest: float = math.inf) -> Any:
        """The value, converted where that loses nothing, or a ConfigError that says what is legal."""
        fitting = _fit(value, self.type)
        if fitting is _MISFIT or (self.interval is not None and not _within(fitting, self.interval)):
            raise ConfigError(f"{owner}: {self.name} = {short(value)} is not legal; legal: {self.legal}")
        if largest < math.inf and not _within(fitting, Interval(-largest, largest)):
            raise ConfigError(
                f"{owner}: {self.name} = {short(value)} is not legal; legal: {self.legal}, at most {largest:.4g} in size"
            )
        return fitting


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

    @functools.cached_property
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
            if name not in given and parameter.default is inspect.Parameter.empty:
                raise ConfigError(f"{owner}: {name} is missing; legal: {parameter.legal}")
        return self.factory(
            **{key: self.parameters[key].check(owner, value, self.largest) for key, value in given.items()}
        )


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


def read_parameters(factory: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a factory with their types, intervals and defaults."""
    hints = get_type_hints(factory, include_extras=True)
    return {
        name: _read_parameter(name, hints.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(factory).parameters.items()
    }


def _read_parameter(name: str, hint: Any, default: Any) -> Parameter:
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return Parameter(name, base, next((m for m in marks if isinstance(m, Interval)), None), default)
    return Parameter(name, hint, None, default)


_MISFIT = object()


def _fit(value: Any, wanted: Any) -> Any:
    """The value as the wanted type, or _MISFIT; an int serves as a float, a list as a tuple, nothing else converts."""
    origin = get_origin(wanted)
    if wanted is Any:
        return value
    if origin is Annotated:
        base, *marks = get_args(wanted)
        fitting = _fit(value, base)
        interval = next((m for m in marks if isinstance(m, Interval)), None)
        return _MISFIT if fitting is _MISFIT or (interval and not _within(fitting, interval)) else fitting
    if origin is Literal:
        return value if value in get_args(wanted) else _MISFIT
    if origin in (Union, types.UnionType):
        return next(
            (v for v in (_fit(value, option) for option in get_args(wanted)) if v is not _MISFIT), _MISFIT
        )
    if origin in (tuple, list):
        return _fit_sequence(value, wanted)
    if wanted is float:
        return _fit_float(value)
    if wanted is int:
        return value if isinstance(value, int) and not isinstance(value, bool) else _MISFIT
    if wanted is None or wanted is type(None):
        return value if value is None else _MISFIT
    return value if isinstance(value, origin or wanted) else _MISFIT


def _fit_float(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _MISFIT
    except OverflowError:
        return _MISFIT


def _fit_sequence(value: Any, wanted: Any) -> Any:
    if not isinstance(value, list | tuple):
        return _MISFIT
    item = get_args(wanted)[0]
    items = [_fit(v, item) for v in value]
    return _MISFIT if any(v is _MISFIT for v in items) else (get_origin(wanted) or list)(items)


def _within(value: Any, interval: Interval) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    return all(v in interval for v in values if isinstance(v, int | float) and not isinstance(v, bool))


def _type_name(wanted: Any) -> str:
    origin = get_origin(wanted)
    if origin is Annotated:
        base, *marks = get_args(wanted)
        return " in ".join([_type_name(base), *(str(m) for m in marks if isinstance(m, Interval))])
    if origin is Literal:
        return " or ".join(repr(choice) for choice in get_args(wanted))
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(option) for option in get_args(wanted))
    if origin in (tuple, list):
        return f"list of {_type_name(get_args(wanted)[0])}"
    return {
        float: "a number",
        int: "a whole number",
        str: "a word",
        bool: "true or false",
        type(None): "none",
        Mapping: "a table",
        Callable: "a function",
    }.get(origin or wanted, str(wanted))
