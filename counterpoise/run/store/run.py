"""One run in its folder: what is written at its start, after each round and at its end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from safetensors.torch import save

from counterpoise.core.codec import digest
from counterpoise.data.federation import Federation
from counterpoise.errors import RunError
from counterpoise.run.assemble import resolve
from counterpoise.run.config.experiment import Experiment, binding, load_experiment
from counterpoise.run.driver import Ended
from counterpoise.run.giving_up import GivenUpError, Rows, why_given_up
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.describe import describe_run, keep_preprocessing
from counterpoise.run.store.facts import facts_of
from counterpoise.run.store.folder import RunFolder, parse_rows
from counterpoise.run.store.seal import SEAL, digest_of, read_sealed, seal
from counterpoise.run.store.stored import Run
from counterpoise.run.summary import summarise
from counterpoise.server.state import ServerState
from counterpoise.system.atomic import clear_temporaries, write_atomically
from counterpoise.system.toml import parse_toml, write_toml

NotifyEnd = Callable[[Run, Rows], None]  # called with a run and all its rows


def new_run(
    experiment: Experiment, simulation: Simulation, federation: Federation, folder: RunFolder, file: str = ""
) -> Run:
    """Start a run by writing its resolved config; the folder must be locked. `file`: name of the experiment's file."""
    folder.check_free()  # another process may have been faster
    experiment = resolve(experiment, simulation)
    if simulation.method.needs_secret:
        folder.draw_secret()
    _write_tables(experiment, folder)
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
        _write_tables(experiment, folder)


def write_config(run: Run) -> None:
    """Write config.toml as the run now has it."""
    _write_tables(run.experiment, run.folder)


def _write_tables(experiment: Experiment, folder: RunFolder) -> None:
    write_atomically(folder.config, write_toml(experiment.tables()).encode())


def record_round(run: Run, ended: Ended, seconds: float) -> None:
    """Write the row and the seconds of a round, and, when due, a checkpoint with the seconds of all rounds so far."""
    folder = run.folder
    folder.append(folder.metrics, ended.row)
    folder.append(folder.timing, {"round": ended.row["round"], "seconds": ended.seconds})
    if ended.last or ended.state.round % run.experiment.checkpoint.every == 0:
        _save(run, ended.state, seconds)


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
        words, hint = str(error), folder.resume_hint()
        raise RunError(words if hint in words else f"{words}; {hint}") from None


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


def keep_start(run: Run, state: ServerState) -> None:
    """Keep a sum with noise before a round uses it: clients that are asked again spend epsilon again."""
    if state.round == 0 and run.simulation.engine.tallied.get("epsilon") is not None:
        _save(run, state, 0.0)
