"""Classes: frequency, recall, samples per client, and all scores of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpoise.metrics import Shots, shots_of_counts, shots_paper
from counterpoise.metrics.catalogue import GROUPS, PER_CLASS, SCORES, capital, find
from counterpoise.report.html.markup import Html, element, number_cell, percent, table
from counterpoise.report.html.study import Study, mean_and_deviation, thin
from counterpoise.report.html.tables import problem_cells, problem_head
from counterpoise.results.cells import Cell
from counterpoise.results.results import RunResult

MOST_CLIENTS, MOST_CLASSES, MOST_SEEDS = 60, 100, 3  # in one heat map of clients by classes
MOST_CONFUSED = 40  # classes up to which confusion counts are drawn


def class_data(study: Study) -> list[dict[str, Any]]:
    """For each problem: classes from the most to the least frequent, and each method's recall of them."""
    return [_classes(study, problem) for problem in study.problems]


def _classes(study: Study, problem: str) -> dict[str, Any]:
    run = study.runs_on(problem)[0]
    names, counts, order = run.record["data"]["classes"], run.class_counts, _by_frequency(run)
    groups = _group_of_each(_shots(run), len(names))
    recalls = [
        {"method": study.methods.index(method), "recall": _recalls(runs, order)}
        for (where, method), runs in study.groups.items()
        if where == problem
    ]
    return {
        "by_number": names,
        "names": [names[c] for c in order],
        "counts": counts and [counts[c] for c in order],
        "groups": [groups[c] for c in order],
        "recalls": recalls,
    }


def _by_frequency(run: RunResult) -> list[int]:
    """Classes from the most to the least frequent one; by their groups, where the counts are not known."""
    counts = run.class_counts
    if counts is None:
        return [c for group in _shots(run) for c in group]
    return sorted(range(len(counts)), key=lambda c: (-counts[c], c))


def _recalls(runs: Sequence[RunResult], order: Sequence[int]) -> Any:
    last = [run.scored[-1]["per_class_recall"] for run in runs]
    return mean_and_deviation([[recalls[c] for c in order] for recalls in last])


def group_data(study: Study) -> list[dict[str, Any]]:
    """Recall of head, medium and tail classes by problem and method: mean and deviation, as in the table."""
    return [
        {
            "at": study.place(row.problem, row.method),
            "bars": [[row.cells[group].mean, row.cells[group].deviation] for group in GROUPS],
        }
        for row in study.comparison.rows
    ]


def partition_data(study: Study) -> list[list[dict[str, Any]]]:
    """Per problem the partitions of the first few seeds; none where the server did not ask for class counts."""
    return [_partitions(study.runs_on(problem)) for problem in study.problems]


def _partitions(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    by_seed = {run.seed: run for run in sorted(runs, key=lambda run: -run.seed)}
    found = [(by_seed[seed], by_seed[seed].client_counts) for seed in sorted(by_seed)[:MOST_SEEDS]]
    return [_partition(run, counts) for run, counts in found if counts is not None]


def _partition(run: RunResult, counts: Sequence[Sequence[int]]) -> dict[str, Any]:
    names, samples = run.record["data"]["classes"], run.samples
    clients = thin(sorted(range(len(counts)), key=lambda k: -samples[k]), MOST_CLIENTS)
    classes = thin(_by_frequency(run), MOST_CLASSES)
    return {
        "seed": run.seed,
        "clients": clients,
        "samples": [samples[k] for k in clients],
        "classes": [names[c] for c in classes],
        "counts": [[counts[k][c] for c in classes] for k in clients],
        "of": [len(counts), len(names)],
    }


def _shots(run: RunResult) -> Shots:
    """The head, medium and tail classes of the run."""
    chosen, counts = run.config["evaluate"]["shots"], run.class_counts
    if chosen == "rule":
        assert counts is not None  # asked for, since the run's scores needed them
        return shots_of_counts(counts)
    return shots_paper(run.record["data"]["name"]) if chosen == "paper" else Shots(**chosen)


def _group_of_each(shots: Shots, classes: int) -> list[int | None]:
    """None where classes have no groups."""
    places = {c: place for place, ids in enumerate(shots) for c in ids}
    return [places.get(c) for c in range(classes)]


def confusion_data(study: Study) -> list[list[dict[str, Any]]]:
    """Per problem each method's confusion counts, added up over seeds; none of runs that did not keep them."""
    return [
        [
            {"method": study.methods.index(method), "counts": _added(runs), "names": _names(runs[0])}
            for (where, method), runs in study.groups.items()
            if where == problem and _has_confusion(runs)
        ]
        for problem in study.problems
    ]


def _has_confusion(runs: Sequence[RunResult]) -> bool:
    known = [(run.summary or {}).get("confusion") for run in runs]
    return all(known) and len(runs[0].record["data"]["classes"]) <= MOST_CONFUSED


def _added(runs: Sequence[RunResult]) -> list[list[int]]:
    """[true class][answer], from the most to the least frequent class."""
    order, counts = _by_frequency(runs[0]), [(run.summary or {})["confusion"] for run in runs]
    return [[sum(one[true][answer] for one in counts) for answer in order] for true in order]


def _names(run: RunResult) -> list[str]:
    return [run.record["data"]["classes"][c] for c in _by_frequency(run)]


MOST_ROWS = 400  # above it the table is left out: the page must stay small
CAPTION = "Scores of each class in percent, last round, mean over seeds; AUROC and AP are of the class against the rest"


def class_table(study: Study) -> Html:
    """From the most to the least frequent class; empty where it would be too long."""
    rows = [row for labels, runs in study.groups.items() for row in _rows(study, *labels, runs)]
    if not 0 < len(rows) <= MOST_ROWS:
        return Html()
    head = [
        "Class",
        "Method",
        *problem_head(study),
        "Samples",
        *(capital(find(key).short) for key in _lists()),
    ]
    whole = table(CAPTION, head, rows, class_="sortable")
    return element("details", element("summary", "All scores of each class"), whole, class_="quiet")


def _lists() -> list[str]:
    return [name for name in SCORES if name.startswith(PER_CLASS)]


def _rows(study: Study, problem: str, method: str, runs: Sequence[RunResult]) -> list[list[str]]:
    names, counts = runs[0].record["data"]["classes"], runs[0].class_counts
    return [
        [
            names[c],
            element("td", method, class_="words"),
            *problem_cells(study, problem),
            number_cell(counts[c] if counts else None, str),
            *(number_cell(_mean(runs, key, c), percent) for key in _lists()),
        ]
        for c in _by_frequency(runs[0])
    ]


def _mean(runs: Sequence[RunResult], key: str, c: int) -> float | None:
    """The mean over runs; runs of older versions may lack the score."""
    return Cell(tuple(run.scored[-1].get(key, {c: None})[c] for run in runs)).mean
