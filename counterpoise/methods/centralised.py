"""Training on pooled samples: what could be had if the data were in one place."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.joining import pooled_data


@method()
def centralised(weighting: Weighting = "samples") -> Method:
    """``x <- x - lr g(x)`` on the samples of all clients in one place; whoever trains it sees all of them.

    A round takes as many steps as the clients of its cohort would take together: ``sum_k epochs ceil(n_k / batch_size)``. There is nothing to weigh:
    `weighting` only lets it stand in a list with others.
    """
    return Method((pooled_data(),), weighting)
