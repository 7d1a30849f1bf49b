"""SCAFFOLD: Karimireddy et al. 2020, arXiv:1910.06378, Algorithm 1, option II."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.drift import SCAFFOLD, control_variates
from counterpoise.parts.server import optional_server_step
from counterpoise.registry.schema import Positive


@method(paper=SCAFFOLD, renamed={"server": "server_lr"})
def scaffold(server_lr: Positive = 1.0, weighting: Weighting = "uniform") -> Method:
    """``y <- y - lr (g + c - c_k)``, ``x <- x + server_lr * mean_S (y_k - x)``; use it without local momentum."""
    return Method((control_variates(), *optional_server_step(server_lr)), weighting)
