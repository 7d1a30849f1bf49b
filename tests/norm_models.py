"""Models with every kind of BatchNorm, and stacks of them to score."""

from __future__ import annotations

from collections.abc import Callable

import torch
from federations import small_model
from torch import Tensor, nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.measure import STACKED
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, stack
from counterpoise.data.dataset import Samples, Scaling, no_scaling
from counterpoise.models.init import initialise

IMAGE, ROW = (3, 8, 8), (5,)
MODELS = STACKED + 1  # one more than pass side by side
Given = tuple[FunctionalModel, Params, Params, Samples, Scaling]


def _convolution(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 4))


def _dense(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), norm, nn.ReLU(), nn.Linear(6, 4))


BUILT: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "resnet8": (IMAGE, lambda: small_model("resnet8", IMAGE, norm="batch", width=4)),
    "resnet18": (IMAGE, lambda: small_model("resnet18", IMAGE, norm="batch", width=2)),
    "mlp": (ROW, lambda: small_model("mlp", ROW, hidden=[6], norm="batch")),
    "torch 1d": (ROW, lambda: _dense(nn.BatchNorm1d(6))),
    "torch 2d": (IMAGE, lambda: _convolution(nn.BatchNorm2d(4, eps=0.1))),
    "torch, not affine": (IMAGE, lambda: _convolution(nn.BatchNorm2d(4, affine=False))),
    "torch, plain means": (IMAGE, lambda: _convolution(nn.BatchNorm2d(4, momentum=None))),
    "torch, no running statistics": (ROW, lambda: _dense(nn.BatchNorm1d(6, track_running_stats=False))),
    "torch, first": (ROW, lambda: nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 4))),
}


def scored_models(name: str, device: str = "cpu") -> Given:
    """Unlike models with unlike running statistics, and samples to score them on."""
    shape, build = BUILT[name]
    module = build().to(device, torch.float64)
    model = FunctionalModel(module)
    x = torch.randn(40, *shape, generator=generator(0, "scored"), dtype=torch.float64).to(device)
    params, buffers = [], []
    for k in range(MODELS):
        initialise(module, generator(k, "init"))
        params.append(model.params())
        buffers.append(model.apply(params[k], model.buffers(), (k + 1) * x + k, train=True)[1])
    samples = Samples(x, torch.arange(40, device=device) % 4)
    return model, stack(params), stack(buffers), samples, no_scaling().to(torch.device(device), torch.float64)


class Reading(nn.Module):
    """Reads a number off a tensor, which no stacked model can."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(x.abs().max() > 0)
