"""Configs as TOML text: reading with one-line errors, and writing what was resolved."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterpoise.errors import SHOWN_CHARACTERS, ConfigError, shorten
from counterpoise.errors import short as short  # checkpoints take it from here

MAX_BYTES = 1 << 20  # no experiment needs more
MAX_DEPTH = 32
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
WORD = re.compile(r"[^\s\[\]{}'\"=\ud800-\udfff]+")
# Refused before parsing, whose time grows with the square of a dotted key's length.
DEEP_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){{{MAX_DEPTH}}}")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        with path.open("rb") as stream:  # a device or a pipe has no size to ask for
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{short(path)} has more than {MAX_BYTES} bytes: not an experiment")
        return parse_toml(content.decode(), short(path))
    except (OSError, ValueError) as error:
        text = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        reason = error.strerror if isinstance(error, OSError) else text
        raise ConfigError(f"{short(path)}: {reason}") from None


def parse_toml(text: str, source: str) -> dict[str, Any]:
    if DEEP_KEY.search(text):
        raise ConfigError(f"{source}: a key must have at most {MAX_DEPTH} parts")
    try:
        text.encode()  # undecodable bytes of a command line arrive as lone surrogates
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not TOML: {shorten(str(error), 2 * SHOWN_CHARACTERS)}") from None
    _check_bounds(tables, source)
    return tables


def _check_bounds(value: Any, source: str, place: tuple[str, ...] = ()) -> None:
    """Refuse what TOML does not guarantee: integers beyond 64 bits, and unbounded nesting."""
    key = shorten(".".join(place[:3]), SHOWN_CHARACTERS)
    if len(place) > MAX_DEPTH:
        raise ConfigError(f"{source}: {key}: tables and lists must be at most {MAX_DEPTH} deep")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{source}: {key}: a whole number must fit into 64 bits")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        _check_bounds(item, source, (*place, str(name)))


def override(tables: dict[str, Any], assignment: str) -> dict[str, Any]:
    """The tables with ``key.sub=value`` set; the value is TOML, and a bare word is a string."""
    path, sign, text = assignment.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not sign or len(keys) > MAX_DEPTH or not all(BARE_KEY.fullmatch(key) for key in keys):
        raise ConfigError(f"{short(assignment)} must be key.sub=value, such as local.lr=0.05")
    return _with_value(tables, keys, _read_value(text.strip(), assignment))


def _with_value(tables: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    key, *rest = keys
    inner = tables.get(key, {})
    return tables | {
        key: _with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value
    }


def _read_value(text: str, assignment: str) -> Any:
    try:
        parsed = parse_toml(f"value = {text}", assignment)
    except ConfigError:
        parsed = {}
    if parsed.keys() == {"value"}:  # a line break could smuggle in a second key
        return parsed["value"]
    if WORD.fullmatch(text):
        return text
    raise ConfigError(
        f'{short(assignment)}: the value is neither TOML nor a plain word; in a shell: \'method=["fedavg", "focal"]\''
    )


def write_toml(tables: Mapping[str, Any]) -> str:
    """TOML text; ``None`` is left out, since TOML has no such value."""
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items() if value is not None]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{_key(name)}]"]
            lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    return _text(str(value))


def _text(text: str) -> str:
    # JSON's escapes are TOML's, except for DEL, which TOML escapes too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
