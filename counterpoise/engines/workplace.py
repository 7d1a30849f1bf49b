"""What every engine shares: the protocol of an engine, and what never changes during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.measure import outputs_of
from counterpoise.client.plan import epoch_steps
from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast
from counterpoise.core.method import Method
from counterpoise.core.part import Outputs
from counterpoise.core.protocol import Ask, Rejection
from counterpoise.core.tree import Tree, tmap
from counterpoise.data.augment import Augmentation, Draws
from counterpoise.data.federation import Federation
from counterpoise.engines.memories import Memories
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.system.capacity import check_fits, in_words


class Engine(Ask, Protocol):
    """An engine with what a run keeps of it."""

    @property
    def memory(self) -> Memories:
        """What a checkpoint stores of each client: its memory, or the name of it where the client keeps it on its own disk."""

    @property
    def refused(self) -> Sequence[Rejection]:
        """Replies of the last training that the engine rejected."""

    @property
    def tallied(self) -> Mapping[str, Any]:
        """How the tallies before round 0 were added up, and what that cost; empty where no part asks."""

    def close(self) -> None:
        """Stop processes and release memory."""


@dataclass(frozen=True)
class Workplace:
    """Method, model, settings and data of a run: what never changes during it."""

    method: Method
    model: FunctionalModel
    local: Local
    federation: Federation
    seed: int
    augment: Augmentation | None = None
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    # In which joined runs differ; see core/variants.py
    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def inputs(self, rows: Tensor, draws: Draws) -> Tensor:
        """Model inputs of training rows [...], augmented by draws [..., *]."""
        data = self.federation.train.x
        raw = data.index_select(0, rows.flatten()).view(*rows.shape, *data.shape[1:])
        if self.augment is not None:
            flat = self.augment.apply(
                raw.flatten(0, rows.dim() - 1), tmap(lambda d: d.flatten(0, rows.dim() - 1), draws)
            )
            raw = flat.view(raw.shape)
        return raw if self._is_scaled else self.federation.scaling(raw)

    @cached_property
    def _is_scaled(self) -> bool:
        """Whether the data needs no scaling."""
        scale, shift = self.federation.scaling
        plain = bool((scale == 1).all()) and bool((shift == 0).all())
        return plain and self.federation.train.x.dtype == scale.dtype

    @property
    def device(self) -> torch.device:
        return self.federation.train.x.device

    def place(self, tree: Tree) -> Tree:
        """A tree moved to the device of the training data."""
        return tmap(lambda leaf: leaf.to(self.device, non_blocking=True), tree)

    def outputs_on(
        self, broadcast: Broadcast, rows: Tensor, stream: torch.Generator | None = None
    ) -> Outputs:
        """The received model's outputs on training rows, augmented by draws of a stream where one is given; on the CPU."""
        data, scaling = self.federation.train.x, self.federation.scaling
        x = data.index_select(0, rows.to(data.device))
        if stream is not None and self.augment is not None:
            draws = self.augment.draw(len(rows), self.federation.input_shape, stream)
            x = self.augment.apply(x, self.place(draws))
        found = outputs_of(self.model, broadcast.params, broadcast.buffers, x, scaling)
        return Outputs(found.logits.cpu(), found.features.cpu())

    def steps(self, samples: float) -> int:
        """Local steps of a round on so many samples."""
        return self.local.epochs * epoch_steps(samples, self.local.batch_size, self.local.batching)

    @cached_property
    def local_numbers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Momentum, epochs and batch size, the same for every client and round."""
        return self.like(self.local.momentum), self.like(self.local.epochs), self.like(self.local.batch_size)

    def like(self, value: float) -> Tensor:
        """A number as a tensor of the model's type."""
        return torch.full((), value, dtype=self.model.dtype)


def check_replies_fit(tasks: int, size: int) -> None:
    """Refuse a cohort whose replies of `size` bytes each do not fit into memory together."""
    check_fits(tasks * size, f"cohort.size: a round of {tasks:,} trainings, {in_words(size)} each,")
