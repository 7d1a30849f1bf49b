"""Seals: hashes by which readers check that the files of a run are unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterpoise.errors import DataError

SEAL = "sha256"  # key of the hash over all other keys of a sealed file


def digest_of(content: Any) -> str:
    """SHA-256 of plain values, independent of their layout in a file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its hash."""
    return {**content, SEAL: digest_of(content)}


def read_sealed(path: Path) -> dict[str, Any] | None:
    """The content of a sealed file, its hash included; None if there is no such file."""
    content = read_object(path)
    if content is None:
        return None
    if SEAL not in content:
        raise DataError(f"{path} is damaged: it has no {SEAL} to check it by")
    if content[SEAL] != digest_of({key: value for key, value in content.items() if key != SEAL}):
        raise DataError(f"{path} is damaged: its content does not match its SHA-256")
    return content


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no such file."""
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise DataError(f"{path} is damaged: it is not JSON") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} is damaged: it is not a JSON object")
    return content


def check_files(path: Path, summary: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """Refuse a finished run if one of its files does not match the hash in its summary."""
    for name, digest in found.items():
        if summary["files_sha256"].get(name) != digest:
            raise DataError(f"{path / name} has changed since the run finished: its SHA-256 differs")
