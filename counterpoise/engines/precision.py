"""How exactly a GPU multiplies: full float32, TF32, or bfloat16 inside the model with float32 parameters and statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch

Precision: TypeAlias = Literal["full", "tf32", "bf16"]


@contextmanager
def arithmetic(precision: Precision) -> Iterator[None]:
    """Allow TF32 products or forbid them, and let convolutions repeat bit for bit; what the process had comes back."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic
    try:
        products.allow_tf32 = convolutions.allow_tf32 = precision != "full"
        convolutions.deterministic = True
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic = before
