"""The summary of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.core.codec import digest
from counterpoise.metrics.catalogue import find, headline
from counterpoise.run.early_stopping import EarlyStopping
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import Outcome, ServerState

LAST = 10
MOST_CLASSES = 200  # up to which a summary holds the confusion counts


def summarise(
    simulation: Simulation, state: ServerState, rows: Sequence[Mapping[str, Any]], seconds: float
) -> dict[str, Any]:
    """Scores of a finished run, its seconds, engine and device."""
    scores = summarise_rows(rows)
    return {
        "method": simulation.method.name,
        "seed": simulation.seed,
        "rounds": state.round,
        **({"stopped": words} if (words := stopped_early(simulation, rows)) else {}),
        **scores,
        "scored_on": simulation.scored_on,
        **_class_to_find(simulation, scores),
        "seconds": seconds,
        "engine": simulation.settings.name,
        "device": simulation.settings.device,
        **_confusion(simulation, state),
        "params_sha256": digest({"params": state.params, "buffers": state.buffers}),
    }


def _class_to_find(simulation: Simulation, scores: Mapping[str, Any]) -> dict[str, Any]:
    """The positive class, or else the rarest one and how well it is found; nothing where no class is the rarest."""
    classes, positive = simulation.scoring.classes, simulation.scoring.positive
    if positive is not None:
        return {"positive_class": classes[positive]}
    known = simulation.work.federation.class_counts()
    counts: list[int] = [] if known is None else known.tolist()
    if counts.count(min(counts, default=0)) != 1:
        return {}
    rarest = counts.index(min(counts))
    return {
        "rarest_class": classes[rarest],
        "rarest_class_recall": scores["per_class_recall"][rarest],
        "rarest_class_precision": scores["per_class_precision"][rarest],
    }


def _confusion(simulation: Simulation, state: ServerState) -> dict[str, Any]:
    """Counts [true class][answer] of the last model on the test set, unless there are very many classes, or no samples."""
    if len(simulation.scoring.classes) > MOST_CLASSES or not len(simulation.work.federation.test.y):
        return {}
    return {"confusion": simulation.confusion(state).tolist()}


def stopped_early(simulation: Simulation, rows: Sequence[Mapping[str, Any]]) -> str:
    """Why a run ended before its last round; empty if it did not."""
    return EarlyStopping(simulation.patience, rows).words(simulation.rounds)


def summarise_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Last, best and mean of the last ten evaluations of each score, and counts of refused replies and skipped rounds."""
    scored = [row for row in rows if "accuracy" in row]
    last = {
        key: value
        for key, value in scored[-1].items()
        if key not in (*Outcome._fields, "skipped", "diagnostics")
    }
    return {
        **last,
        "best": {key: best_of(scored, key) for key in headline()},
        "mean_last_10": {key: _mean([row.get(key) for row in scored[-LAST:]]) for key in headline()},
        "rejected_replies": sum(len(row["rejected"]) for row in rows),
        "clipped_replies": sum(len(row.get("clipped", ())) for row in rows),
        "skipped_rounds": sum(row["skipped"] for row in rows),
        "bytes": sum(row["bytes_down"] + row["bytes_up"] for row in rows),
    }


def best_of(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The best value of a score over rows."""
    known = [row[key] for row in rows if row.get(key) is not None]
    return (min if find(key).lower else max)(known, default=None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
