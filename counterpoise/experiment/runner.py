"""Run an experiment in a folder, so that it can be stopped at any moment and go on to the same end."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save
from torch import nn

from counterpoise.core.codec import digest
from counterpoise.core.tree import tmap
from counterpoise.data.federation import Federation
from counterpoise.data.skew import describe
from counterpoise.engines.choose import build_engine
from counterpoise.errors import ConfigError, DataError, RunError
from counterpoise.experiment.assemble import assemble, load_federation
from counterpoise.experiment.atomic import clear_temporaries, write_atomically
from counterpoise.experiment.checkpoint import Checkpoint, CheckpointStore
from counterpoise.experiment.config import Experiment, PartitionTable, load_experiment
from counterpoise.experiment.facts import check_facts, facts_of
from counterpoise.experiment.folder import RunFolder, read_rows
from counterpoise.experiment.record import machine, summarise_rows, versions
from counterpoise.experiment.toml import write_toml
from counterpoise.report.curves import draw_curves
from counterpoise.report.heatmap import draw_heatmap
from counterpoise.rounds import Outcome, ServerState
from counterpoise.simulation import Connect, Simulation

Watch = Callable[[Mapping[str, Any], int], None]  # a row of metrics, all rounds


class Run(NamedTuple):
    """A simulation at work in a folder."""

    experiment: Experiment
    simulation: Simulation
    folder: RunFolder
    store: CheckpointStore
    facts: dict[str, Any]


def start(
    experiment: Experiment,
    out: Path,
    watch: Watch | None = None,
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
) -> dict[str, Any]:
    """A new run; returns its summary."""
    folder = RunFolder(out)
    folder.check_free()
    federation = federation or load_federation(experiment)
    # Before the lock, so that worker processes do not hold it, and before the folder, so that a bad config leaves none.
    with closing(assemble(experiment, federation, model, connect)) as simulation:
        folder.create()
        with folder.locked(), _resumable(folder):
            folder.check_free()  # another process may have been quicker
            clear_temporaries(folder.path)
            experiment = settle(experiment, simulation)
            run = _open_run(experiment, simulation, federation, folder)
            write_atomically(folder.config, write_toml(experiment.tables()).encode())
            _describe(run, federation)
            return _go_on(run, simulation.open(), 0.0, watch)


def resume(
    path: Path,
    watch: Watch | None = None,
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
) -> dict[str, Any]:
    """Go on from the newest whole checkpoint; returns the summary."""
    folder = RunFolder(path)
    if not folder.holds_run():
        raise ConfigError(f"{path} holds no run: there is no config.toml in it")
    experiment = load_experiment(folder.config)
    federation = federation or load_federation(experiment)
    with (
        closing(assemble(experiment, federation, model, connect)) as simulation,
        folder.locked(),
        _resumable(folder),
    ):
        clear_temporaries(folder.path)
        run = _open_run(experiment, simulation, federation, folder)
        state, seconds = _restore(run)
        _describe(run, federation)
        return _go_on(run, state, seconds, watch)


@contextmanager
def _resumable(folder: RunFolder) -> Iterator[None]:
    """A failing disk or a lost worker ends in one line that says how to go on."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise RunError(f"{place}{error.strerror or error}; {folder.way_on()}") from None
    except RunError as error:
        raise RunError(f"{error}; {folder.way_on()}") from None


def settle(experiment: Experiment, simulation: Simulation) -> Experiment:
    """The experiment with every choice made, as the run's folder keeps it."""
    chosen = simulation.settings
    engine = experiment.engine.model_copy(
        update={
            "name": chosen.name,
            "device": chosen.device,
            "processes": chosen.processes,
            "chunk": chosen.chunk,
            "reason": chosen.reason,
        }
    )
    local = experiment.local.model_copy(update={"batching": simulation.work.local.batching})
    clients = len(simulation.work.federation.clients)
    packed = PartitionTable(name="packed", clients=clients)
    partition = (
        packed
        if experiment.data.name == "pack"
        else experiment.partition.model_copy(update={"clients": clients})
    )
    return experiment.model_copy(update={"engine": engine, "local": local, "partition": partition})


def _open_run(
    experiment: Experiment, simulation: Simulation, federation: Federation, folder: RunFolder
) -> Run:
    facts = facts_of(experiment, federation, simulation.work.model.params())
    store = CheckpointStore(folder.checkpoints, experiment.checkpoint.keep)
    return Run(experiment, simulation, folder, store, facts)


