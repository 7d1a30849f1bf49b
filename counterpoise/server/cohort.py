"""Which clients a round asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.registry.arguments import MAX_INFLUENCE


@dataclass(frozen=True)
class Cohort:
    """Which clients a round asks, `size` of them or each by itself with chance size / N, and what one of them may weigh."""

    size: int | None = None  # None: every client
    sampling: Literal["exact", "bernoulli"] = "exact"
    max_influence: float = MAX_INFLUENCE  # an update's length, in medians of its round; 0: no bound

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise ConfigError(f"cohort size = {self.size} is not legal; legal: at least 1")
        if self.max_influence and not self.max_influence >= 1:
            raise ConfigError(
                f"cohort max_influence = {self.max_influence} must be at least 1, or 0 for no bound"
            )

    def draw(self, seed: int, round: int, samples: Tensor) -> list[int]:
        """Sorted clients of a round; a client without samples is never asked."""
        eligible = torch.nonzero(samples > 0).flatten()
        size = len(eligible) if self.size is None else min(self.size, len(eligible))
        order = torch.randperm(len(eligible), generator=generator(seed, "cohort", round))
        if self.sampling == "bernoulli":
            luck = torch.rand(len(eligible), generator=generator(seed, "cohort luck", round))
            size = max(int((luck < size / max(len(eligible), 1)).sum()), min(1, len(eligible)))
        return sorted(eligible[order[:size]].tolist())
