"""Neuron concentration: on how few units of a layer a sample's activation lies."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.metrics.probe import Numbers, Probe, View, probe

ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Hardswish, nn.Hardtanh, nn.Hardsigmoid, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Softsign, nn.Threshold,
)  # fmt: skip
MEAN = "mean"
WHERE = "evaluate.probes: concentration"


@probe()
def concentration(layers: str | tuple[str, ...] | None = None) -> Probe:
    """Mean over samples of ``(sum_j p_j^2 - 1/d) / (1 - 1/d)``, ``p_j = |a_j| / sum_i |a_i|``: 0, all d units alike; 1, one unit.

    The definition is ours. a are the outputs of a layer's units; of a convolution their means over positions. It is given
    for each layer, and as the mean of layers. `layers`: patterns of names, such as "body.*"; by default every activation. A
    layer that runs again in one pass is counted again, as ``relu:2``. A layer of one unit is left out, and so is a sample
    of which no unit of a layer is active: it has no shares, and 0 would take a dead layer for an even one.
    """
    patterns = (layers,) if isinstance(layers, str) else layers

    def look(view: View) -> Numbers:
        found = measure_layers(view, choose_layers(view.module, patterns))
        if not found:
            raise ConfigError(_nothing_found(view.module, patterns))
        known = [value for value in found.values() if value is not None]
        return {MEAN: sum(known) / len(known) if known else None, **found}

    return Probe(look, "Neuron concentration")


def concentrations(activations: Tensor) -> Tensor:
    """[B] of activations [B, d], d above 1; NaN where no unit is active, or one is not finite."""
    size = activations.double().abs()
    shares = size / size.sum(1, keepdim=True)
    even = 1 / size.shape[1]
    return ((shares.square().sum(1) - even) / (1 - even)).clamp(0.0, 1.0)


def choose_layers(module: nn.Module, patterns: Sequence[str] | None) -> dict[str, nn.Module]:
    """Layers by name: those that fit a pattern; without patterns all activations.

    A layer whose own forward pass ends in an activation says so by ``activated = True``.
    """
    named = {name: layer for name, layer in module.named_modules() if name}
    if patterns is None:
        return {name: layer for name, layer in named.items() if _is_activation(layer)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in named):
            raise ConfigError(
                f"{WHERE}: layers: {short(pattern)} fits no layer; {legal_words(pattern, named)}"
            )
    return {name: layer for name, layer in named.items() if any(fnmatchcase(name, one) for one in patterns)}


def measure_layers(view: View, layers: Mapping[str, nn.Module]) -> dict[str, float | None]:
    """The mean over samples of each layer, in the order in which they run; None where no sample counts."""
    sums: dict[str, Tensor] = {}
    with _watched(layers) as given:
        for batch in view.batches():
            view.outputs(batch.x)
            for name, values in given.items():
                sums[name] = sums.get(name, 0) + torch.stack(
                    [values.nansum(), (~values.isnan()).double().sum()]
                )
            given.clear()
    pairs = {name: pair.tolist() for name, pair in sums.items()}
    return {name: total / count if count else None for name, (total, count) in pairs.items()}


@contextmanager
def _watched(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """A dict that each pass fills with the concentrations [B] of these layers; no hook is left behind."""
    given: dict[str, Tensor] = {}

    def watch(name: str, layer: nn.Module) -> Any:
        def hook(layer: nn.Module, inputs: Any, output: Any) -> None:
            # At once, and not the output itself: the next layer may write into it.
            if _has_units(output):
                given[_free_name(name, given)] = concentrations(_unit_means(output))

        return layer.register_forward_hook(hook)

    handles = [watch(name, layer) for name, layer in layers.items()]
    try:
        yield given
    finally:
        for handle in handles:
            handle.remove()


def _is_activation(layer: nn.Module) -> bool:
    return isinstance(layer, ACTIVATIONS) or getattr(layer, "activated", False) is True


def _has_units(output: Any) -> bool:
    """Whether it is [B, d, ...] with d above 1."""
    return (
        isinstance(output, Tensor) and output.is_floating_point() and output.ndim > 1 and output.shape[1] > 1
    )


def _unit_means(output: Tensor) -> Tensor:
    return output.mean(tuple(range(2, output.ndim))) if output.ndim > 2 else output


def _free_name(name: str, taken: Collection[str]) -> str:
    names = itertools.chain([name], (f"{name}:{call}" for call in itertools.count(2)))
    return next(one for one in names if one not in taken)


def _nothing_found(module: nn.Module, patterns: Sequence[str] | None) -> str:
    if patterns is not None:
        return f"{WHERE}: layers = {short(list(patterns))} must fit a layer that runs and has 2 units or more"
    names = [name for name, _ in module.named_modules() if name]
    return f'{WHERE}: {type(module).__name__} has no activation layer of 2 units or more; name other layers by {{ concentration = {{ layers = "..." }} }}, {legal_words("", names)}'
