"""A run's numbers as data frames: rounds from 1 on, classes and clients by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.core.rounds import counted
from counterpoise.metrics.catalogue import PER_CLASS
from counterpoise.results.results import RunResult
from counterpoise.run.trained import need_pandas

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
    """One row per class: training samples, and its scores in the last evaluated round."""
    pandas = need_pandas()
    names = pandas.Index(run.record["data"]["classes"], name="class")
    last: Mapping[str, Any] = run.scored[-1] if run.scored else {}
    scores = {key.removeprefix(PER_CLASS): last[key] for key in last if key.startswith(PER_CLASS)}
    columns = {"samples": run.class_counts, **scores}
    known = {key: values for key, values in columns.items() if values is not None}
    return (
        pandas.DataFrame(known, index=names)
        .astype(float)
        .astype({"samples": int} if run.class_counts else {})
    )


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
