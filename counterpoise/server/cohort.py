"""The cohort of a round: how many clients, and which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from counterpoise.core.rng import generator
from counterpoise.registry.schema import Count, Interval
from counterpoise.registry.settings import Settings

MAX_INFLUENCE = 10.0  # longest update, in medians of its round
Influence = Annotated[float, Interval(0, 0)] | Annotated[float, Interval(1)]


@dataclass(frozen=True)
class Cohort(Settings, table="cohort"):
    """Which clients train in a round."""

    size: Annotated[Count | None, "clients per round; by default all"] = None
    sampling: Annotated[
        Literal["exact", "bernoulli"], "exactly `size` clients, or each with chance size / N"
    ] = "exact"
    max_influence: Annotated[
        Influence,
        "longest update, in medians of its round (of three replies or more; of an even number the lower of the middle two); longer ones are scaled down to it; 0: no bound; `dp` has its own bound instead",
    ] = MAX_INFLUENCE

    def expected(self, samples: Tensor) -> int:
        """Clients of a round, on average over draws."""
        eligible = int((samples > 0).sum())
        return eligible if self.size is None else min(self.size, eligible)

    def draw(self, seed: int, round: int, samples: Tensor) -> list[int]:
        """Sorted clients of a round; a client without samples is never drawn."""
        eligible = torch.nonzero(samples > 0).flatten()
        size = self.expected(samples)
        order = torch.randperm(len(eligible), generator=generator(seed, "cohort", round))
        if self.sampling == "bernoulli":
            drawn = torch.rand(len(eligible), generator=generator(seed, "cohort luck", round))
            size = max(int((drawn < size / max(len(eligible), 1)).sum()), min(1, len(eligible)))
        return sorted(eligible[order[:size]].tolist())
