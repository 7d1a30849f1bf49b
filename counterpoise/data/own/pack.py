"""A pack: one compact file with the samples, clients and record of a prepared data set, checked as it is read."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from counterpoise.data.dataset import Assignment, Dataset, Samples, Scaling, source_from_json
from counterpoise.data.faults import MAX_BYTES, MAX_PACK_HEADER, as_fault, fault, file_within
from counterpoise.data.own.forms import PIXEL_DIMENSIONS
from counterpoise.data.own.pixels import compress, decompress
from counterpoise.data.own.prepared import Pack, check_classes, check_pack
from counterpoise.data.types import Rows
from counterpoise.errors import ConfigError, DataError
from counterpoise.registry.registry import Entry
from counterpoise.system.capacity import check_fits

ABOUT = "counterpoise"
DIGEST = "sha256"
LENGTH_BYTES = 8

Tensors = dict[str, Tensor]
Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class About:
    """The metadata of a pack."""

    name: str
    classes: tuple[str, ...]
    client_names: tuple[str, ...]
    files: dict[str, str]
    notes: tuple[str, ...]
    record: dict[str, Any]
    pixels: Mapping[str, Sequence[int]]  # uncompressed shapes of the compressed images
    format: Literal[1] = 1
    source: dict[str, Any] | None = None  # how a user's data became samples; older packs lack it


def write_pack(dataset: Dataset, assignment: Assignment, path: Path | str, record: Mapping[str, Any]) -> None:
    """Write a safetensors file atomically; equal content gives equal bytes. `record` must be JSON-serialisable."""
    path = Path(path)
    with as_fault(path, "cannot be written"):
        check_pack(Pack(dataset, assignment, record))
        tensors = _tensors(dataset, assignment)
        words = _words(dataset, record, _compress_images(tensors))
        tensors[DIGEST] = torch.tensor(list(_digest(tensors, words)), dtype=torch.uint8)
        _save(path, tensors, words)


def _compress_images(tensors: Tensors) -> dict[str, Shape]:
    """Compress images in place; returns their shapes."""
    shapes: dict[str, Shape] = {}
    for name in ("train.x", "test.x"):
        if tensors[name].dtype == torch.uint8 and tensors[name].dim() == PIXEL_DIMENSIONS:
            images = tensors[name].numpy()
            shapes[name] = images.shape
            tensors[name] = torch.from_numpy(compress(images))
    return shapes


def _words(dataset: Dataset, record: Mapping[str, Any], shapes: dict[str, Shape]) -> str:
    about = About(
        name=dataset.name,
        classes=dataset.classes,
        client_names=dataset.client_names,
        files=dict(dataset.files),
        notes=dataset.notes,
        record=dict(record),
        pixels=shapes,
        source=dataset.source.to_json(),
    )
    return json.dumps({key: value for key, value in asdict(about).items() if value is not None})


def _tensors(dataset: Dataset, assignment: Assignment) -> Tensors:
    tensors = {
        f"{half}.{part}": getattr(getattr(dataset, half), part) for half in ("train", "test") for part in "xy"
    }
    tensors |= {f"scaling.{part}": getattr(dataset.scaling, part) for part in Scaling._fields}
    tensors |= _flatten("clients", assignment.clients) | _flatten("held_out", assignment.held_out)
    if assignment.validation is not None:
        tensors["validation"] = torch.as_tensor(assignment.validation)
    if dataset.clients is not None:
        tensors["natural"] = dataset.clients
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _flatten(name: str, vectors: Sequence[Rows]) -> Tensors:
    ends = np.cumsum([len(vector) for vector in vectors], dtype=np.int64)
    rows = np.concatenate([np.empty(0, np.int64), *vectors])
    return {f"{name}.rows": torch.from_numpy(rows), f"{name}.ends": torch.from_numpy(ends)}


def _digest(tensors: Tensors, words: str) -> bytes:
    digest = hashlib.sha256(words.encode())
    for name in sorted(tensors.keys() - {DIGEST}):
        tensor = tensors[name]
        digest.update(f"\0{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.digest()


def _save(path: Path, tensors: Tensors, words: str) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        save_file(tensors, part, {ABOUT: words})
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def is_pack(path: Path) -> bool:
    """Whether a file is what ``write_pack`` writes, though it may be damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            return ABOUT in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def read_pack(path: Path | str, limit: int = MAX_BYTES) -> Pack:
    """What ``write_pack`` wrote; a file that is damaged, inconsistent or larger than `limit` unpacked is refused."""
    path = file_within(path, limit)
    with as_fault(path, "damaged or not a pack"):
        tensors, words = _load(path)
        if bytes(tensors.pop(DIGEST).tolist()) != _digest(tensors, words):
            raise fault(path, "damaged: its SHA-256 does not match its content")
        about = _read_words(words)
        check_classes(len(about.classes))
        shapes = {name: tuple(int(side) for side in given) for name, given in about.pixels.items()}
        _check_pixels(path, tensors, shapes, limit)
        for name, shape in shapes.items():
            tensors[name] = torch.from_numpy(decompress(tensors[name].numpy(), shape))
        pack = _unpacked(tensors, about)
        check_pack(pack)
    return pack


