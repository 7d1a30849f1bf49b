"""Models with several inputs: they travel as one tensor [n, numbers], and are taken apart again before the model.

So a data set, a message and a stack of clients hold one tensor, whatever a model takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError, DataError

EXACT = 1 << 24  # whole numbers up to here are the same in float32


class Piece(NamedTuple):
    """One input of a model: the shape of a sample of it, and its kind of numbers."""

    shape: tuple[int, ...]
    kind: Literal["whole", "bool", "float"] = "whole"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def restore(self, columns: Tensor) -> Tensor:
        """This input again, of its columns [n, size]."""
        shaped = columns.reshape(*columns.shape[:1], *self.shape)
        if self.kind == "float":
            return shaped
        return shaped.bool() if self.kind == "bool" else shaped.long()


Layout: TypeAlias = Mapping[str, Piece] | Sequence[Piece]  # by name, or in order


def pack_inputs(inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[Tensor, Layout]:
    """One tensor of several inputs, tensors or arrays [n, ...] by name or in order, and the layout for `SeveralInputs`.

    It holds whole numbers where all inputs are whole numbers or masks, else floats.
    """
    named = isinstance(inputs, Mapping)
    given = {str(name): torch.as_tensor(each) for name, each in _items(inputs)}
    _check_rows(given)
    pieces = {name: Piece(tuple(each.shape[1:]), _kind(name, each)) for name, each in given.items()}
    dtype = torch.int64 if _all_whole(list(pieces.values())) else torch.float32
    for name, each in given.items():
        _check_exact(name, each, pieces[name], dtype)
    x = torch.cat([each.reshape(len(each), -1).to(dtype) for each in given.values()], 1)
    return x, pieces if named else tuple(pieces.values())


class SeveralInputs(nn.Module):
    """A model of several inputs, by name or in order, as a model of the one tensor that `pack_inputs` made of them."""

    def __init__(self, model: nn.Module, layout: Layout) -> None:
        super().__init__()
        self.model = model
        self.layout = {str(name): Piece(*piece) for name, piece in _items(layout)}
        self.named = isinstance(layout, Mapping)
        if not self.layout:
            raise ConfigError(
                "SeveralInputs: the layout must name one input or more, as pack_inputs returns it"
            )

    def forward(self, x: Tensor) -> Any:
        pieces = list(self.layout.values())
        width = sum(piece.size for piece in pieces)
        if x.dim() != 2 or x.shape[1] != width:
            raise ConfigError(
                f"SeveralInputs: inputs must be [n, {width}], as pack_inputs makes, not {list(x.shape)}"
            )
        if x.is_floating_point() and _all_whole(pieces):
            raise TypeError("inputs must be whole numbers")  # as floats, ids above 2^24 would be other ids
        columns = torch.split(x, [piece.size for piece in pieces], 1)
        restored = [piece.restore(part) for piece, part in zip(pieces, columns, strict=True)]
        return (
            self.model(**dict(zip(self.layout, restored, strict=True)))
            if self.named
            else self.model(*restored)
        )


def _items(given: Mapping[str, Any] | Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return iter(given.items() if isinstance(given, Mapping) else enumerate(given))


def _kind(name: str, x: Tensor) -> Literal["whole", "bool", "float"]:
    if x.is_complex():
        raise DataError(f"pack_inputs: input {name} must be numbers, not {x.dtype}")
    return "float" if x.is_floating_point() else "bool" if x.dtype == torch.bool else "whole"


def _all_whole(pieces: Sequence[Piece]) -> bool:
    return all(piece.kind != "float" for piece in pieces)


def _check_rows(given: Mapping[str, Tensor]) -> None:
    rows = {name: len(each) if each.dim() else None for name, each in given.items()}
    if len(set(rows.values())) != 1 or None in rows.values():
        said = ", ".join(f"{name} {list(each.shape)}" for name, each in given.items()) or "none"
        raise DataError(f"pack_inputs: inputs must all be [n, ...] with the same n, not {said}")


def _check_exact(name: str, x: Tensor, piece: Piece, dtype: torch.dtype) -> None:
    if dtype.is_floating_point and piece.kind == "whole" and x.numel() and int(x.long().abs().max()) > EXACT:
        raise DataError(
            f"pack_inputs: input {name} must be at most {EXACT:,} in size beside inputs of floats"
        )
