"""Client-level differential privacy of updates (DP-FedAvg): McMahan et al. 2018, arXiv:1710.06963, Algorithm 1."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.util import find_spec
from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part
from counterpoise.core.tree import Params, Tree, mix
from counterpoise.errors import ConfigError
from counterpoise.parts.robust import clip_rows, for_all
from counterpoise.registry.schema import Interval, Positive

Noise = Annotated[float, Interval(0, 1e6)]
Chance = Annotated[float, Interval(0, 1, open_low=True, open_high=True)]
TOO_LITTLE = 1e-100  # noise whose square is 0: no privacy


@part(paper="McMahan et al. 2018, arXiv:1710.06963")
def dp(clip: Positive = 1.0, noise: Noise = 1.0, delta: Chance = 1e-5) -> Part:
    """``delta <- (sum_k delta_k min(1, clip / |delta_k|) + noise clip N(0, I)) / M``, M the clients that a round asks.

    Every client counts alike, whatever the method's weighting. M is the expected size of a cohort, not the number of
    replies, which would itself tell something of the clients. Later rules see only the noised mean.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        check_installed()
        eligible = int((census.samples > 0).sum())
        counts = {"rounds": 0, "asked": census.cohort or eligible, "eligible": eligible}
        return {name: torch.tensor(count) for name, count in counts.items()}

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> Tensor:
        return torch.full_like(weights, 1 / len(weights))

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        count, asked = len(exchange.weights), int(slot["asked"])
        shares = torch.full((count,), 1 / asked, dtype=torch.float64)
        mean = mix(shares, clip_rows(deltas, clip, count))
        noised = add_noise(mean, noise * clip / asked, exchange.stream()) if noise else mean
        return {name: for_all(noised[name], leaf) for name, leaf in deltas.items()}

    def update(mean: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        # Rounds that came to nothing count too: that they did may depend on the clients.
        return mean, {**slot, "rounds": torch.full_like(slot["rounds"], exchange.round + 1)}

    def after(slot: Tree, rounds: int) -> float:
        return epsilon(noise, int(slot["asked"]) / int(slot["eligible"]), rounds, delta)

    def spent(slot: Tree) -> Tensor:
        return torch.tensor(after(slot, int(slot["rounds"])), dtype=torch.float64)

    def foretell(slot: Tree, rounds: int) -> str:
        return f"epsilon {after(slot, rounds):.4g} at delta {delta:g} after {rounds} rounds that ask {int(slot['asked'])} of {int(slot['eligible'])} clients each"

    chart = Chart("epsilon", "curve", f"Privacy spent so far: epsilon at delta = {delta:g}", spent)
    return Part(
        init=init,
        weigh=weigh,
        treat=treat,
        update=update,
        foretell=foretell,
        charts=(chart,),
        uploads=False,
        private=True,
    )


def add_noise(mean: Params, deviation: float, stream: torch.Generator) -> Params:
    """Gaussian noise on every coordinate; drawn on the CPU in order of names, so that every engine adds the same."""
    noise = {
        name: torch.randn(mean[name].shape, generator=stream, dtype=torch.float64) for name in sorted(mean)
    }
    return {name: leaf + (deviation * noise[name]).to(leaf.device, leaf.dtype) for name, leaf in mean.items()}


@lru_cache(maxsize=4096)
def epsilon(noise: float, rate: float, rounds: int, delta: float) -> float:
    """Of so many rounds of the Gaussian mechanism, each on a Poisson sample of the clients; neighbours differ by one client."""
    if not rounds:
        return 0.0
    if noise < TOO_LITTLE:
        return math.inf
    import dp_accounting
    from absl import logging
    from dp_accounting import rdp

    shown = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # it warns of each order that it leaves out, which is safe
    try:
        accountant = rdp.RdpAccountant()
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        return float(accountant.compose(sampled, rounds).get_epsilon(delta))
    finally:
        logging.set_verbosity(shown)


def check_installed() -> None:
    """Refuse a run whose privacy could not be told, before anything runs."""
    if find_spec("dp_accounting") is None:
        raise ConfigError("dp needs dp-accounting: pip install 'counterpoise[privacy]'")
