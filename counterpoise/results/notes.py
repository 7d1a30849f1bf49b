"""Notes below a comparison: missing seeds, skipped rounds, what the tests assume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpoise.results.cells import At, Row
from counterpoise.results.labels import Runs
from counterpoise.results.statistics import problems_are_blocks


def notes_of(rows: Sequence[Row], runs: Runs, at: At, baseline: str, repeated: int) -> tuple[str, ...]:
    """The notes, one sentence each."""
    problems = list(dict.fromkeys(row.problem for row in rows))
    return (
        *_on_seeds(rows, problems),
        *_on_skipped(runs),
        *_on_stopped(runs),
        *_on_baseline(rows, problems, baseline),
        *_on_splits(runs),
        *_on_problems(problems),
        *(["The best round was picked on the test set: such scores are too good."] if at == "best" else []),
        *(
            [f"{repeated} runs repeat problem, method and seed of another and were not used."]
            if repeated
            else []
        ),
    )


def _on_seeds(rows: Sequence[Row], problems: Sequence[str]) -> Iterator[str]:
    """Methods without a run of seeds that other methods have on the same problem."""
    for problem in problems:
        here = [row for row in rows if row.problem == problem]
        every = {seed for row in here for seed in row.seeds}
        for row in here:
            missing = sorted(every.difference(row.seeds))
            if missing:
                yield f"{row.method}{_place(problem)} has no finished run of seed {', '.join(map(str, missing))}."


def _on_skipped(runs: Runs) -> Iterator[str]:
    for (problem, method), by_seed in runs.items():
        for seed, run in by_seed.items():
            skipped = sum(bool(row.get("skipped")) for row in run.rows)
            if skipped:
                yield f"{method}{_place(problem)}, seed {seed}: {skipped} of {len(run.rows)} rounds were skipped, since no reply could be used."


def _on_stopped(runs: Runs) -> Iterator[str]:
    """Runs that ended before their last round, since nothing improved."""
    for (problem, method), by_seed in runs.items():
        rounds = [
            run.summary["rounds"] for run in by_seed.values() if run.summary and "stopped" in run.summary
        ]
        if rounds:
            span = f"{min(rounds)}" if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
            yield f"{method}{_place(problem)}: {len(rounds)} of {len(by_seed)} runs stopped early, after {span} rounds."


def _on_baseline(rows: Sequence[Row], problems: Sequence[str], baseline: str) -> Iterator[str]:
    known = {row.problem for row in rows if row.method == baseline}
    for problem in problems:
        if problem not in known:
            yield f"The baseline {baseline} has no finished run{_place(problem)}: no method was tested against it there."


def _on_splits(runs: Runs) -> Iterator[str]:
    """Repeated draws of test rows from the same rows are not independent; Nadeau and Bengio (2003)."""
    if any(
        len({run.config.get("data", {}).get("seed") for run in seeds.values()}) > 1 for seeds in runs.values()
    ):
        yield "Each seed has test rows of its own from the same data; training rows overlap, so that p is somewhat too small."


def _on_problems(problems: Sequence[str]) -> Iterator[str]:
    if problems_are_blocks(problems):
        yield "Over all problems each problem counts once, by its mean over seeds."
    elif len(problems) > 1:
        yield (
            "Over all problems each seed of each problem counts once, as if they were independent:"
            " such p-values speak for these problems, not for others."
        )


def _place(problem: str) -> str:
    return f" on {problem}" if problem else ""
