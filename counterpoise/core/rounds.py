"""Numbers of rounds: files and hooks count from 0, whoever reads counts from 1."""

from __future__ import annotations


def counted(round: int) -> int:
    """The number of a round as a reader counts it; also how many rounds are done after it."""
    return round + 1
