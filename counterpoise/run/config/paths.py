"""Relative paths of a user's config: looked up beside the file that names them, else in the current folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLACES = (("data", "root"), ("data", "path"), ("data", "test"), ("model", "weights"))  # keys that hold paths


def beside(tables: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The tables of an experiment with each relative path as it is from the current folder.

    A path below data.root stays: it is relative to that. A sweep's grid has lists of paths.
    """
    found = dict(tables)
    rooted = _value(tables, "data", "root") is not None
    for table, key in PLACES:
        given = _value(tables, table, key)
        if given is not None and not (key in ("path", "test") and rooted):
            found[table] = {**found[table], key: _each(given, file)}
        if (dotted := f"{table}.{key}") in found:  # as problems and grids of a sweep may have it
            found[dotted] = _each(found[dotted], file)
    return found


def beside_sweep(tables: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The tables of a sweep, whose paths are in its base, its problems and its grid of problems."""
    found = dict(tables)
    for key in ("base", "vary"):
        if isinstance(inner := tables.get(key), Mapping):
            found[key] = beside(inner, file)
    if isinstance(problems := tables.get("problems"), list):
        found["problems"] = [beside(one, file) if isinstance(one, Mapping) else one for one in problems]
    return found


def from_here(given: str, file: Path) -> str:
    """A path as given, or through the folder of the file where it exists there."""
    path = Path(given).expanduser()
    moved = file.parent / path
    if path.is_absolute() or moved == path or not _exists(moved):
        return given
    return os.path.normpath(moved)


def _each(value: Any, file: Path) -> Any:
    """One path, or a list of them."""
    if isinstance(value, list):
        return [_each(one, file) for one in value]
    return from_here(value, file) if isinstance(value, str) else value


def _value(tables: Mapping[str, Any], table: str, key: str) -> Any:
    inner = tables.get(table)
    return inner.get(key) if isinstance(inner, Mapping) else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or a zero byte: refused later, where it is opened
        return False
