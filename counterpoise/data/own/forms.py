"""Checks of the type and shape of an array, which its header gives before it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from counterpoise.data.faults import fault

PIXEL_DIMENSIONS = 4  # [n, C, H, W]
WORDS = "US"  # kinds of arrays that hold words


class ArrayHeader(Protocol):
    """Shape and type of an array, known before it is read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


def check_input_form(source: Path | str, name: str, x: ArrayHeader) -> None:
    if x.dtype.kind not in "biuf":
        raise fault(source, f"{name} holds {x.dtype}; needs numbers")
    if len(x.shape) < 2 or 0 in x.shape:
        raise fault(
            source,
            f"{name} has shape {x.shape}; needs at least one sample and one feature, [samples, features...]",
        )


def check_label_form(source: Path | str, name: str, y: ArrayHeader, samples: int) -> None:
    if y.dtype.kind not in f"iu{WORDS}":
        raise fault(source, f"{name} holds {y.dtype}; needs whole numbers or words")
    if y.shape != (samples,):
        raise fault(source, f"{name} has shape {y.shape}; needs ({samples},), one label per sample")


def check_client_form(source: Path | str, clients: ArrayHeader, samples: int) -> None:
    if clients.dtype.kind not in f"iu{WORDS}":
        raise fault(source, f"client holds {clients.dtype}; needs whole numbers or words")
    if clients.shape != (samples,):
        raise fault(source, f"client has shape {clients.shape}; needs ({samples},), one per sample")


def check_alike(source: Path | str, train: ArrayHeader, test: ArrayHeader) -> None:
    """Training and test samples have one shape, and both or neither are uint8."""
    kinds = [f"{'uint8' if x.dtype == np.uint8 else 'float32'} {x.shape[1:]}" for x in (train, test)]
    if kinds[0] != kinds[1]:
        raise fault(
            source, f"training samples are {kinds[0]}, test samples {kinds[1]}; both must be the same"
        )
