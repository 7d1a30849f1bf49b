"""How exactly a GPU multiplies: full float32, TF32, or bfloat16 inside the model with float32 parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch

Precision: TypeAlias = Literal["full", "tf32", "bf16"]


@contextmanager
def tf32(precision: Precision) -> Iterator[None]:
    """Allow TF32 products or forbid them; the process's own setting comes back afterwards."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    try:
        products.allow_tf32 = convolutions.allow_tf32 = precision != "full"
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before
