"""Parts that plan for the number of rounds: what they do depends on how many there will be."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoise.core.codec import digest
from counterpoise.core.method import Method
from counterpoise.core.part import Census
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import ConfigError
from counterpoise.server.round import first_slots


def planning_part(
    method: Method, params: Params, census: Census, known: Mapping[str, Tree], rounds: int
) -> str | None:
    """The first part that would begin with another slot in a run of so many rounds; only `init` is told their number."""
    ours, theirs = (
        first_slots(method, params, one, known) for one in (census, census._replace(rounds=rounds))
    )
    return next((name for name in ours if digest(ours[name]) != digest(theirs[name])), None)


def check_patience(
    patience: int | None, method: Method, params: Params, census: Census, known: Mapping[str, Tree]
) -> None:
    """A run that ends early may never come to what a part does after a share of all rounds."""
    if patience is None:
        return
    if (part := planning_part(method, params, census, known, 2 * census.rounds)) is not None:
        raise ConfigError(
            f"patience = {patience} does not go with {part}, which plans for all {census.rounds} rounds"
        )
