"""What a contract is: a rule that every part keeps, tried on one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from counterpoise.contracts.small import widest_gap
from counterpoise.core.codec import digest
from counterpoise.core.method import MethodSpec
from counterpoise.core.tree import Tree
from counterpoise.errors import RunError

Rule: TypeAlias = Callable[[MethodSpec], None]


class ContractError(RunError):
    """A part that does not keep a contract: one line says which run or hook shows it."""


def _always(spec: MethodSpec) -> str:
    return ""


class Contract(NamedTuple):
    """A rule in words, the function that raises where it does not hold, and why it does not concern a part."""

    words: str
    holds: Rule
    idle: Callable[[MethodSpec], str] = _always  # "" where the rule concerns the part


def require_close(found: Tree, expected: Tree, most: float, words: str) -> None:
    """Raise where two trees are further apart than `most`."""
    gap = widest_gap(found, expected)
    if gap.size > most:
        raise ContractError(f"{words}: {gap.path} differs by {gap.size:.3g}")


def require_same(found: Tree, expected: Tree, words: str) -> None:
    """Raise where two trees are not the same, bit for bit."""
    if digest(found) != digest(expected):
        gap = widest_gap(found, expected)
        how = f"differs by {gap.size:.3g}" if gap.size else "differs in the type or sign of a number"
        raise ContractError(f"{words}: {gap.path or 'the state'} {how}")
