"""The one validator: types and ranges, how errors and docs describe them, and conversion of values."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from counterpoise.errors import SHOWN_CHARACTERS, ConfigError, short, shorten

LARGEST = (2 - 2**-23) * 2.0**127  # largest float32, the type of parameters
SEEDS = 2**63  # a seed is below this
MOST = sys.float_info.max  # largest finite number


@dataclass(frozen=True)
class Interval:
    """The allowed range of a number; an open end excludes its bound."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and abs(value) <= MOST

    def __str__(self) -> str:
        left = "(" if self.open_low or self.low == -math.inf else "["
        right = ")" if self.open_high or self.high == math.inf else "]"
        return f"{left}{_bound(self.low)}, {_bound(self.high)}{right}"


Positive = Annotated[float, Interval(0, open_low=True)]
NonNegative = Annotated[float, Interval(0)]
Fraction = Annotated[float, Interval(0, 1)]
ProperFraction = Annotated[float, Interval(0, 1, open_high=True)]
Count = Annotated[int, Interval(1)]
Whole = Annotated[int, Interval(0)]
Seed = Annotated[int, Interval(0, SEEDS, open_high=True)]
# A share of all rounds, or a number of rounds
Moment = Annotated[float, Interval(0, 1, open_low=True, open_high=True)] | Count
Named = str | Mapping[str, Mapping[str, Any]]  # a name, or { name = { argument = value } }

Self = TypeVar("Self", bound="Table")


class Table:
    """A type that a config writes as a table; see `settings.Settings`."""

    @classmethod
    def read(cls: type[Self], given: Any, key: str = "") -> Self:
        raise NotImplementedError

    @classmethod
    def parameters(cls) -> Mapping[str, Any]:
        raise NotImplementedError


class MisfitError(ConfigError):
    """A value that does not fit, with the key it was given under."""

    def __init__(self, key: str, problem: str, before: str = "") -> None:
        super().__init__(f"{before}{shorten(key, SHOWN_CHARACTERS)}{problem}")
        self.key = key


def refused(key: str, legal: str, value: Any) -> MisfitError:
    return MisfitError(key, f" must be {legal}, not {short(value)}")


def fit(value: Any, wanted: Any, key: str) -> Any:
    """The value converted to the wanted type, or a ConfigError that names the key, or the inner key that is wrong.

    An int converts to a float, a list to a tuple, a table to settings; nothing else converts.
    """
    value = value.item() if isinstance(value, np.generic) else value  # a NumPy scalar
    fitting = _fit(value, wanted, key)
    if fitting is _MISFIT:
        raise refused(key, table_words(wanted, key) if is_table(wanted) else words(wanted), value)
    return fitting


_MISFIT = object()


def _fit(value: Any, wanted: Any, key: str) -> Any:
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return value
    if origin is Annotated:
        fitting, interval = _fit(value, inner[0], key), interval_of(wanted)
        return fitting if interval is None or within(fitting, interval) else _MISFIT
    if origin is Literal:
        return value if any(type(value) is type(one) and value == one for one in inner) else _MISFIT
    if origin in (Union, types.UnionType):
        return _fit_any(value, inner, key)
    if origin in (tuple, list):
        return _fit_items(value, origin, inner[0], key)
    if _is_mapping(origin):
        return _fit_mapping(value, inner[1], key)
    if is_table(wanted):
        return wanted.read(value, key) if isinstance(value, wanted | Mapping) else _MISFIT
    return _fit_plain(value, origin or wanted)


def _fit_plain(value: Any, wanted: Any) -> Any:
    if wanted is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if number and abs(value) <= MOST else _MISFIT
    if wanted is int:
        return value if isinstance(value, int) and not isinstance(value, bool) else _MISFIT
    return value if isinstance(value, wanted) else _MISFIT


def _fit_any(value: Any, options: Iterable[Any], key: str) -> Any:
    """As the first type that fits; where none does, the error with the deepest key is raised."""
    inside: list[MisfitError] = []
    for option in options:
        try:
            if (fitting := _fit(value, option, key)) is not _MISFIT:
                return fitting
        except MisfitError as error:
            inside.append(error)
    if inside:
        raise max(inside, key=lambda error: len(error.key))
    return _MISFIT


def _fit_items(value: Any, kind: Callable[[Any], Any], item: Any, key: str) -> Any:
    if not isinstance(value, list | tuple):
        return _MISFIT
    return kind([fit(one, item, f"{key}.{place}") for place, one in enumerate(value)])


def _fit_mapping(value: Any, item: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        return _MISFIT
    return {str(name): fit(one, item, f"{key}.{name}") for name, one in value.items()}


def within(value: Any, interval: Interval) -> bool:
    """Whether a number, or every number of a list, lies inside; other values pass."""
    values = value if isinstance(value, list | tuple) else [value]
    return all(
        one in interval for one in values if isinstance(one, int | float) and not isinstance(one, bool)
    )


def interval_of(hint: Any) -> Interval | None:
    return next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Interval)), None)


def is_table(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, Table)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def words(wanted: Any) -> str:
    """The allowed values of a type in words, as errors, `show` and the docs print them."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        kind, interval = words(inner[0]), interval_of(wanted)
        if interval is not None and interval.low == interval.high:
            return _bound(interval.low)
        return kind if interval is None else f"{kind} in {interval}"
    if origin is Literal:
        return " or ".join(repr(choice) for choice in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(map(words, inner))
    if origin in (tuple, list):
        return f"list of {words(inner[0])}"
    if is_table(wanted):
        return f"{{ {', '.join(wanted.parameters())} }}"
    if _is_mapping(origin) and _is_mapping(get_origin(inner[1])):
        return "{ name = { argument = value } }"
    return "a table" if _is_mapping(origin or wanted) else WORDS.get(origin or wanted, str(wanted))


WORDS: dict[Any, str] = {
    Any: "any value", float: "a number", int: "a whole number", str: "a word", bool: "true or false",
    type(None): "none", Callable: "a function", Path: "a path",
}  # fmt: skip


def table_words(table: type[Table], key: str) -> str:
    return f"a table ({', '.join(f'{key}.{name}' for name in table.parameters())})"


def _bound(value: float) -> str:
    return "2^63" if value == SEEDS else str(value) if isinstance(value, int) else f"{value:g}"
