"""The figures of a federation that rules look at: how imbalanced, how skewed, how large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from counterpoise.data.federation import Federation
from counterpoise.data.skew import describe
from counterpoise.errors import ConfigError, few_digits


class Figures(NamedTuple):
    """What the rules may ask; counts are of training samples."""

    samples: int
    classes: int
    clients: int
    asked: int  # clients of a round
    imbalance: float  # largest over smallest class
    largest: str  # name of the largest class
    rarest: str
    rarest_samples: int
    divergence: float  # mean Jensen-Shannon divergence of a client's classes from all, 0 to 1
    missing: float  # mean share of classes that a client lacks
    smallest_client: int
    largest_client: int

    @property
    def words(self) -> Iterator[str]:
        """One line for each thing that was looked at."""
        yield f"{self.samples:,} training samples of {self.classes} classes on {self.clients} clients of {self.smallest_client:,} to {self.largest_client:,}, {self.asked} of them per round"
        yield f"imbalance {few_digits(self.imbalance)} to 1: {self.largest} is the largest class, {self.rarest} the rarest with {self.rarest_samples:,} samples"
        yield f"skew between clients {self.divergence:.2f} (Jensen-Shannon divergence, 0 to 1); a client lacks {self.missing:.0%} of the classes on average"


def figures_of(federation: Federation, cohort: int | None = None) -> Figures:
    """The figures of a federation of which this process holds all samples."""
    counts = federation.counts().numpy()
    totals, skew = counts.sum(0), describe(counts)
    present = [place for place, total in enumerate(totals.tolist()) if total]
    if len(present) < 2:
        raise ConfigError(
            f"advise needs two classes or more with training samples; {federation.name or 'the federation'} has {len(present)}"
        )
    rarest = min(present, key=lambda place: int(totals[place]))
    return Figures(
        samples=int(totals.sum()),
        classes=len(present),
        clients=len(counts),
        asked=min(cohort or len(counts), len(counts)),
        imbalance=skew.global_imbalance,
        largest=federation.classes[int(totals.argmax())],
        rarest=federation.classes[rarest],
        rarest_samples=int(totals[rarest]),
        divergence=skew.summary()["divergence"],
        missing=float(skew.missing_classes.mean()) / len(present),
        smallest_client=int(skew.sizes.min()),
        largest_client=int(skew.sizes.max()),
    )
