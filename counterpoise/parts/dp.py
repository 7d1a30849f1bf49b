"""Client-level differential privacy of updates (DP-FedAvg): McMahan et al. 2018, arXiv:1710.06963, Algorithm 1."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.util import find_spec
from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.codec import digest
from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part, Privacy
from counterpoise.core.secret import SecretKey
from counterpoise.core.tree import Params, Tree, clip_rows, mix
from counterpoise.errors import ConfigError
from counterpoise.parts.robust import for_all
from counterpoise.registry.schema import Interval, Positive

Multiplier = Annotated[float, Interval(0, 1e6)]
Chance = Annotated[float, Interval(0, 1, open_low=True, open_high=True)]
TOO_LITTLE = 1e-100  # noise whose square is 0: no privacy
APPROXIMATE = 'an approximation, as the bound is of cohort.sampling = "bernoulli"'
REPEATABLE = 'noise = "repeatable" comes from the seed, and protects nobody from those who know the seed'


@part(paper="McMahan et al. 2018, arXiv:1710.06963")
def dp(
    clip: Positive = 1.0, noise_multiplier: Multiplier = 1.0, delta: Chance = 1e-5, noise: Privacy = "secret"
) -> Part:
    """``delta <- (sum_k delta_k min(1, clip / |delta_k|) + noise_multiplier clip N(0, I)) / M``, M the clients that a round asks.

    Every client counts alike, whatever the method's weighting. M is the expected size of a cohort, not the number of
    replies, which would itself tell something of the clients. Later rules see only the noised mean. Noise and cohorts are drawn by a
    secret key of the server, or, `noise = "repeatable"`, by the seed: then whoever knows it can subtract the noise.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        check_installed()
        counts = {"rounds": 0, "asked": census.asked, "eligible": census.eligible}
        return {name: torch.tensor(count) for name, count in counts.items()}

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        # All replies become the same noised mean: one of them is it, and a mean over them would round it again.
        return torch.cat([torch.ones_like(weights[:1]), torch.zeros_like(weights[1:])]), slot

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        count, asked = len(exchange.weights), int(slot["asked"])
        shares = torch.full((count,), 1 / asked, dtype=torch.float64)
        mean = mix(shares, clip_rows(deltas, clip, count))
        if noise_multiplier:
            mean = add_noise(mean, noise_multiplier * clip / asked, key_of(mean, exchange))
        return {name: for_all(mean[name], leaf) for name, leaf in deltas.items()}

    def key_of(mean: Params, exchange: Exchange) -> SecretKey:
        if noise == "repeatable":
            return SecretKey.of_seed(exchange.seed).derive("dp", exchange.round)
        # By the mean too: a round that a resumed run repeats with other replies must not show their difference.
        return exchange.secret_key(digest(mean))

    def update(mean: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        # Rounds that came to nothing count too: that they did may depend on the clients.
        return mean, {**slot, "rounds": torch.full_like(slot["rounds"], exchange.round + 1)}

    def spent(slot: Tree) -> Tensor:
        rate, rounds = int(slot["asked"]) / int(slot["eligible"]), int(slot["rounds"])
        return torch.tensor(epsilon(noise_multiplier, rate, rounds, delta), dtype=torch.float64)

    def note(census: Census) -> str:
        total = epsilon(noise_multiplier, census.asked / census.eligible, census.rounds, delta)
        told = f"epsilon {total:.4g} at delta {delta:g} after {census.rounds} rounds that ask {census.asked} of {census.eligible} clients each"
        sampled = census.asked < census.eligible and not census.poisson
        cautions = [APPROXIMATE] * sampled + [REPEATABLE] * (noise == "repeatable")
        return "; ".join([told, *cautions])

    chart = Chart("epsilon", "curve", f"Privacy spent so far: epsilon at delta = {delta:g}", spent)
    return Part(init=init, weigh=weigh, treat=treat, update=update, note=note, charts=(chart,), private=noise)


def add_noise(mean: Params, deviation: float, key: SecretKey) -> Params:
    """Gaussian noise on every coordinate, by the names of the parameters; drawn on the CPU, so that every engine adds the same."""
    noise = {name: deviation * key.derive("noise", name).gaussian(leaf.shape) for name, leaf in mean.items()}
    return {name: (leaf.cpu().double() + noise[name]).to(leaf) for name, leaf in mean.items()}


@lru_cache(maxsize=4096)
def epsilon(noise_multiplier: float, rate: float, rounds: int, delta: float) -> float:
    """Of so many rounds of the Gaussian mechanism, each on a Poisson sample of the clients; neighbours differ by one client."""
    if not rounds:
        return 0.0
    if noise_multiplier < TOO_LITTLE:
        return math.inf
    check_installed()
    import dp_accounting
    from absl import logging
    from dp_accounting import rdp

    shown = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # it warns of each order that it leaves out, which is safe
    try:
        accountant = rdp.RdpAccountant()
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier))
        return float(accountant.compose(sampled, rounds).get_epsilon(delta))
    finally:
        logging.set_verbosity(shown)


def check_installed() -> None:
    """Refuse a run whose privacy could not be told, before anything runs."""
    if find_spec("dp_accounting") is None:
        raise ConfigError("dp needs dp-accounting: pip install 'counterpoise[privacy]'")
