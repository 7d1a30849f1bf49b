"""What an imbalance is: a rule that keeps some rows of each class of the training set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterpoise.data.partition import Labels, Rows
from counterpoise.registry.registry import Registry

Imbalance = Callable[[Labels, np.random.Generator], Rows]  # labels, stream -> sorted rows to keep


IMBALANCES: Registry[Imbalance] = Registry("imbalance", ["counterpoise.data.imbalances"])
imbalance = IMBALANCES.register


def imbalance_ratio(given: float) -> float:
    """Largest over smallest class, at least 1; papers that print smallest over largest give values below 1."""
    return given if given >= 1 else 1 / given
