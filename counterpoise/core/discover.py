"""Import every module of a package, so that what it registers is found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable


def import_modules(package: str, paths: Iterable[str]) -> None:
    for module in pkgutil.iter_modules(paths):
        importlib.import_module(f"{package}.{module.name}")