def _check_pixels(path: Path, tensors: Tensors, shapes: Mapping[str, tuple[int, ...]], limit: int) -> None:
    """Before images are unpacked: a small file may unpack to very many."""
    for name, shape in shapes.items():
        if min(shape) < 1 or math.prod(shape) > limit:
            raise fault(path, f"{name} has shape {shape}; at most {limit:,} bytes of pixels")
        if shape[0] != (labels := len(tensors[name.removesuffix("x") + "y"])):
            raise fault(path, f"{name} has {shape[0]:,} images for {labels:,} labels; needs as many")
    size = sum(map(math.prod, shapes.values()))
    check_fits(size + 2 * max(map(math.prod, shapes.values()), default=0), f"{path}: its pixels", DataError)


def _load(path: Path) -> tuple[Tensors, str]:
    """Tensors and metadata, after the length of the header is checked."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
    if length > min(MAX_PACK_HEADER, path.stat().st_size):
        raise fault(
            path,
            f"says its header has {length:,} bytes; must be within the file, at most {MAX_PACK_HEADER:,}",
        )
    with safe_open(path, framework="pt") as file:
        words = (file.metadata() or {}).get(ABOUT)
        if words is None or DIGEST not in file.keys():  # noqa: SIM118  (no mapping)
            raise fault(path, "is a safetensors file, but not a pack")
        return {name: file.get_tensor(name) for name in file.keys()}, words  # noqa: SIM118


def _read_words(words: str) -> About:
    """The metadata, each field checked against its type."""
    try:
        return Entry("pack", About).build(json.loads(words))
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _unpacked(tensors: Tensors, about: About) -> Pack:
    validation = tensors.get("validation")
    dataset = Dataset(
        about.name,
        Samples(tensors["train.x"], tensors["train.y"]),
        Samples(tensors["test.x"], tensors["test.y"]),
        about.classes,
        Scaling(tensors["scaling.scale"], tensors["scaling.shift"]),
        tensors.get("natural"),
        about.client_names,
        about.files,
        about.notes,
        source=source_from_json(about.source, len(about.classes)),
    )
    assignment = Assignment(
        _vectors(tensors, "clients"),
        _vectors(tensors, "held_out"),
        None if validation is None else validation.numpy(),
    )
    return Pack(dataset, assignment, about.record)


def _vectors(tensors: Tensors, name: str) -> list[Rows]:
    rows, ends = tensors[f"{name}.rows"].numpy(), tensors[f"{name}.ends"].numpy()
    steps = np.diff(ends, prepend=0)
    if (steps < 0).any() or steps.sum() != len(rows):
        raise ValueError(f"the ends of {name} do not split its rows")
    return np.split(rows, ends[:-1]) if len(ends) else []
