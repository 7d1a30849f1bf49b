"""The table [privacy] of a config: how whole numbers are added up over clients before round 0."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Literal, TypeAlias

from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Interval
from counterpoise.registry.settings import Settings

Histogram: TypeAlias = Literal["plain", "masks", "bfv"]
NEEDS = {"masks": "cryptography", "bfv": "tenseal"}  # the package behind a mode


@dataclass(frozen=True)
class PrivacySettings(Settings, table="privacy"):
    """What the server learns of the clients' class counts."""

    histogram: Annotated[
        Histogram,
        "plain: the server sees every client's counts; masks: only their sum, by pairwise masks; bfv: only their sum, by homomorphic encryption",
    ] = "plain"
    epsilon: Annotated[
        Annotated[float, Interval(0.001, 100)] | None,
        "differential privacy of the summed class counts: discrete Laplace noise, one sample more or less; by default none",
    ] = None

    @property
    def in_messages(self) -> bool:
        """Whether clients take part in a protocol, rather than just saying their counts."""
        return self.histogram != "plain" or self.epsilon is not None

    def check_installed(self) -> None:
        package = NEEDS.get(self.histogram, "")
        if package and find_spec(package) is None:
            raise ConfigError(
                f'privacy.histogram = "{self.histogram}" needs the package {package}: pip install "counterpoise[privacy]"'
            )
