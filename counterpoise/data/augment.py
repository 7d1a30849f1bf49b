"""Batched augmentation of images: all randomness is drawn first, then one deterministic function applies it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Registry
from counterpoise.registry.schema import Count, Fraction, Whole

Draws = dict[str, Tensor]


class Augmentation(NamedTuple):
    """``apply(x, draw(n, x.shape[1:], stream))`` for images x [n, C, H, W], uint8 or float, never changed in place.

    A draw has the leading axis n, so it can be cut and stacked like the samples; it must be on the device of x.
    """

    draw: Callable[[int, tuple[int, ...], torch.Generator], Draws]
    apply: Callable[[Tensor, Draws], Tensor]


AUGMENTATIONS: Registry[Augmentation] = Registry("augmentation")
augmentation = AUGMENTATIONS.register


@augmentation("flip")
def flip(p: Fraction = 0.5) -> Augmentation:
    """Mirror left and right with probability ``p``."""

    def draw(count: int, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        return {"flip": _chosen(count, shape, p, generator)}

    def apply(x: Tensor, draws: Draws) -> Tensor:
        return torch.where(draws["flip"].view(-1, 1, 1, 1), x.flip(-1), x)

    return Augmentation(draw, apply)


@augmentation("crop")
def crop(padding: Whole = 4, p: Fraction = 1.0) -> Augmentation:
    """With probability ``p``, pad by zeros on all sides and cut out a window of the old size anywhere in it."""

    def draw(count: int, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        chosen = _chosen(count, shape, p, generator)
        corner = torch.randint(2 * padding + 1, (count, 2), generator=generator)
        # the centre window is the image as it was
        return {"corner": torch.where(chosen[:, None], corner, padding)}  # [n, 2]

    def apply(x: Tensor, draws: Draws) -> Tensor:
        height, width = x.shape[-2:]
        padded = pad(x, (padding, padding, padding, padding))
        top, left = draws["corner"][:, :, None].unbind(1)  # [n, 1]
        rows = top + torch.arange(height, device=x.device)  # [n, H]
        columns = left + torch.arange(width, device=x.device)  # [n, W]
        pixels = rows[:, :, None] * padded.shape[-1] + columns[:, None, :]  # [n, H, W]
        window = pixels.flatten(1)[:, None].expand(-1, x.shape[1], -1)  # [n, C, H W]
        return padded.flatten(2).gather(2, window).view(x.shape)

    return Augmentation(draw, apply)


@augmentation("cutout", paper="DeVries & Taylor, Improved regularization of CNNs with cutout, 2017")
def cutout(size: Count = 16, p: Fraction = 1.0) -> Augmentation:
    """With probability ``p``, set to zero a square of side ``size`` around any pixel, clipped at the border.

    Zero is black in raw pixels; it is the mean only in inputs that are scaled already.
    """

    def draw(count: int, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        chosen = _chosen(count, shape, p, generator)
        centres = [torch.randint(side, (count,), generator=generator) for side in shape[1:]]
        corner = torch.stack(centres, 1) - size // 2
        # at -size the square lies outside of the image
        return {"corner": torch.where(chosen[:, None], corner, -size)}  # [n, 2]

    def apply(x: Tensor, draws: Draws) -> Tensor:
        top, left = draws["corner"][:, :, None].unbind(1)  # [n, 1]
        rows = _inside(top, size, x.shape[-2])
        columns = _inside(left, size, x.shape[-1])
        hole = rows[:, None, :, None] & columns[:, None, None, :]  # [n, 1, H, W]
        return torch.where(hole, torch.zeros_like(x), x)

    return Augmentation(draw, apply)


def compose(*augmentations: Augmentation) -> Augmentation:
    """One after the other; the draws of the i-th carry the prefix ``i.``."""

    def draw(count: int, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        drawn = [each.draw(count, shape, generator) for each in augmentations]
        return {f"{i}.{name}": values for i, draws in enumerate(drawn) for name, values in draws.items()}

    def apply(x: Tensor, draws: Draws) -> Tensor:
        for i, each in enumerate(augmentations):
            own = {
                name.removeprefix(f"{i}."): values
                for name, values in draws.items()
                if name.startswith(f"{i}.")
            }
            x = each.apply(x, own)
        return x

    return Augmentation(draw, apply)


def _chosen(count: int, shape: tuple[int, ...], p: float, generator: torch.Generator) -> Tensor:
    """Which samples [n] to change."""
    if len(shape) != 3:
        raise ConfigError(f"augmentation needs images [C, H, W], not samples of shape {list(shape)}")
    return torch.rand(count, generator=generator) < p


def _inside(start: Tensor, size: int, side: int) -> Tensor:
    """Where [n, side] a span of ``size`` pixels from ``start`` [n, 1] lies."""
    place = torch.arange(side, device=start.device)
    return (place >= start) & (place < start + size)
