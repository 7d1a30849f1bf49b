"""Versions and machine of a run, for its record."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import torch

from counterpoise.models.foreign import code_version
from counterpoise.registry.plugins import plugin_versions
from counterpoise.version import __version__

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors")


def versions(model: str = "") -> dict[str, str]:
    """Versions that must be the same for a run to be repeated bit for bit, of the model's code too where its name says where that is."""
    known = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "counterpoise": __version__,
        "python": platform.python_version(),
        **known,
        **plugin_versions(),
        **code_version(model),
    }


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu": _cpu(),
        "gpu": gpu,
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(
                (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
                platform.processor(),
            )
    except OSError:
        return platform.processor()
