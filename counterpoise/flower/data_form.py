"""What every client's data must look like, as the server tells it."""

from __future__ import annotations

import json
from typing import NamedTuple

import torch

from counterpoise.data.dataset import Samples, Scaling
from counterpoise.flower.own_columns import Columns


class Form(NamedTuple):
    """What every client's data must look like: all that clients are told of the server's own data."""

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    pixels: bool  # bytes that `scaling` turns into inputs
    scaling: Scaling
    columns: Columns | None  # of a table

    def text(self) -> str:
        scaling = {name: tensor.tolist() for name, tensor in self.scaling._asdict().items()}
        return json.dumps(
            {**self._asdict(), "scaling": scaling, "columns": self.columns and self.columns._asdict()}
        )

    def no_samples(self) -> Samples:
        """The test set of a server that has none."""
        kind = torch.uint8 if self.pixels else torch.float32
        return Samples(torch.empty(0, *self.shape, dtype=kind), torch.empty(0, dtype=torch.int64))


def read_form(text: str) -> Form:
    found = json.loads(text)
    scaling = Scaling(*(torch.tensor(found["scaling"][name]) for name in ("scale", "shift")))
    columns = found["columns"] and Columns.from_json(found["columns"])
    return Form(tuple(found["classes"]), tuple(found["shape"]), found["pixels"], scaling, columns)
