"""Parameters read from a signature, and settings classes that check their values when they are made."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.registry.schema import (
    Interval,
    MisfitError,
    Table,
    fit,
    interval_of,
    refused,
    table_words,
    within,
    words,
)

REQUIRED = inspect.Parameter.empty  # default of what must be given
Form = TypeVar("Form", bound="Settings")


@dataclass(frozen=True)
class Parameter:
    """One argument of a factory, or one key of a table."""

    name: str
    hint: Any  # its type, with an interval where it has one
    default: Any
    description: str = ""

    @property
    def type(self) -> Any:
        return get_args(self.hint)[0] if get_origin(self.hint) is Annotated else self.hint

    @property
    def interval(self) -> Interval | None:
        return interval_of(self.hint)

    @property
    def legal(self) -> str:
        return words(self.hint)

    def check(self, key: str, value: Any, largest: float = math.inf) -> Any:
        """The value, converted where that loses nothing, or a ConfigError that names the key and what it must be."""
        fitting = fit(value, self.hint, key)
        if largest < math.inf and not within(fitting, Interval(-largest, largest)):
            raise refused(key, f"{self.legal}, at most {largest:.4g} in size", value)
        return fitting

    def check_given(self, key: str, given: Mapping[str, Any]) -> None:
        if self.name not in given and self.default is REQUIRED:
            raise MisfitError(key, f" is missing: it must be {self.legal}")


@functools.cache
def read_parameters(taker: Callable[..., Any]) -> dict[str, Parameter]:
    """Parameters of a function or a class by name, without ``**kwargs``."""
    hints = get_type_hints(taker, include_extras=True)
    fields = dataclasses.fields(taker) if dataclasses.is_dataclass(taker) else ()
    made = {one.name: one.default_factory() for one in fields if callable(one.default_factory)}
    return {
        name: Parameter(
            name, hints.get(name, Any), made.get(name, one.default), _description(hints.get(name))
        )
        for name, one in inspect.signature(taker).parameters.items()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    }


def _description(hint: Any) -> str:
    return next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, str)), "")


def check_arguments(owner: str, taker: Callable[..., Any], **given: Any) -> list[Any]:
    """These arguments of a function in their order, converted where that loses nothing."""
    known = read_parameters(taker)
    return [known[name].check(f"{owner}: {name}", value) for name, value in given.items()]


@dataclass(frozen=True)
class Settings(Table):
    """Keys with values, checked when they are made: Python, a dict and TOML get the same errors."""

    _table: ClassVar[str] = ""  # its table in a config
    _given: ClassVar[tuple[str, ...] | None] = None  # keys of the table that it was read from

    def __init_subclass__(cls, table: str = "") -> None:
        super().__init_subclass__()
        cls._table = table

    def __post_init__(self) -> None:
        for name, parameter in _taken(type(self)).items():
            value = parameter.check(_join(self._table, name), getattr(self, name))
            object.__setattr__(self, name, value)

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Keys that a table may have."""
        known = _taken(cls)
        return {name: one for name, one in known.items() if not (cls.is_open() and name == ARGUMENTS)}

    @classmethod
    def is_open(cls) -> bool:
        """Whether further keys are arguments of what the table names."""
        return issubclass(cls, OpenTable)

    @classmethod
    def read(cls: type[Form], given: Any, key: str | None = None) -> Form:
        """From a table of a file or a dict; settings are returned as they are."""
        if isinstance(given, cls):
            return given
        known, key = cls.parameters(), cls._table if key is None else key
        if not isinstance(given, Mapping):
            raise refused(key, table_words(cls, key), given)
        further = {str(name): value for name, value in given.items() if name not in known}
        for name in () if cls.is_open() else further:
            raise MisfitError(_join(key, name), f"; {legal_words(name, known)}", "no key ")
        for name, one in known.items():
            one.check_given(_join(key, name), given)
        values = {name: known[name].check(_join(key, name), given[name]) for name in given if name in known}
        made = cls(**values, **({ARGUMENTS: further} if cls.is_open() else {}))
        object.__setattr__(made, "_given", tuple(map(str, given)))
        return made

    def tables(self) -> dict[str, Any]:
        """All keys with plain values, as a file has them."""
        return {name: plain(getattr(self, name)) for name in self.parameters()}

    def given(self) -> dict[str, Any]:
        """The keys that were written: those of the table it was read from, else all that differ from their default."""
        known, whole = self.parameters(), self.tables()
        changed = [name for name in whole if name not in known or whole[name] != plain(known[name].default)]
        inner = {name: getattr(self, name) for name in known if isinstance(getattr(self, name), Settings)}
        keys = changed if self._given is None else self._given
        return {name: inner[name].given() if name in inner else whole[name] for name in keys}


ARGUMENTS = "arguments"


@dataclass(frozen=True)
class OpenTable(Settings):
    """A table that names something; its further keys are arguments of that."""

    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def tables(self) -> dict[str, Any]:
        return super().tables() | {name: plain(value) for name, value in self.arguments.items()}


def settings_of(form: type[Form], given: Any, word: str = "") -> Form:
    """Settings as they are, or of a dict of their keys, or of the key `word` alone; None: all defaults."""
    if given is None or isinstance(given, form):
        return form() if given is None else given
    return form.read({word: given} if word and not isinstance(given, Mapping) else given)


def refuse_unknown(
    owner: str, given: Iterable[str], known: Iterable[str], nested: Mapping[str, type[Settings]]
) -> None:
    """Refuse unknown arguments; one that belongs to nested settings, such as `lr` to `local`, is pointed there."""
    names = {*known}
    for key in given:
        if key not in names:
            home = next((name for name, form in nested.items() if key in form.parameters()), None)
            hint = f"use {home}={{{short(key)}: ...}}" if home else legal_words(key, names)
            raise ConfigError(f"{owner}: no argument {short(key)}; {hint}")


def plain(value: Any) -> Any:
    """Settings and what they hold as tables, lists, words and numbers."""
    if isinstance(value, Settings):
        return value.tables()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _taken(form: Any) -> dict[str, Parameter]:
    return read_parameters(form)


def _join(table: str, name: str) -> str:
    return f"{table}.{name}" if table else name