def _go_on(run: Run, state: ServerState, seconds: float, watch: Watch | None) -> dict[str, Any]:
    """Rounds until the end, each with its row, its time and, when due, its checkpoint."""
    experiment, folder = run.experiment, run.folder
    while state.round < experiment.rounds:
        began = time.perf_counter()
        state, outcome = run.simulation.advance(state)
        row = _row(run, state, outcome)
        spent = time.perf_counter() - began
        seconds += spent
        folder.append(folder.metrics, row)
        folder.append(folder.timing, {"round": outcome.round, "seconds": spent})
        if state.round % experiment.checkpoint.every == 0 or state.round == experiment.rounds:
            run.store.save(_checkpoint(run, state, seconds))
        if watch is not None:
            watch(row, experiment.rounds)
    return _finish(run, state, seconds)


def _row(run: Run, state: ServerState, outcome: Outcome) -> dict[str, Any]:
    last = state.round == run.experiment.rounds
    due = last or state.round % run.experiment.evaluate.every == 0
    scores = run.simulation.evaluate(state) if due else {}
    return outcome.row() | scores


def _checkpoint(run: Run, state: ServerState, seconds: float) -> Checkpoint:
    server = {"params": state.params, "buffers": state.buffers, "slots": state.slots}
    memory = run.simulation.engine.memory
    return Checkpoint(
        state.round, server, dict(memory), {**run.facts, "logs": run.folder.log_sizes(), "seconds": seconds}
    )


def _restore(run: Run) -> tuple[ServerState, float]:
    """The state of the newest whole checkpoint that the logs reach; without one the run starts again."""
    device = run.simulation.work.federation.train.x.device
    while (found := run.store.load()) is not None:
        check_facts(run.folder.path, found.facts, run.facts)
        try:
            run.folder.cut_logs(found.facts["logs"])
        except DataError as error:
            run.store.damaged.append(str(error))
            run.store.drop(found.round)
            continue
        _tell_damage(run, f"going on from round {found.round}")
        server, memory = (
            tmap(lambda leaf: leaf.to(device), tree)
            for tree in (found.server, {str(k): m for k, m in found.memory.items()})
        )
        run.simulation.engine.memory.update({int(client): tree for client, tree in memory.items()})
        state = ServerState(server["params"], server.get("buffers", {}), server.get("slots", {}), found.round)
        return state, float(found.facts["seconds"])
    _tell_damage(run, "starting again")
    run.folder.cut_logs({run.folder.metrics.name: 0, run.folder.timing.name: 0})
    return run.simulation.open(), 0.0


def _tell_damage(run: Run, consequence: str) -> None:
    for words in run.store.damaged:
        logging.getLogger("counterpoise").warning("%s; %s", words, consequence)


def _finish(run: Run, state: ServerState, seconds: float) -> dict[str, Any]:
    folder, simulation = run.folder, run.simulation
    rows = read_rows(folder.metrics)
    model = {"params": state.params, "buffers": state.buffers}
    summary = {
        "method": simulation.method.name,
        "seed": run.experiment.seed,
        "rounds": run.experiment.rounds,
        **summarise_rows(rows),
        "seconds": seconds,
        "engine": simulation.settings.name,
        "device": simulation.settings.device,
        "params_sha256": digest(model),
        "state_sha256": _state_digest(state, simulation.engine.memory, folder.metrics),
    }
    write_atomically(
        folder.model,
        save({name: t.detach().cpu().contiguous() for name, t in (state.params | state.buffers).items()}),
    )
    draw_curves(rows, folder.curves_picture, f"{simulation.method.name} on {simulation.work.federation.name}")
    folder.write_json(folder.summary, summary)
    return summary


def _state_digest(state: ServerState, memory: Mapping[int, Any], metrics: Path) -> str:
    """SHA-256 of all that the run has come to: model, server, clients and rows."""
    whole = {
        "params": state.params,
        "buffers": state.buffers,
        "slots": state.slots,
        "memory": {str(k): m for k, m in memory.items()},
    }
    return hashlib.sha256(digest(whole).encode() + metrics.read_bytes()).hexdigest()


def _describe(run: Run, federation: Federation) -> None:
    """The record and the picture of the partition, where they are not there yet."""
    folder, settings, counts = run.folder, run.simulation.settings, federation.counts()
    if folder.record.exists():
        return
    draw_heatmap(
        counts.numpy(),
        federation.classes,
        folder.partition_picture,
        f"{federation.name}: samples of each client and class",
    )
    record = {
        "versions": versions(),
        "machine": machine(),
        "engine": asdict(settings),
        "parameters": sum(p.numel() for p in run.simulation.work.model.params().values()),
        "data": {
            "name": federation.name,
            "classes": list(federation.classes),
            "class_counts": counts.sum(0).tolist(),
            "notes": list(federation.notes),
            "files": dict(federation.files),
        },
        "data_sha256": run.facts["data_sha256"],
        "charts": [
            {"part": part.name, **{key: value for key, value in chart._asdict().items() if key != "read"}}
            for part in run.simulation.method.parts
            for chart in part.charts
        ],
        "clients": counts.tolist(),
        "skew": describe(counts.numpy()).summary(),
    }
    folder.write_json(folder.record, record)
