"""Dotted keys, grids and labels: how a sweep sets values of experiments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from counterpoise.core.method import MethodSpec, read_spec
from counterpoise.errors import SHOWN_CHARACTERS, ConfigError, short, shorten

Tables: TypeAlias = dict[str, Any]
Grid: TypeAlias = dict[str, list[Any]]  # dotted key -> values


def flat_grid(grid: Any, prefix: str = "") -> Any:
    """A grid with dotted keys, whether they were written ``"local.lr" = [...]`` or ``local.lr = [...]``."""
    if not isinstance(grid, Mapping):
        return grid
    flat: Grid = {}
    for key, values in grid.items():
        if isinstance(values, Mapping):
            flat |= flat_grid(values, f"{prefix}{key}.")
        elif isinstance(values, list) and values and not _has_duplicates(values):
            flat[f"{prefix}{key}"] = values
        else:
            raise ConfigError(
                f"{shorten(prefix + key, SHOWN_CHARACTERS)} must be a list of values, each once, not {short(values)}"
            )
    return flat


def _has_duplicates(values: list[Any]) -> bool:
    return any(value in values[:place] for place, value in enumerate(values))


def put(tables: Tables, key: str, value: Any) -> Tables:
    """The tables with a value set at a dotted key; ``method.NAME.ARGUMENT`` sets an argument of the method."""
    first, _, rest = key.partition(".")
    if not rest:
        return tables | {first: value}
    if first == "method":
        name, _, argument = rest.partition(".")
        return tables | {"method": with_argument(tables["method"], name, argument, value)}
    inner = tables.get(first, {})
    return tables | {first: put(inner if isinstance(inner, dict) else {}, rest, value)}


def merge(tables: Tables, changes: Mapping[str, Any]) -> Tables:
    """The tables with changes applied: keys of a table are replaced one by one."""
    merged = dict(tables)
    for key, value in changes.items():
        known = merged.get(key)
        merged[key] = known | value if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def with_argument(spec: MethodSpec, name: str, argument: str, value: Any) -> MethodSpec:
    """A method with one argument of one of its pieces set."""
    items = [
        (piece, arguments | {argument: value} if piece == name else arguments)
        for piece, arguments in read_spec(spec)
    ]
    return [{piece: arguments} if arguments else piece for piece, arguments in items]


def pieces_of(spec: MethodSpec) -> list[str]:
    return [name for name, _ in read_spec(spec)]


def label_of(spec: MethodSpec) -> str:
    """The label of a method: names joined by +, with the given arguments."""
    return "+".join(
        f"{name}({_arguments(arguments)})" if arguments else name for name, arguments in read_spec(spec)
    )


def describe_setting(setting: Mapping[str, Any]) -> str:
    """A setting as text, such as ``lr=0.1 mu=0.01``; of a `name` only the value."""
    words = [(key.rpartition(".")[2], value) for key, value in setting.items()]
    return " ".join(_word(value) if key == "name" else f"{key}={_word(value)}" for key, value in words)


def as_name(text: str, most: int = 80) -> str:
    """The text as part of a file name, of at most so many characters: those who cut must tell equal ones apart."""
    return re.sub(r"[^A-Za-z0-9+_.=-]+", "-", text).strip("-.")[:most]


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_word(value)}" for key, value in arguments.items())


def _word(value: Any) -> str:
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Mapping):
        return "+".join(
            f"{key}({_arguments(inner)})" if isinstance(inner, Mapping) else f"{key}={_word(inner)}"
            for key, inner in value.items()
        )
    return "+".join(map(_word, value)) if isinstance(value, list) else str(value)
