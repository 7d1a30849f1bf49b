"""What was asked of a simulation, in the form of a config: by it runs from Python are told apart, as those in folders are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, SupportsFloat

import torch
from torch import nn

from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec
from counterpoise.data.federation import Federation
from counterpoise.data.skew import describe, imbalance_of
from counterpoise.engines.choose import EngineSettings
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.registry.settings import settings_of
from counterpoise.server.cohort import Cohort

MODEL_KEYS = ("weights", "freeze", "head")
DIGITS = 3  # of measured numbers in labels


class Asked(NamedTuple):
    """Settings as they were asked for; a simulation may hold others, such as the cohort of a pooled run."""

    engine: EngineSettings
    local: Local
    cohort: Cohort
    privacy: PrivacySettings


def read_settings(engine: Any = None, local: Any = None, cohort: Any = None, privacy: Any = None) -> Asked:
    """Each as it is, or of a dict as in a config; an engine may be its name and a cohort its size."""
    return Asked(
        settings_of(EngineSettings, engine, "name"),
        settings_of(Local, local),
        settings_of(Cohort, cohort, "size"),
        settings_of(PrivacySettings, privacy),
    )


def asked_config(
    federation: Federation,
    method: MethodSpec | Method,
    model: str | nn.Module,
    asked: Asked,
    settings: Mapping[str, Any],
    **given: Any,
) -> dict[str, Any]:
    """The tables of what `simulate` was given; how it is executed is left out."""
    named = {"name": model if isinstance(model, str) else type(model).__name__}
    return {
        **given,
        "method": _spec_of(method),
        "model": named | {key: settings.get(key) for key in MODEL_KEYS},
        "local": asdict(asked.local),
        "cohort": asdict(asked.cohort),
        "privacy": asdict(asked.privacy),
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
