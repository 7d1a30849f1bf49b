"""A run's numbers as data frames: rounds from 1 on, classes and clients by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.core.rounds import counted
from counterpoise.metrics.catalogue import PER_CLASS
from counterpoise.results.results import RunResult
from counterpoise.run.trained import decision_of, need_pandas
from counterpoise.trained.answers import CALLED, class_scores

LISTS = ("rejected", "clipped")  # of rounds: counted in a frame


def round_frame(run: RunResult) -> Any:
    """One row per round; scores are missing where a round was not evaluated."""
    pandas = need_pandas()
    rows = [_flat(row) for row in run.rows]
    index = pandas.Index([counted(row.pop("round")) for row in rows], name="round")
    frame = pandas.DataFrame(rows, index=index)
    seconds = run.seconds[: len(rows)]
    return frame.assign(seconds=[*seconds, *[None] * (len(rows) - len(seconds))])


def class_frame(run: RunResult) -> Any:
    """One row per class: training samples, and its scores in the last evaluated round.

    With a threshold, recall, precision and F1 are of what the model answers by it, as the name of the columns says; those
    of the more probable class have it in their names.
    """
    pandas = need_pandas()
    classes, last = run.record["data"]["classes"], run.scored[-1] if run.scored else {}
    columns = {"samples": run.class_counts, **_scores_of_classes(last)}
    known = {key: values for key, values in columns.items() if values is not None}
    frame = pandas.DataFrame(known, index=pandas.Index(classes, name="class"))
    decision = decision_of(last, classes, run.config["data"].get("positive"))
    frame.columns.name = None if decision is None else f"at threshold {decision.chance:.4g}"
    return frame.astype(float).astype({"samples": int} if run.class_counts else {})


def _scores_of_classes(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = {key.removeprefix(PER_CLASS): row[key] for key in row if key.startswith(PER_CLASS)}
    if CALLED not in row:
        return scores
    called = class_scores(row[CALLED])
    return {**scores, **called, **{f"more_probable_{key}": scores[key] for key in called}}


def client_frame(run: RunResult) -> Any:
    """One row per client: training samples, of each class where they are known, and scores on what it holds out."""
    pandas = need_pandas()
    frame = pandas.DataFrame({"samples": run.samples}, index=pandas.Index(run.client_names, name="client"))
    if run.client_counts is not None:
        counts = pandas.DataFrame(run.client_counts, index=frame.index, columns=run.record["data"]["classes"])
        frame = frame.join(counts.add_prefix("samples of "))
    scored = run.scored[-1].get("clients", {}) if run.scored else {}
    for key in ("client_held_out", "client_accuracy", "client_balanced_accuracy"):
        if key in scored:
            known = dict(zip(scored["client"], scored[key], strict=True))
            frame[key.removeprefix("client_")] = [known.get(client) for client in range(len(frame))]
    return frame


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and words of a row; lists of refused and clipped replies are counted, further lists are left out."""
    flat = {key: len(value) if key in LISTS else value for key, value in row.items()}
    return {key: value for key, value in flat.items() if not isinstance(value, list | dict)}
