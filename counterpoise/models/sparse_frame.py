"""A sparse frame of class vectors, and the head of FedLoGe that trains features with it and is scored with another classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from counterpoise.models.heads import EtfHead, frame_products

LENGTH = 0.1  # of every class's vector
ZEROS = 0.6  # share of entries
STEPS, RATE = 300, 0.3
DECIMALS = 5  # that are kept, so that every machine comes to the same numbers


class SparseFrame(EtfHead):
    """``logit = W f`` with a fixed, sparse W whose rows have the length 0.1 and are as far apart as its zeros allow.

    An equiangular tight frame of which 60 % of the entries are 0, then moved back towards one: SSE-C of Xiao et al., FedLoGe, 2024
    (arXiv:2401.08977). The authors zero entries anywhere and take 10,000 steps of Adam on the angle between a row and the one
    nearest to it; here every row has the same number of zeros, so that none is empty, and its products with the others
    are led to those of the frame, which is where that angle is largest.
    """

    @torch.no_grad()
    def draw(self, stream: torch.Generator) -> None:
        super().draw(stream)
        order = torch.rand(self.weight.shape, generator=stream, device=stream.device).argsort(1).cpu()
        kept = (order >= int(ZEROS * order.shape[1])).double()
        self.weight.copy_(LENGTH * _spread(self.weight.double().cpu() * kept, kept).round(decimals=DECIMALS))

    def is_frame(self) -> bool:
        """Whether all rows have their length."""
        lengths = torch.linalg.vector_norm(self.weight.double(), dim=1)
        return bool(((lengths - LENGTH).abs() < LENGTH / 100).all())


def _spread(rows: Tensor, kept: Tensor) -> Tensor:
    """Unit rows, by gradient descent on the squared distance of their products from those of a frame; zeros stay."""
    wanted = frame_products(len(rows))
    rows = normalize(rows, dim=1)
    for _ in range(STEPS):
        rows = normalize(rows - RATE * kept * ((rows @ rows.t() - wanted) @ rows), dim=1)
    return rows


class TwoHeads(nn.Module):
    """``logit = (1 - shown) W f + shown (A f + b)``: the frame W while it trains, `aux` (A, b) where the buffer `shown` is set to 1."""

    shown: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.frame = SparseFrame(in_features, out_features)
        self.aux = nn.Linear(in_features, out_features)
        self.register_buffer("shown", torch.zeros(1))

    def forward(self, input: Tensor) -> Tensor:
        framed: Tensor = self.frame(input)
        return (1 - self.shown) * framed + self.shown * linear(input, self.aux.weight, self.aux.bias)
