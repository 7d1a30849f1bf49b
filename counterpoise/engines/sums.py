"""The tallies of a method as one secure sum: what a client adds, and what each part gets of the result."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import asdict
from typing import Any

import numpy as np

from counterpoise.core.tree import Tree
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import ConfigError, SecurityError
from counterpoise.parts.counts import class_counts
from counterpoise.privacy.identity import Identity, Unsigned
from counterpoise.privacy.layout import Layout, Vector
from counterpoise.privacy.modes import client_side, server_side
from counterpoise.privacy.protocol import SumClient, SumCost, Summed, Transport, add_up, check_enough
from counterpoise.privacy.settings import PrivacySettings

COUNTS, PARTS = "class counts", "tallies of parts"  # what a client can be asked for


def counting_parts(work: Workplace) -> list[str]:
    """Parts that tally class counts: one sum serves them all."""
    return [part.name for part in work.method.parts if part.tally is class_counts]


def other_parts(work: Workplace) -> list[str]:
    """Parts that tally something else."""
    return [part.name for part in work.method.parts if part.tally not in (None, class_counts)]


def asked_for(work: Workplace) -> str:
    """All that the method has to know."""
    return " and ".join([COUNTS] * bool(counting_parts(work)) + [PARTS] * bool(other_parts(work)))


def check_sums(work: Workplace) -> None:
    """Refuse what [privacy] cannot keep, before anybody is asked."""
    privacy, others = work.privacy, other_parts(work)
    if not privacy.in_messages:
        return
    privacy.check_installed()
    if privacy.epsilon is not None and others:
        raise ConfigError(
            f"privacy.epsilon is for class counts; {others[0]} tallies other numbers, of which nobody knows how much one sample changes them"
        )
    if work.method.owner("tally") is not None:
        check_enough(privacy.histogram, server_side(privacy).fewest, len(work.federation.clients))


def numbers_of(work: Workplace, client: int, what: str) -> Tree:
    """What a client is asked for, as whole numbers by name."""
    data, classes = work.federation.client(client), len(work.federation.classes)
    counts: Tree = {COUNTS: class_counts(data, classes)} if COUNTS in what else {}
    asked = [part for part in work.method.parts if PARTS in what and part.name in other_parts(work)]
    return counts | {part.name: part.tally(data, classes) for part in asked if part.tally is not None}


def sum_client(
    work: Workplace,
    client: int,
    name: str,
    run: str,
    identity: Identity | None = None,
    kept: MutableMapping[str, bytes] | None = None,
) -> SumClient:
    """A client's side of the sums of a run."""

    def values(what: str) -> Vector:
        tree = numbers_of(work, client, what)
        return Layout.of(tree).vector(tree)

    known = {"identity": identity or Unsigned(), "kept": {} if kept is None else kept}
    return client_side(work.privacy, name=name, run=run, values=values, **known)


def by_part(work: Workplace, total: Tree) -> dict[str, Tree]:
    """The sum as each part gets it."""
    shared = {name: total[COUNTS] for name in counting_parts(work) if COUNTS in total}
    return shared | {name: total[name] for name in other_parts(work) if name in total}


def sum_numbers(
    privacy: PrivacySettings,
    what: str,
    layout: Layout,
    samples: Mapping[str, int],
    transport: Transport,
    run: str,
) -> tuple[Tree, dict[str, Any]]:
    """The sum over clients, none of its numbers below 0, and how it was made."""
    way = server_side(privacy)
    summed = add_up(way, list(samples), layout.size, transport, run, what)
    total = layout.tree(np.maximum(summed.values, 0))
    if COUNTS in total and privacy.epsilon is None:
        _check_samples(total[COUNTS], sum(samples[name] for name in summed.clients))
    return total, _facts(privacy, what, summed, len(samples), way.signed)


def _check_samples(counts: Tree, samples: int) -> None:
    """A client that counts more or fewer samples than it has would steer every method that weighs classes."""
    found = sum(int(leaf.sum()) for leaf in counts.values())
    if found != samples:
        raise SecurityError(
            f"the class counts add up to {found:,} and the clients' samples to {samples:,}: a client counts wrongly; nothing of it is used"
        )


def _facts(privacy: PrivacySettings, what: str, summed: Summed, asked: int, signed: bool) -> dict[str, Any]:
    known = {"histogram": privacy.histogram, "epsilon": privacy.epsilon, "what": what, "signed_keys": signed}
    return {**known, "clients": len(summed.clients), "asked": asked, **asdict(summed.cost)}


def plain_facts(work: Workplace, clients: int, said: int, seconds: float) -> dict[str, Any]:
    """The same of tallies that clients say as they are, in messages that they send anyway."""
    known = {"histogram": "plain", "epsilon": None, "what": asked_for(work), "signed_keys": False}
    cost = SumCost(messages=clients, bytes_up=said, seconds=seconds, attempts=1)
    return {**known, "clients": clients, "asked": clients, **asdict(cost)}


def joined_facts(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """What is recorded of two sums of a run: their cost together, and the fewest clients of either."""
    if not first:
        return dict(second)
    costs = {name: first[name] + second[name] for name in asdict(SumCost())}
    what, clients = f"{first['what']} and {second['what']}", min(first["clients"], second["clients"])
    return {**second, **costs, "what": what, "clients": clients}
