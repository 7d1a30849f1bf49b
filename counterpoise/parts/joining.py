"""What a federation is compared with: every client alone, or all samples in one place."""

from __future__ import annotations

from counterpoise.core.method import part
from counterpoise.core.part import Census, Part
from counterpoise.core.tree import Params, Tree, kept_model, own_model


@part()
def trained_alone() -> Part:
    """``y_k <- y_k - lr g_k(y_k)``: each client goes on from its own model, which it keeps; nothing is sent or averaged.

    It starts from the run's first model. What stands under [local] acts on it, such as momentum and weight decay.
    """

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return kept_model(params, buffers)

    def note(census: Census) -> str:
        return f"nothing is averaged: scores are means over {census.eligible} models, one per client"

    return Part(enroll=enroll, own=own_model, note=note, alone=True)


@part()
def pooled_data() -> Part:
    """``x <- x - lr g(x)`` on the samples of all clients in one place, with as many steps a round as its clients would take in all."""

    def note(census: Census) -> str:
        return "the samples of all clients lie in one place: this is what a federation is compared with, and not one"

    return Part(note=note, pools=True)
