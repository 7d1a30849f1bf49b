"""One run as values by column, and runs of one method on one problem as a row of cells."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from counterpoise.core.rounds import counted
from counterpoise.metrics.catalogue import find, headline
from counterpoise.results.results import RunResult
from counterpoise.run.summary import LAST
from counterpoise.server.state import Outcome

At = Literal["last", "best", "mean_last_10"]
MOMENTS: tuple[At, ...] = ("last", "best", "mean_last_10")
TO_TARGET = ("rounds_to_target", "bytes_to_target", "seconds_to_target")
TOTALS = ("bytes", "seconds")
SHARE_OF_BEST = 0.95
DECIMALS = 12  # to which values are rounded before they are ranked, so that rounding errors decide nothing


def lower_is_better(column: str) -> bool:
    """True for costs; for scores as the catalogue says."""
    return column in (*TO_TARGET, *TOTALS) or find(column).lower


class Cell(NamedTuple):
    """One column of a row: one value per seed, None where it is unknown or never reached."""

    values: tuple[float | None, ...]

    @property
    def known(self) -> tuple[float, ...]:
        return tuple(value for value in self.values if value is not None)

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.known) if self.known else None

    @property
    def deviation(self) -> float | None:
        """Sample deviation over seeds; None with fewer than two."""
        return statistics.stdev(self.known) if len(self.known) > 1 else None


class Row(NamedTuple):
    """A method on a problem; cells by column, their values in the order of the seeds."""

    problem: str  # label; "" where all runs share one problem
    method: str  # label
    seeds: tuple[int, ...]
    cells: dict[str, Cell]


def best_methods(rows: Sequence[Row], column: str, score: str) -> set[str]:
    """Methods with the best mean of a column, among the rows of one problem; `score`: what the moments show.

    Only methods with a value for every seed count. Equals are best together; where all rows are equal, none is.
    """
    sign = -1 if lower_is_better(score if column in MOMENTS else column) else 1
    cells = {row.method: row.cells[column] for row in rows}
    means = {
        method: round(sign * cell.mean, DECIMALS)
        for method, cell in cells.items()
        if cell.mean is not None and None not in cell.values
    }
    top = max(means.values(), default=None)
    best = {method for method, mean in means.items() if mean == top}
    return best if len(best) < len(rows) else set()


def make_row(
    problem: str,
    method: str,
    runs: Mapping[int, RunResult],
    score: str,
    at: At,
    target: float | None,
    further: Sequence[str] = (),
) -> Row:
    """The cells of a method on a problem; runs by seed. `further`: scores that not every comparison has."""
    seeds = tuple(sorted(runs))
    values = [values_of(runs[seed], score, at, target, further) for seed in seeds]
    return Row(problem, method, seeds, {key: Cell(tuple(one[key] for one in values)) for key in values[0]})


def values_of(
    run: RunResult, score: str, at: At, target: float | None, further: Sequence[str] = ()
) -> dict[str, float | None]:
    """Scores at the chosen moment, the chosen score at every moment, the cost of reaching the target, and totals."""
    scores = dict.fromkeys([*headline(), *further, score])
    return {
        **{key: value_at(run, key, at) for key in scores},
        **{moment: value_at(run, score, moment) for moment in MOMENTS},
        **cost_of_target(run, score, target),
        "bytes": sum(_traffic(row) for row in run.rows),
        "seconds": sum(run.seconds),
    }


def value_at(run: RunResult, key: str, at: At) -> float | None:
    """A score at the last evaluation, at the best one, or its mean over the last ten."""
    rows = run.scored[{"last": -1, "best": 0, "mean_last_10": -LAST}[at] :]
    known = [value for row in rows if (value := row.get(key)) is not None and math.isfinite(value)]
    if not known:
        return None
    if at == "best":
        return float(min(known) if lower_is_better(key) else max(known))
    return statistics.fmean(known)


def cost_of_target(run: RunResult, score: str, target: float | None) -> dict[str, float | None]:
    """Rounds, bytes and seconds up to the first evaluation that reaches the target; None if none does."""
    reached = next((row for row in run.scored if _reaches(row.get(score), score, target)), None)
    if reached is None:
        return dict.fromkeys(TO_TARGET)
    rounds = counted(int(reached["round"]))
    traffic = sum(_traffic(row) for row in run.rows if row["round"] < rounds)
    return dict(zip(TO_TARGET, (rounds, traffic, sum(run.seconds[:rounds])), strict=True))


def default_target(finals: Sequence[Sequence[float | None]], score: str) -> float | None:
    """95 % of the best mean final score of any method; where lower is better, the best over 95 %."""
    means = [mean for final in finals if (mean := Cell(tuple(final)).mean) is not None]
    if not means:
        return None
    return min(means) / SHARE_OF_BEST if lower_is_better(score) else max(means) * SHARE_OF_BEST


def scores_in(results: Sequence[RunResult]) -> list[str]:
    """Scores in percent that some evaluation of these runs has: no counts, no losses, nothing about training."""
    rows = itertools.chain.from_iterable(result.scored for result in results)
    known = {key for row in rows for key, value in row.items() if isinstance(value, float)}
    return sorted(key for key in known.difference(Outcome._fields) if find(key).unit == "percent")


def _reaches(value: float | None, score: str, target: float | None) -> bool:
    if value is None or target is None:
        return False
    return value <= target if lower_is_better(score) else value >= target


def _traffic(row: Mapping[str, Any]) -> int:
    return int(row["bytes_down"]) + int(row["bytes_up"])
