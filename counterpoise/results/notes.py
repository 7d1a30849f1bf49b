"""Notes below a comparison: missing seeds, skipped rounds, what the tests assume."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from counterpoise.errors import listed
from counterpoise.results.cells import At, Row
from counterpoise.results.labels import Labels, Runs
from counterpoise.results.repeats import split_notes
from counterpoise.results.results import RunResult
from counterpoise.results.statistics import problems_are_blocks
from counterpoise.results.words import on_problem

LOST = 0.5  # of the best balanced accuracy of a run, below which its end is called a collapse
OTHERS = 3  # seeds beside one that are needed to call it the odd one
ONE_ANSWER = 0.95  # of the answers, from which on a model is said to know one class only,
OTHER_ANSWERS = 0.2  # unless it names the other classes at least this often for each sample of theirs


def notes_of(rows: Sequence[Row], runs: Runs, at: At, baseline: str, repeated: int) -> tuple[str, ...]:
    """The notes, one sentence each."""
    problems = list(dict.fromkeys(row.problem for row in rows))
    return (
        *_on_seeds(rows, problems),
        *_on_skipped(runs),
        *_on_stopped(runs),
        *_on_versions(runs),
        *_on_data(runs),
        *_on_other_versions(runs, baseline),
        *_on_collapsed(runs),
        *_on_silent_classes(runs),
        *_on_baseline(rows, problems, baseline),
        *split_notes(runs),
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
                yield f"{row.method}{on_problem(problem)} has no finished run of seed {', '.join(map(str, missing))}."


def _on_skipped(runs: Runs) -> Iterator[str]:
    for (problem, method), by_seed in runs.items():
        for seed, run in by_seed.items():
            skipped = sum(bool(row["skipped"]) for row in run.rows)
            if skipped:
                yield f"{method}{on_problem(problem)}, seed {seed}: {skipped} of {len(run.rows)} rounds were skipped, since no reply could be used."


def _on_stopped(runs: Runs) -> Iterator[str]:
    """Runs that ended before their last round, since nothing improved."""
    for (problem, method), by_seed in runs.items():
        rounds = [
            run.summary["rounds"] for run in by_seed.values() if run.summary and "stopped" in run.summary
        ]
        if rounds:
            span = f"{min(rounds)}" if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
            yield f"{method}{on_problem(problem)}: {len(rounds)} of {len(by_seed)} runs stopped early, after {span} rounds."


def _on_versions(runs: Runs) -> Iterator[str]:
    """Seeds of one method that ran with other code: their mean is of two things."""
    for (problem, method), by_seed in runs.items():
        versions = {seed: _versions(by_seed[seed]) for seed in sorted(by_seed)}
        names = _differing(list(versions.values()))
        alike: dict[tuple[str | None, ...], list[int]] = {}
        for seed, one in versions.items():
            alike.setdefault(tuple(one.get(name) for name in names), []).append(seed)
        if len(alike) > 1:
            seeds = " and ".join(f"seed {', '.join(map(str, ours))}" for ours in alike.values())
            yield f"{method}{on_problem(problem)}: {seeds} ran with different versions of {listed(names)}."


def _on_data(runs: Runs) -> Iterator[str]:
    """Methods whose runs of one seed had other samples or clients: a pair of them differs in more than the method."""
    by_seed: dict[tuple[str, int], dict[str, list[str]]] = {}
    for (problem, method), ours in runs.items():
        for seed, run in ours.items():
            if sha256 := run.record.get("data_sha256"):
                by_seed.setdefault((problem, seed), {}).setdefault(sha256, []).append(method)
    apart: dict[tuple[str, str], list[int]] = {}
    for (problem, seed), methods in sorted(by_seed.items()):
        if len(methods) > 1:
            apart.setdefault((problem, " against ".join(map(listed, methods.values()))), []).append(seed)
    for (problem, which), seeds in apart.items():
        where = f"{on_problem(problem)}, seed {', '.join(map(str, seeds))}"
        yield f"{which}{where}: they ran on different data (by SHA-256), and differ not by the method alone."


def _on_other_versions(runs: Runs, baseline: str) -> Iterator[str]:
    """Methods that ran with other code than the baseline with the same seed: their difference is not the method's alone."""
    found: dict[str, list[str]] = {}
    for (problem, method), by_seed in runs.items():
        known = runs.get(Labels(problem, baseline), {})
        pairs = [(_versions(run), _versions(known[seed])) for seed, run in by_seed.items() if seed in known]
        if names := sorted({name for pair in pairs for name in _differing(pair)}):
            found.setdefault(listed(names), []).append(method)
    for names_of, methods in found.items():
        yield f"{listed(list(dict.fromkeys(methods)))} ran with other versions of {names_of} than {baseline}."


