"""Training alone: what each client has without the others."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.joining import trained_alone


@method()
def local(weighting: Weighting = "samples") -> Method:
    """``y_k <- y_k - lr g_k(y_k)``: each client trains a model of its own, and nothing is sent; scores are means over these models.

    A client takes the steps that it would take in a federation: those of the rounds in which it is drawn. There is nothing to weigh:
    `weighting` only lets it stand in a list with others.
    """
    return Method((trained_alone(),), weighting)
