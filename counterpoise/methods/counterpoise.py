"""The package's own composition, found on validation samples (docs/methods/counterpoise.md)."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.counts import Counts
from counterpoise.parts.drift_correction import Reference, drift_correction
from counterpoise.parts.losses import balanced_softmax
from counterpoise.parts.server import optional_server_step
from counterpoise.registry.schema import NonNegative, Positive


@method(paper="docs/methods/counterpoise.md", off={"tau": 0.0, "gamma": 0.0})
def counterpoise(
    tau: NonNegative = 1.0,
    gamma: NonNegative = 1.0,
    counts: Counts = "local",
    reference: Reference = "displacement",
    server_lr: Positive = 1.0,
    weighting: Weighting = "uniform",
) -> Method:
    """``CE(z + tau log n_k)`` with the client's own counts, steps along ``g + gamma (v - v_k)``, the plain mean of updates.

    The loss makes up for classes that a client has few of or lacks, so that its head does not forget them; the correction for what is
    left of its drift. tau = 0 is FedSat's Base, gamma = 0 FedAvg with `balanced_softmax`.
    """
    parts = balanced_softmax(tau, counts), drift_correction(gamma, reference)
    return Method((*parts, *optional_server_step(server_lr)), weighting)
