"""Number of threads, and precision of products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run on `count` threads: another number would round sums differently, and idle threads spin on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Precision: TypeAlias = Literal["full", "tf32", "bf16"]


def multiplies_bfloat16() -> bool:
    """Whether this processor has products of bfloat16; where it has none they are made of float32 ones and gain nothing."""
    known: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.10 cannot tell
    return any(bool(known.get(name)) for name in ("avx512_bf16", "amx_bf16"))


@contextmanager
def arithmetic(precision: Precision) -> Iterator[None]:
    """Allow TF32 products or forbid them, and make convolutions deterministic; the settings of the process are restored."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic
    try:
        products.allow_tf32 = convolutions.allow_tf32 = precision != "full"
        convolutions.deterministic = True
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic = before
