"""One run in its folder: what is written at its start, after each round and at its end."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from safetensors.torch import save

from counterpoise.core.codec import digest
from counterpoise.core.part import layer_names
from counterpoise.data.federation import Federation
from counterpoise.data.preprocessing import preprocessing_of
from counterpoise.data.skew import describe
from counterpoise.errors import DataError, RunError
from counterpoise.run.assemble import resolve
from counterpoise.run.config.experiment import Experiment, binding, load_experiment
from counterpoise.run.first_model import weights_file
from counterpoise.run.giving_up import GivenUpError, Rows, why_given_up
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.facts import facts_of
from counterpoise.run.store.folder import RunFolder, parse_rows
from counterpoise.run.store.record import machine, versions
from counterpoise.run.store.seal import SEAL, digest_of, read_sealed, seal
from counterpoise.run.summary import summarise
from counterpoise.server.round import ServerState
from counterpoise.system.atomic import clear_temporaries, write_atomically
from counterpoise.system.toml import parse_toml, write_toml


class Run(NamedTuple):
    """A simulation that writes to a folder."""

    experiment: Experiment
    simulation: Simulation
    folder: RunFolder
    store: CheckpointStore
    facts: dict[str, Any]


NotifyEnd = Callable[[Run, Rows], None]  # called with a run and all its rows


def new_run(
    experiment: Experiment, simulation: Simulation, federation: Federation, folder: RunFolder, file: str = ""
) -> Run:
    """Start a run by writing its resolved config; the folder must be locked. `file`: name of the experiment's file."""
    folder.check_free()  # another process may have been faster
    experiment = resolve(experiment, simulation)
    if simulation.method.needs_secret:
        folder.draw_secret()
    write_atomically(folder.config, write_toml(experiment.tables()).encode())
    return found_run(experiment, simulation, federation, folder, file)


def found_run(
    experiment: Experiment, simulation: Simulation, federation: Federation, folder: RunFolder, file: str = ""
) -> Run:
    """Open a run whose config is written; the folder must be locked."""
    clear_temporaries(folder.path)
    _update_max_skipped(experiment, folder)
    if simulation.method.needs_secret:
        simulation = replace(simulation, secret=folder.read_secret())
    facts = facts_of(experiment, federation, simulation.work.model)
    store = CheckpointStore(folder.checkpoints, experiment.checkpoint.keep)
    run = Run(experiment, simulation, folder, store, facts)
    describe_run(run, federation, file)
    keep_preprocessing(folder, simulation.work.federation)
    return run


def _update_max_skipped(experiment: Experiment, folder: RunFolder) -> None:
    """Store the max_skipped that the run is resumed with: readers decide by it whether the run was given up."""
    if load_experiment(folder.config).engine.max_skipped != experiment.engine.max_skipped:
        write_atomically(folder.config, write_toml(experiment.tables()).encode())


def write_config(run: Run) -> None:
    """Write config.toml as the run now has it."""
    write_atomically(run.folder.config, write_toml(run.experiment.tables()).encode())


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


def record_round(
    run: Run, state: ServerState, row: Mapping[str, Any], spent: float, seconds: float, last: bool
) -> None:
    """Write the row and the seconds of a round, and, when due, a checkpoint."""
    folder = run.folder
    folder.append(folder.metrics, row)
    folder.append(folder.timing, {"round": row["round"], "seconds": spent})
    if last or state.round % run.experiment.checkpoint.every == 0:
        _save(run, state, seconds)


