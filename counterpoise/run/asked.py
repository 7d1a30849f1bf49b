"""What was asked of a simulation, in the form of a config: by it runs from Python are told apart, as those in folders are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, SupportsFloat

import torch
from torch import nn

from counterpoise.core.method import Method, MethodSpec
from counterpoise.data.federation import Federation
from counterpoise.data.skew import describe, imbalance_of
from counterpoise.run.simulation import Simulation

MODEL_KEYS = ("weights", "freeze", "head")
DIGITS = 3  # of measured numbers in labels


def asked_config(
    simulation: Simulation,
    federation: Federation,
    method: MethodSpec | Method,
    model: str | nn.Module,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The tables of what `simulate` was given; how it is executed is left out.

    The federation is the given one: that of a pooled simulation has all samples on one client.
    """
    named = {"name": model if isinstance(model, str) else type(model).__name__}
    return {
        "rounds": simulation.rounds,
        "seed": simulation.seed,
        "patience": simulation.patience,
        "method": _spec_of(method),
        "model": named | {key: settings.get(key) for key in MODEL_KEYS},
        "local": asdict(simulation.work.local),
        "cohort": asdict(simulation.cohort),
        "privacy": asdict(simulation.work.privacy),
        **_tables_of(federation),
    }


def _spec_of(method: MethodSpec | Method) -> MethodSpec:
    """A method as a config writes it; of one that was put together by hand only the name is known."""
    if not isinstance(method, Method):
        return method
    return [{name: dict(arguments)} for name, arguments in method.spec] or method.name


def _tables_of(federation: Federation) -> dict[str, Any]:
    """A federation does not know how it was made; these numbers tell most of them apart."""
    labels, classes = federation.train.y.cpu(), len(federation.classes)
    imbalance = imbalance_of(torch.bincount(labels, minlength=classes).numpy())
    divergence = describe(federation.counts().numpy()).summary()["divergence"]
    return {
        "data": {"name": federation.name, "samples": len(labels), "imbalance": _rounded(imbalance)},
        "partition": {"clients": len(federation.clients), "divergence": _rounded(divergence)},
    }


def _rounded(number: SupportsFloat) -> float:
    return float(f"{float(number):.{DIGITS}g}")
