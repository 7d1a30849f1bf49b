"""Data split among clients: one tensor holds all samples, and a client is a vector of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from counterpoise.core.part import ClientData
from counterpoise.data import check
from counterpoise.data.dataset import Samples, Scaling, Source


@dataclass(frozen=True)
class Federation:
    """Clients' training rows, the held-out rows of clients and server, and the test set."""

    train: Samples
    test: Samples
    classes: tuple[str, ...]
    scaling: Scaling
    clients: tuple[Tensor, ...]  # rows of `train`, one vector per client
    held_out: tuple[Tensor, ...] = ()  # rows each client keeps for validation
    validation: Samples | None = None  # the server's, disjoint from the clients'
    name: str = ""
    client_names: tuple[str, ...] = ()  # where clients have names of their own
    files: Mapping[str, str] = field(default_factory=dict)  # file name -> SHA-256
    notes: tuple[str, ...] = ()
    source: Source = field(default_factory=Source)

    def __repr__(self) -> str:
        """In words: a notebook shows the last value of a cell, and samples fill pages."""
        sizes = [len(rows) for rows in self.clients]
        span = f"{min(sizes, default=0):,} to {max(sizes, default=0):,}"
        return (
            f"{self.name or 'federation'}: {len(sizes):,} clients with {span} training samples, {sum(sizes):,} in all;"
            f" {len(self.test.y):,} test samples, {len(self.classes)} classes"
        )

    def check_samples(self) -> None:
        """Refuse samples and labels that do not fit together: a federation may be built by hand."""
        for half in ("train", "test", "validation"):
            if (samples := getattr(self, half)) is not None:
                where = f"{self.name or 'federation'}: {half}"
                check.pair(where, *samples)
                check.labels(where, samples.y, len(self.classes))

    def holders(self) -> list[int]:
        """Clients that hold samples out."""
        return [client for client, rows in enumerate(self.held_out) if len(rows)]

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @cached_property
    def _samples(self) -> Tensor:
        return torch.tensor([len(rows) for rows in self.clients], dtype=torch.int64)

    def samples(self) -> Tensor:
        """[N] training samples of each client."""
        return self._samples

    @cached_property
    def _labels(self) -> Tensor:
        return self.train.y.cpu()

    def counts(self) -> Tensor:
        """[N, C] training samples of each client and class, where this process holds them all."""
        clients, classes = len(self.clients), len(self.classes)
        owner = torch.arange(clients).repeat_interleave(self.samples())
        cell = owner * classes + self._labels[torch.cat([*self.clients, owner[:0]])]
        return torch.bincount(cell, minlength=clients * classes).view(clients, classes)

    def client_counts(self) -> Tensor | None:
        """[N, C] training samples of each client and class; None where they are not known."""
        return self.counts()

    def class_counts(self) -> Tensor | None:
        """[C] training samples of each class; None where they are not known."""
        known = self.client_counts()
        return None if known is None else known.sum(0)

    def client(self, index: int) -> ClientData:
        """A client's rows and labels, on the CPU, where rounds are planned on any device."""
        rows = self.clients[index]
        own = ClientData(rows, self._labels[rows])
        if not self.held_out:
            return own
        held = self.held_out[index].cpu()
        return own._replace(held_out=held, held_out_labels=self._labels[held])

    def to(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Federation:
        """The same data on a device with float inputs as `dtype`; pixels and whole numbers stay so until they are used."""
        move = torch.device(device)
        kind = self._kind(dtype)

        def place(samples: Samples) -> Samples:
            return Samples(samples.x.to(move, kind), samples.y.to(move))

        return replace(
            self,
            train=place(self.train),
            test=place(self.test),
            validation=None if self.validation is None else place(self.validation),
            scaling=self.scaling.to(move, dtype),
            held_out=tuple(rows.to(move) for rows in self.held_out),
        )

    def _halves(self) -> list[Tensor]:
        return [half.x for half in (self.train, self.test, self.validation) if half is not None]

    def _kind(self, dtype: torch.dtype) -> torch.dtype:
        """How inputs are kept: bytes, whole numbers of 64 bits where all are whole, or `dtype`."""
        if self.train.x.dtype == torch.uint8:
            return torch.uint8
        return torch.int64 if all(map(check.is_whole, self._halves())) else dtype

    @property
    def whole(self) -> bool:
        """Whether inputs are kept as whole numbers, as `to` leaves them."""
        return self.train.x.dtype == torch.int64

    def extremes(self) -> Tensor:
        """[2, ...] the largest and the smallest number in each place of a sample, on the CPU."""
        halves = [x for x in self._halves() if len(x)] or [self.train.x.new_zeros(1, *self.input_shape)]
        high, low = ([pick(x, 0).cpu() for x in halves] for pick in (torch.amax, torch.amin))
        return torch.stack([torch.stack(high).amax(0), torch.stack(low).amin(0)])
