"""Numbers of arrays, standardised by the training samples as those of tables are, or a note that they are not."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from counterpoise.data.dataset import Dataset, Scaling

CHUNK = 1 << 16  # samples at a time in 64 bits
TINY = 1e-30  # a smaller deviation has no inverse in float32
FAR = 10.0  # means and deviations beyond which, or below whose inverse, training is slow or unstable


def scaled(data: Dataset, standardise: bool) -> Dataset:
    """Each feature to mean 0 and deviation 1 over the training samples; else as given, which a note tells.

    Pixels are scaled already, by channel.
    """
    x = data.train.x
    if x.dtype == torch.uint8:
        return data
    mean, deviation = statistics(x)
    if not standardise:
        return replace(data, notes=(*data.notes, _note(mean, deviation)))
    width = torch.where(deviation > TINY, deviation, 1.0)
    scaling = Scaling((1 / width).float(), (-mean / width).float())
    note = "numbers, standardised by the training samples, each feature by its own mean and deviation"
    return replace(data, scaling=scaling, notes=(*data.notes, note))


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature, in float64 and two passes, so that large means cost no digits."""
    pieces = torch.split(x, CHUNK)
    mean = torch.stack([piece.double().sum(0) for piece in pieces]).sum(0) / len(x)
    squares = torch.stack([(piece.double() - mean).square().sum(0) for piece in pieces]).sum(0)
    return mean, (squares / len(x)).sqrt()


def _note(mean: Tensor, deviation: Tensor) -> str:
    off = bool((mean.abs() > FAR).any() or (deviation > FAR).any() or (deviation.amax() < 1 / FAR))
    hint = "; standardise = true scales each feature" if off else ""
    return (
        f"numbers taken as they are, not standardised: means {mean.amin():.3g} to {mean.amax():.3g}, "
        f"deviations {deviation.amin():.3g} to {deviation.amax():.3g}{hint}"
    )
