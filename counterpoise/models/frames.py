"""Heads that compare unit features with a fixed frame of equally distant class vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from counterpoise.models.heads import EtfHead
from counterpoise.models.norms import BatchNorm

SHORTEST = 1e-6  # a feature below this length has no direction


class ProjectedFrame(nn.Module):
    """``logit = s M^T h``, ``h = P f / |P f|`` [C], with a fixed frame M [C, C] and a scale s that is trained from 1.

    Li et al., No Fear of Classifier Biases, 2023 (arXiv:2303.10058), section 3.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.projection = nn.Linear(in_features, out_features)
        self.frame = EtfHead(out_features, out_features)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, input: Tensor) -> Tensor:
        logits: Tensor = self.scale * self.frame(unit(self.projection(input)))
        return logits

    @torch.no_grad()
    def draw(self, stream: torch.Generator) -> None:
        """Its own parameter, the scale; its layers draw theirs."""
        self.scale.fill_(1.0)


class NormalisedFrame(nn.Module):
    """``logit = W h``, ``h = BN(f) / |BN(f)|``, with a fixed frame W [C, F]: each logit is a cosine, 1 where h is the class's vector."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.norm = BatchNorm(in_features)
        self.frame = EtfHead(in_features, out_features)

    def forward(self, input: Tensor) -> Tensor:
        logits: Tensor = self.frame(unit(self.norm(input)))
        return logits


def unit(x: Tensor) -> Tensor:
    """``x / |x|`` for each row; 0 without a gradient where a row is all but 0, as BatchNorm makes a batch of equal samples."""
    square = x.square().sum(1, keepdim=True)
    has_direction = square > SHORTEST**2
    return x * torch.where(has_direction, torch.where(has_direction, square, 1.0).rsqrt(), 0.0)
