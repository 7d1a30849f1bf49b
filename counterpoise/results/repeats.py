"""What seeds repeat: the run on one test set, or splits or folds of the same rows, whose training rows overlap."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from counterpoise.results.labels import Runs
from counterpoise.results.results import RunResult

DRAWN = ("seed", "fold")  # keys of [data] that choose test rows
USUAL_SHARE = 0.2  # of the rows that test, where a run does not tell


def overlaps(runs: Runs) -> dict[str, float]:
    """Test over training samples, of each problem whose seeds split the same rows anew (Nadeau and Bengio 2003)."""
    found: dict[str, list[RunResult]] = {}
    for (problem, _), by_seed in runs.items():
        if splits_anew(list(by_seed.values())):
            found.setdefault(problem, []).extend(by_seed.values())
    return {problem: statistics.fmean(map(_ratio, ours)) for problem, ours in found.items()}


def splits_anew(runs: Sequence[RunResult]) -> bool:
    return len({_drawn(run) for run in runs}) > 1


def split_notes(runs: Runs) -> Iterator[str]:
    """One sentence where test rows change with the seed."""
    anew = [list(by_seed.values()) for by_seed in runs.values() if splits_anew(list(by_seed.values()))]
    if not anew:
        return
    folds = any("folds" in run.config["data"] for ours in anew for run in ours)
    share = statistics.fmean(overlaps(runs).values())
    yield (
        f"Each seed has test rows of its own{', one fold,' if folds else ''} from the same data, and training rows overlap:"
        f" p and interval are of Student's test with Nadeau and Bengio's correction ({share:.2g} test samples per training sample);"
        " ranks are not corrected for it."
    )


def _drawn(run: RunResult) -> tuple[object, ...]:
    return tuple(run.config["data"].get(key) for key in DRAWN)


def _ratio(run: RunResult) -> float:
    # Not the answers that were counted: where clients train alone, every model answers for the whole test set.
    tested: int = run.record.get("data", {}).get("test_samples", 0)
    trained = sum(run.samples) if run.record else 0
    if tested and trained:
        return tested / trained
    data = run.config["data"]
    share = 1 / data["folds"] if "folds" in data else float(data.get("test_share", USUAL_SHARE))
    return share / (1 - share)
