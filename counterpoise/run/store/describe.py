"""What a run writes of itself: record.json and preprocessing.json."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from counterpoise.core.part import layer_names
from counterpoise.data.federation import Federation
from counterpoise.data.preprocessing import preprocessing_of
from counterpoise.data.root import sha256_of
from counterpoise.data.skew import describe
from counterpoise.errors import DataError
from counterpoise.run.first_model import weights_file
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.record import machine
from counterpoise.run.store.seal import SEAL, read_sealed, seal
from counterpoise.run.store.stored import Run


def write_notes(run: Run) -> None:
    """Write what parts say of the run anew: it may speak of its number of rounds."""
    if _recorded(run, "notes") != run.simulation.notes:
        _record_anew(run, "notes", run.simulation.notes)


def _recorded(run: Run, key: str) -> dict[str, Any]:
    return dict((read_sealed(run.folder.record) or {}).get(key, {}))


def _record_anew(run: Run, key: str, value: Mapping[str, Any]) -> None:
    """Replace one entry of record.json."""
    known = read_sealed(run.folder.record) or {}
    kept = {name: found for name, found in known.items() if name != SEAL}
    run.folder.write_json(run.folder.record, seal(kept | {key: value}))


def _start_of(run: Run) -> dict[str, Any]:
    """What a model started from and how much of it is frozen, where that is not the usual."""
    found: dict[str, Any] = {}
    if frozen := run.simulation.work.model.frozen():
        found["frozen_parameters"] = sum(p.numel() for p in frozen.values())
    if (weights := run.experiment.model.weights) is not None:
        found["weights_sha256"] = sha256_of(weights_file(weights))
    return found


def _probes_of(simulation: Simulation) -> list[dict[str, Any]]:
    """Every probe with its title and the names of its numbers, such as the layers that it found."""
    names = simulation.probe_names()
    return [
        {"name": one.name, "title": one.title or one.name, "numbers": names[one.name]}
        for one in simulation.probes
    ]


def record_again(run: Run) -> None:
    """Record the sums of a run that starts again, and add up the epsilon that all of them spent."""
    _record_anew(run, "tallied", _tallied(run, _recorded(run, "tallied")))


def _tallied(run: Run, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """How tallies were added up, and the epsilon that they spent in all, which a server over a network counts for itself."""
    found = dict(run.simulation.engine.tallied)
    if (epsilon := found.get("epsilon")) is None:
        return found
    # A config is written after a sum was made: one that no record tells of was spent too.
    spent = 0.0 if before is None else before.get("epsilon_spent", epsilon)
    return {"epsilon_spent": spent + epsilon, **found}


def keep_preprocessing(folder: RunFolder, federation: Federation) -> None:
    """Write preprocessing.json, by which new data is read as the training data was, unless it is there."""
    if not _is_whole(folder.preprocessing):
        folder.write_json(folder.preprocessing, seal(preprocessing_of(federation).to_json()))


def describe_run(run: Run, federation: Federation, file: str = "") -> None:
    """Write record.json, unless it is there."""
    if not _is_whole(run.folder.record):
        run.folder.write_json(run.folder.record, seal(_record_of(run, federation, file)))


def _is_whole(path: Path) -> bool:
    """Whether a sealed file is there as it was written; of one that is damaged a warning is logged."""
    try:
        return read_sealed(path) is not None
    except DataError as error:
        logging.getLogger("counterpoise").warning("%s; it is written again", error)
        return False


def _record_of(run: Run, federation: Federation, file: str) -> dict[str, Any]:
    counts, params = federation.client_counts(), run.simulation.work.model.params()
    return {
        **({"file": file} if file else {}),
        "versions": run.facts["versions"],
        "machine": machine(),
        "engine": asdict(run.simulation.settings),
        "parameters": sum(p.numel() for p in params.values()),
        **_start_of(run),
        **({"notes": notes} if (notes := run.simulation.notes) else {}),
        "data": _data_of(federation),
        "data_sha256": run.facts["data_sha256"],
        "charts": _charts_of(run.simulation),
        "layers": layer_names(params),
        "probes": _probes_of(run.simulation),
        "samples": federation.samples().tolist(),
        "clients": None if counts is None else counts.tolist(),
        "skew": None if counts is None else describe(counts.numpy()).summary(),
        "tallied": _tallied(run),
    }


def _data_of(federation: Federation) -> dict[str, Any]:
    totals = federation.class_counts()
    return {
        "name": federation.name,
        "classes": list(federation.classes),
        "class_counts": None if totals is None else totals.tolist(),
        "test_samples": len(federation.test.y),
        "notes": list(federation.notes),
        "files": dict(federation.files),
        "client_names": list(federation.client_names),
    }


def _charts_of(simulation: Simulation) -> list[dict[str, Any]]:
    """What a report needs to draw the charts of parts, without the functions that read them."""
    return [
        {"part": part.name, **{key: value for key, value in chart._asdict().items() if key != "read"}}
        for part in simulation.method.parts
        for chart in part.charts
    ]
