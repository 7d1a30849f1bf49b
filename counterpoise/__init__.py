"""Federated learning under class imbalance: methods, baselines, data protocols and honest comparisons.

Importing this package imports nothing else: names are looked up when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterpoise.version import __version__

if TYPE_CHECKING:
    from counterpoise.advice.api import advise
    from counterpoise.api import load_data, simulate, split
    from counterpoise.core.local import Local
    from counterpoise.core.method import METHODS, PARTS, Method, build_method, compose, method, part
    from counterpoise.core.part import Part
    from counterpoise.data.dataset import DATASETS, Dataset, Samples
    from counterpoise.data.federation import Federation
    from counterpoise.data.partition import PARTITIONS
    from counterpoise.engines.choose import EngineSettings
    from counterpoise.models.inputs import SeveralInputs, pack_inputs
    from counterpoise.models.model import MODELS
    from counterpoise.report.table import table
    from counterpoise.server.cohort import Cohort
    from counterpoise.trained.load import load_run

_HOMES = {
    "advise": "advice.api",
    "load_data": "api",
    "split": "api",
    "simulate": "api",
    "Local": "core.local",
    "METHODS": "core.method",
    "PARTS": "core.method",
    "Method": "core.method",
    "build_method": "core.method",
    "compose": "core.method",
    "method": "core.method",
    "part": "core.method",
    "Part": "core.part",
    "DATASETS": "data.dataset",
    "Dataset": "data.dataset",
    "Samples": "data.dataset",
    "Federation": "data.federation",
    "PARTITIONS": "data.partition",
    "EngineSettings": "engines.choose",
    "SeveralInputs": "models.inputs",
    "pack_inputs": "models.inputs",
    "MODELS": "models.model",
    "table": "report.table",
    "Cohort": "server.cohort",
    "load_run": "trained.load",
}

__all__ = [
    "DATASETS",
    "METHODS",
    "MODELS",
    "PARTITIONS",
    "PARTS",
    "Cohort",
    "Dataset",
    "EngineSettings",
    "Federation",
    "Local",
    "Method",
    "Part",
    "Samples",
    "SeveralInputs",
    "__version__",
    "advise",
    "build_method",
    "compose",
    "load_data",
    "load_run",
    "method",
    "pack_inputs",
    "part",
    "simulate",
    "split",
    "table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'counterpoise' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"counterpoise.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
