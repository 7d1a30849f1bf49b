"""What may be compared: values of several methods that share a problem and a seed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from counterpoise.results.cells import Row
from counterpoise.results.statistics import fewest_pairs

Scores: TypeAlias = dict[tuple[str, str], dict[int, float]]  # by problem and method, then by seed


def read_scores(rows: Iterable[Row], score: str) -> Scores:
    """Known values of a column of rows."""
    return {
        (row.problem, row.method): {
            seed: value
            for seed, value in zip(row.seeds, row.cells[score].values, strict=True)
            if value is not None
        }
        for row in rows
    }


def blocks_of(scores: Scores, problems: Sequence[str], methods: Sequence[str]) -> list[list[float]]:
    """Values [blocks, methods] where all of these methods have one.

    A block is a seed of a problem. Seeds of one problem have much in common, so from six problems on, where a test can
    do with them, each problem is one block: its mean over the seeds that the methods share (Demsar 2006).
    """
    found = [_blocks_of_problem(scores, problem, methods) for problem in problems]
    if not problems_are_blocks(problems):
        return [block for blocks in found for block in blocks]
    return [[statistics.fmean(column) for column in zip(*blocks, strict=True)] for blocks in found if blocks]


def problems_are_blocks(problems: Sequence[str]) -> bool:
    return len(problems) >= fewest_pairs()


def name_blocks(problems: Sequence[str]) -> str:
    """What a block is, in words."""
    if problems_are_blocks(problems):
        return "problems"
    return "seeds" if len(problems) == 1 else "problem and seed"


def _blocks_of_problem(scores: Scores, problem: str, methods: Sequence[str]) -> list[list[float]]:
    columns = [scores.get((problem, method), {}) for method in methods]
    shared = sorted(set.intersection(*map(set, columns)))
    return [[column[seed] for column in columns] for seed in shared]
