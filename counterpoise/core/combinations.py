"""Which parts go together: what would silently do nothing, or twice what only one part may do, is refused with the way out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from counterpoise.core.part import Part
from counterpoise.errors import ConfigError, short

SINGLE_OWNER = ("propose", "loss", "gradient", "choose")
SERVER_RULES = ("propose", "choose", "weigh", "treat", "update", "present")
# Hook -> how a part that fills it leads the model by more than the mean of the updates
UNPROTECTED = {
    "survey": "asks clients about their samples",
    "tally": "sums up what clients have",
    "choose": "chooses among the replies of clients",
    "weigh": "weighs clients by what they have",
    "treat": "treats the updates too",
    "finish": "may have clients send more than their update",
}


def check_combination(parts: Sequence[Part]) -> None:
    """Refuse parts that cannot be in one method."""
    _refuse_twice(parts)
    _refuse_two_owners(parts)
    _refuse_two_directions([part.name for part in parts if part.follows_server])
    _check_order(parts)
    _check_alone(parts)
    _check_private(parts)
    search, keeper = filling(parts, "choose"), filling(parts, "enroll")
    if search is not None and keeper is not None:
        raise ConfigError(
            f"{search.name} tries settings out, and {keeper.name} keeps one memory per client, which a trial would change; use only one of them"
        )


def filling(parts: Sequence[Part], hook: str) -> Part | None:
    """The first part that fills a hook; hooks with a single owner have no other."""
    return next(iter(all_filling(parts, hook)), None)


def all_filling(parts: Sequence[Part], hook: str) -> list[Part]:
    """The parts that fill a hook."""
    return [part for part in parts if getattr(part, hook) is not None]


def marked(parts: Sequence[Part], mark: str) -> Part | None:
    """The first part that says this of itself."""
    return next((part for part in parts if getattr(part, mark)), None)


def _refuse_twice(parts: Sequence[Part]) -> None:
    names = [part.name for part in parts]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            raise ConfigError(f"part {short(name)} is listed twice; keep one of the two")


def _refuse_two_owners(parts: Sequence[Part]) -> None:
    for hook in SINGLE_OWNER:
        owners = [part.name for part in all_filling(parts, hook)]
        if len(owners) > 1:
            raise ConfigError(
                f"{' and '.join(owners)} each set the {hook}, and only one part may; keep one of: {', '.join(owners)}"
            )


def _refuse_two_directions(followers: Sequence[str]) -> None:
    """The later one would mix a direction of the server into what already holds one."""
    if len(followers) > 1:
        raise ConfigError(
            f"{' and '.join(followers)} each lead local steps by the server's last direction, and only one part may; keep one of: {', '.join(followers)}"
        )


def _check_order(parts: Sequence[Part]) -> None:
    """Labels change first, since whoever prepares samples goes by them; a shift of the last layer comes after whoever sets that layer anew."""
    for before, after in pairwise(all_filling(parts, "prepare")):
        if after.relabels and not before.relabels:
            raise ConfigError(
                f"{after.name} changes labels, by which {before.name} prepares samples; list {after.name} before {before.name}"
            )
    for before, after in pairwise(all_filling(parts, "present")):
        if before.presents_last and not after.presents_last:
            raise ConfigError(
                f"{before.name} changes the trained model last, and {after.name} would undo it; list {after.name} before {before.name}"
            )


def _check_alone(parts: Sequence[Part]) -> None:
    """Where nothing is averaged, what the server does with replies would silently do nothing."""
    alone, pooled = marked(parts, "alone"), marked(parts, "pools")
    for hook in SERVER_RULES:
        if alone is not None and (other := filling(parts, hook)) is not None:
            raise ConfigError(
                f"{alone.name} averages nothing, and {other.name} acts on what clients send; use only one of them"
            )
    if pooled is not None and (odd := alone or marked(parts, "private")) is not None:
        raise ConfigError(
            f"{pooled.name} puts all samples in one place, which {odd.name} keeps apart; use only one of them"
        )


def _check_private(parts: Sequence[Part]) -> None:
    """What a part does not clip and noise would lead the model unprotected."""
    if (guard := marked(parts, "private")) is None:
        return
    for hook, leads in UNPROTECTED.items():
        for other in parts:
            if other is not guard and getattr(other, hook) is not None:
                raise ConfigError(
                    f"{guard.name} protects only the updates, and {other.name} {leads}; use only one of them"
                )
