"""Probes of a model: what they look at, and the numbers that they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.measure import batches_to_score
from counterpoise.core.tree import Params
from counterpoise.data.dataset import Samples, Scaling
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.metrics.probe import Numbers, Probe, View


def look(
    model: FunctionalModel,
    params: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    probes: Sequence[Probe],
) -> dict[str, Numbers]:
    """Probe name -> its numbers, each of a copy of the model of its own; what is not finite becomes None."""
    found: dict[str, Numbers] = {}
    with torch.no_grad():
        for probe in probes:
            module, outputs = model.load_scored(params, buffers)
            seen = probe.look(View(module, outputs, partial(batches_to_score, model, samples, scaling)))
            found[probe.name] = {name: _finite(value) for name, value in seen.items()}
    return found


def names_given(
    model: FunctionalModel, federation: Federation, probes: Sequence[Probe]
) -> dict[str, list[str]]:
    """Probe name -> names of its numbers, by a look at one sample; a probe that does not fit raises its error."""
    samples = server_samples(federation)
    for probe in probes:
        check_samples(samples, probe)
    one = Samples(samples.x[:1], samples.y[:1])
    found = look(model, model.params(), model.buffers(), one, federation.scaling, probes)
    return {name: list(numbers) for name, numbers in found.items()}


def server_samples(federation: Federation) -> Samples:
    """The server's validation samples, else the test set."""
    own = federation.validation
    return federation.test if own is None or not len(own.y) else own


def check_samples(samples: Samples, probe: Probe) -> None:
    """A server may have no data of its own."""
    if not len(samples.y):
        raise ConfigError(
            f"evaluate.probes: {probe.name} needs samples of the server's own, and it has none; give it a test set, or leave the probe out"
        )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