@contextmanager
def resumable(folder: RunFolder) -> Iterator[None]:
    """Turn a failing disk or a lost worker into one line that says how to continue."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise RunError(f"{place}{error.strerror or error}; {folder.resume_hint()}") from None
    except GivenUpError:  # resuming would end the same way
        raise
    except RunError as error:
        raise RunError(f"{error}; {folder.resume_hint()}") from None


def _save(run: Run, state: ServerState, seconds: float) -> None:
    facts = {**run.facts, "logs": run.folder.mark_logs(), "seconds": seconds}
    run.store.save(state.round, state.to_tree(), run.simulation.engine.memory, facts)


def conclude(run: Run, state: ServerState, seconds: float, notify: NotifyEnd) -> dict[str, Any] | str:
    """The summary, or why there is none; decided by the rows, since counters in memory do not survive a stop.

    Listeners are notified before the summary is written, since its file marks a run as finished.
    """
    metrics = run.folder.read_log(run.folder.metrics)
    rows = parse_rows(metrics, run.folder.metrics)
    if why := why_given_up(rows, run.experiment.engine.max_skipped, run.experiment.rounds):
        return why
    notify(run, rows)
    return _finish(run, state, seconds, metrics, rows)


def _finish(
    run: Run, state: ServerState, seconds: float, metrics: bytes, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    folder, simulation = run.folder, run.simulation
    params, buffers = simulation.presented(state)
    model = simulation.work.model
    whole = model.own_names(model.frozen() | params | buffers)
    content = save({name: t.detach().cpu().contiguous() for name, t in whole.items()})
    summary = seal(
        {
            **summarise(simulation, state, rows, seconds),
            "state_sha256": _state_digest(state, simulation.engine.memory, metrics),
            "files_sha256": _file_digests(run, metrics, content),
        }
    )
    write_atomically(folder.model, content)
    folder.write_json(folder.summary, summary)
    return summary


def _file_digests(run: Run, metrics: bytes, model: bytes) -> dict[str, str]:
    """SHA-256 of the files that readers use; of the config, only of keys that decide the result."""
    folder = run.folder
    logs = {folder.metrics: metrics, folder.timing: folder.read_log(folder.timing)}
    return {
        folder.config.name: digest_of(binding(parse_toml(write_toml(run.experiment.tables()), "config"))),
        folder.record.name: (read_sealed(folder.record) or {}).get(SEAL, ""),
        folder.preprocessing.name: (read_sealed(folder.preprocessing) or {}).get(SEAL, ""),
        folder.model.name: hashlib.sha256(model).hexdigest(),
        **{path.name: hashlib.sha256(content).hexdigest() for path, content in logs.items()},
    }


def _state_digest(state: ServerState, memory: Mapping[int, Any], metrics: bytes) -> str:
    """SHA-256 of the final state: model, server slots, client memories and rows."""
    total = hashlib.sha256(digest(state.to_tree()).encode())
    for client in sorted(memory):
        total.update(f"{client} {digest(memory[client])}".encode())
    total.update(metrics)
    return total.hexdigest()


def _start_of(run: Run) -> dict[str, Any]:
    """What a model started from and how much of it is frozen, where that is not the usual."""
    found: dict[str, Any] = {}
    if frozen := run.simulation.work.model.frozen():
        found["frozen_parameters"] = sum(p.numel() for p in frozen.values())
    if (weights := run.experiment.model.weights) is not None:
        with weights_file(weights).open("rb") as file:
            found["weights_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _probes_of(simulation: Simulation) -> list[dict[str, Any]]:
    """Every probe with its title and the names of its numbers, such as the layers that it found."""
    names = simulation.probe_names()
    return [
        {"name": one.name, "title": one.title or one.name, "numbers": names[one.name]}
        for one in simulation.probes
    ]


def keep_start(run: Run, state: ServerState) -> None:
    """Keep a sum with noise before a round uses it: clients that are asked again spend epsilon again."""
    if state.round == 0 and run.simulation.engine.tallied.get("epsilon") is not None:
        _save(run, state, 0.0)


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
    try:
        if read_sealed(folder.preprocessing) is not None:
            return
    except DataError as error:
        logging.getLogger("counterpoise").warning("%s; it is written again", error)
    folder.write_json(folder.preprocessing, seal(preprocessing_of(federation).to_json()))


def describe_run(run: Run, federation: Federation, file: str = "") -> None:
    """Write record.json, unless it is there."""
    folder, settings = run.folder, run.simulation.settings
    counts, totals = federation.client_counts(), federation.class_counts()
    try:
        if read_sealed(folder.record) is not None:
            return
    except DataError as error:
        logging.getLogger("counterpoise").warning("%s; it is written again", error)
    params = run.simulation.work.model.params()
    record = {
        **({"file": file} if file else {}),
        "versions": versions(),
        "machine": machine(),
        "engine": asdict(settings),
        "parameters": sum(p.numel() for p in params.values()),
        **_start_of(run),
        **({"notes": notes} if (notes := run.simulation.notes) else {}),
        "data": {
            "name": federation.name,
            "classes": list(federation.classes),
            "class_counts": None if totals is None else totals.tolist(),
            "notes": list(federation.notes),
            "files": dict(federation.files),
            "client_names": list(federation.client_names),
        },
        "data_sha256": run.facts["data_sha256"],
        "charts": [
            {"part": part.name, **{key: value for key, value in chart._asdict().items() if key != "read"}}
            for part in run.simulation.method.parts
            for chart in part.charts
        ],
        "layers": layer_names(params),
        "probes": _probes_of(run.simulation),
        "samples": federation.samples().tolist(),
        "clients": None if counts is None else counts.tolist(),
        "skew": None if counts is None else describe(counts.numpy()).summary(),
        "tallied": _tallied(run),
    }
    folder.write_json(folder.record, seal(record))