def _versions(run: RunResult) -> dict[str, str]:
    return dict(run.record.get("versions", {}))


def _differing(versions: Sequence[Mapping[str, str]]) -> list[str]:
    """Names with more than one version; what some ran without, such as a plugin installed later, had no part in them."""
    every = sorted({name for one in versions for name in one})
    return [name for name in every if len({one[name] for one in versions if name in one}) > 1]


def _on_collapsed(runs: Runs) -> Iterator[str]:
    """Runs that ended far below what they had reached or the other seeds have, or that answer nearly every sample with one class."""
    for (problem, method), by_seed in runs.items():
        ends = {seed: end for seed, run in by_seed.items() if (end := _end(run)) is not None}
        for seed, run in by_seed.items():
            if why := _collapse(run) or _left_behind(seed, ends):
                yield f"{method}{on_problem(problem)}, seed {seed} collapsed: {why}."


def _end(run: RunResult) -> float | None:
    return run.scored[-1].get("balanced_accuracy") if run.scored else None


def _left_behind(seed: int, ends: Mapping[int, float]) -> str:
    """A seed that never learned what the method's other seeds did; among few nobody knows which is the odd one."""
    others = [end for other, end in ends.items() if other != seed]
    if len(others) < OTHERS or seed not in ends or ends[seed] >= LOST * statistics.median(others):
        return ""
    middle = f"{100 * statistics.median(others):.1f}"
    return f"balanced accuracy is {100 * ends[seed]:.1f} %, and {middle} % with the other seeds in the middle"


def _collapse(run: RunResult) -> str:
    reached = [row["balanced_accuracy"] for row in run.scored if row.get("balanced_accuracy") is not None]
    if reached and reached[-1] < LOST * max(reached):
        return f"balanced accuracy fell from {100 * max(reached):.1f} to {100 * reached[-1]:.1f} %"
    true, answers = _sides(run)
    total, most = sum(answers), answers.index(max(answers)) if answers else 0
    if not total or not answers[most] >= ONE_ANSWER * total > max(true):
        return ""
    # The test set itself is nearly all of that class
    if total - answers[most] >= OTHER_ANSWERS * (total - true[most]):
        return ""
    name = run.record["data"]["classes"][most]
    return f"it answers {100 * answers[most] / total:.0f} % of the test samples with class {name}"


def _on_silent_classes(runs: Runs) -> Iterator[str]:
    """Classes of the test set that the models of some seeds never answer with."""
    for (problem, method), by_seed in runs.items():
        sides = [_sides(run) for run in by_seed.values()]
        silent = Counter(
            c for pair in sides for c, (true, said) in enumerate(zip(*pair, strict=True)) if true and not said
        )
        if silent:
            names = next(iter(by_seed.values())).record["data"]["classes"]
            words = [f"{names[c]} ({silent[c]} of {len(by_seed)} seeds)" for c in sorted(silent)]
            yield f"{method}{on_problem(problem)} never predicts class {listed(words)}."


def _sides(run: RunResult) -> tuple[list[int], list[int]]:
    """Test samples of each class, and answers with each class; empty where the counts were not kept."""
    confusion = (run.summary or {}).get("confusion", [])
    return [sum(row) for row in confusion], [sum(column) for column in zip(*confusion, strict=True)]


def _on_baseline(rows: Sequence[Row], problems: Sequence[str], baseline: str) -> Iterator[str]:
    known = {row.problem for row in rows if row.method == baseline}
    for problem in problems:
        if problem not in known:
            yield f"The baseline {baseline} has no finished run{on_problem(problem)}: no method was tested against it there."


def _on_problems(problems: Sequence[str]) -> Iterator[str]:
    if problems_are_blocks(problems):
        yield "Over all problems each problem counts once, by its mean over seeds."
    elif len(problems) > 1:
        yield (
            "Over all problems each seed of each problem counts once, as if they were independent:"
            " such p-values speak for these problems, not for others."
        )
