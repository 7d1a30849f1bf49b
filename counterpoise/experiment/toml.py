"""Configs as TOML text: reading with one-line errors, and writing what was resolved."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError

MAX_BYTES = 1 << 20  # no experiment needs more
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} has more than {MAX_BYTES} bytes: not an experiment")
        return parse_toml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: {reason}") from None


def parse_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{source}: not TOML: {str(error) or 'nested too deeply'}") from None


def override(tables: dict[str, Any], assignment: str) -> dict[str, Any]:
    """The tables with ``key.sub=value`` put in; the value is TOML, and a bare word is a string."""
    path, sign, text = assignment.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not sign or not all(BARE_KEY.fullmatch(key) for key in keys):
        raise ConfigError(f"{assignment!r} is not legal; legal: key.sub=value, such as local.lr=0.05")
    return _with_value(tables, keys, _read_value(text.strip(), assignment))


def _with_value(tables: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    key, *rest = keys
    inner = tables.get(key, {})
    return tables | {
        key: _with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value
    }


def _read_value(text: str, assignment: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        if re.fullmatch(r"[^\s\[\]{}'\"=]+", text):
            return text
        raise ConfigError(f"{assignment!r}: the value is neither TOML nor a plain word") from None


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
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
