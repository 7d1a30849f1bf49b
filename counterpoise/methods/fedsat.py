"""FedSat: paper 004, with its contradictions resolved as in spec 2.6."""

from __future__ import annotations

from dataclasses import replace

from counterpoise.core.method import Method, Weighting, method
from counterpoise.core.part import Census, Part
from counterpoise.parts.drift_correction import Reference, drift_correction
from counterpoise.parts.prediction_sensitive import prediction_sensitive
from counterpoise.parts.prioritised_weighting import ErrorNorm, prioritised_weighting
from counterpoise.parts.server import optional_server_step
from counterpoise.registry.schema import Count, NonNegative, Positive


@method(paper="FedSat")
def fedsat(
    gamma: NonNegative = 1.0,
    reference: Reference = "displacement",
    sensitive: bool = True,
    workers: Count = 15,
    prioritised: bool = True,
    threshold: Positive = 1.0,
    error_norm: ErrorNorm = "client",
    server_lr: Positive = 1.0,
    weighting: Weighting = "uniform",
) -> Method:
    """Drift correction, prediction-sensitive costs, and weights judged by other clients; without the last two it is the paper's Base.

    Long runs want reference = "control": the weights let few clients decide a round, and local steps that follow the server's last move
    by such a round can diverge.
    """
    parts: list[Part] = [prediction_sensitive()] if sensitive else []
    correction = drift_correction(gamma, reference)
    follows_few = prioritised and reference != "control"
    parts += [replace(correction, note=_warn) if follows_few else correction]
    parts += [prioritised_weighting(workers, threshold, error_norm)] if prioritised else []
    return Method((*parts, *optional_server_step(server_lr)), weighting)


def _warn(census: Census) -> str:
    return "local steps follow the server's last move, which few clients decide here, and long runs can diverge; reference = 'control' did not"
