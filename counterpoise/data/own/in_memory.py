"""Data that a Python program holds already: a frame, a torch data set, a Hugging Face data set, a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from counterpoise.data.dataset import Dataset
from counterpoise.data.own.frames import from_frame
from counterpoise.data.own.hugging_face import (
    from_hugging_face,
    halves_of,
    is_hugging_face,
    is_saved,
    is_stream,
    open_saved,
)
from counterpoise.data.own.torch_dataset import from_torch
from counterpoise.data.tables.frame import is_rows
from counterpoise.errors import ConfigError, short
from counterpoise.registry.settings import check_arguments, read_parameters, refuse_unknown

TAKEN = "a name, a Path, a frame, a torch data set with items (x, y), or a Hugging Face data set"


def in_memory(given: Any, arguments: Mapping[str, Any], seed: int = 0) -> Dataset:
    """The data set of what a program holds, by its kind; unknown arguments are refused. The seed draws the test set."""
    if isinstance(given, Dataset):
        return _read(lambda: given, arguments, seed)
    if isinstance(given, Path) and is_saved(given):
        return in_memory(open_saved(given), arguments, seed)
    if isinstance(given, Path):
        from counterpoise.data.own import open_data

        return _read(open_data, arguments, seed, path=given)
    parts = list(given.values()) if isinstance(given, Mapping) else [given]
    if any(map(is_stream, parts)):
        raise ConfigError(
            "load_data: a Hugging Face data set that is streamed has no length; load it without streaming"
        )
    if isinstance(given, Mapping) and parts and all(map(is_hugging_face, parts)):
        return _read(from_hugging_face, {**halves_of(given), **arguments}, seed)
    if is_hugging_face(given):
        return _read(from_hugging_face, arguments, seed, given=given)
    if isinstance(given, tuple) and all(hasattr(part, "shape") for part in given):
        raise ConfigError(
            "load_data: arrays need their halves and classes named: Dataset(name, train=Samples(x, y), test=Samples(x, y), classes=(...))"
        )
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not is_rows(given):
        return _read(from_torch, arguments, seed, train=given)
    if is_rows(given):
        return _read(from_frame, arguments, seed, given=given)
    raise ConfigError(f"load_data: name must be a word, not {short(given)}; needs {TAKEN}")


def _read(reader: Callable[..., Dataset], arguments: Mapping[str, Any], seed: int, **given: Any) -> Dataset:
    """What a reader makes of arguments that it knows, each of the right type."""
    parameters = read_parameters(reader)
    known = [name for name in parameters if name not in (*given, "seed")]
    refuse_unknown("load_data", arguments, known, {})
    check_arguments("load_data", reader, **arguments)
    drawn = {"seed": seed} if "seed" in parameters else {}
    return reader(**given, **arguments, **drawn)
