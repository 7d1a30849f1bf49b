"""A run at the server: the same folder, rows, checkpoints and resume as any run, its clients asked over Flower."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.flower.job import Job, JobFolder, read_job
from counterpoise.engines.flower.messages import Hello
from counterpoise.engines.flower.own_data import surveyed_federation
from counterpoise.engines.flower.refusal import Refused
from counterpoise.engines.flower.roster import Roster, first_of
from counterpoise.engines.flower.server import FlowerEngine, Patience
from counterpoise.engines.flower.workplaces import client_names
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import CounterpoiseError, RunError
from counterpoise.experiment import runner
from counterpoise.experiment.assemble import load_federation
from counterpoise.experiment.atomic import write_atomically
from counterpoise.experiment.config import Experiment, load_experiment
from counterpoise.experiment.folder import RunFolder


def serve(grid: Grid, run_config: Mapping[str, Any]) -> None:
    """Run to the end; the last word goes into the run's folder, where the command that waits reads it."""
    job = read_job()
    folder = JobFolder(Path(job.out))
    write_atomically(folder.process, str(os.getpid()).encode())
    try:
        run(grid, run_config, job, folder)
    except CounterpoiseError as error:
        folder.finish(job, str(error), error.exit_code)
    except BaseException as error:
        folder.finish(job, f"the server app failed: {type(error).__name__}: {error}", 4)
        raise
    else:
        folder.finish(job)


def run(grid: Grid, run_config: Mapping[str, Any], job: Job, folder: JobFolder) -> None:
    experiment = load_experiment(folder.experiment)
    shared = None if experiment.flower.clients else load_federation(experiment)
    classes = len(shared.classes) if shared else len(json.loads(str(run_config["form"]))["classes"])
    names = client_names(experiment, int(run_config["clients"]))
    known = _known_counts(names, shared, folder)
    roster = Roster(grid, names, classes, _agreeing(known), job.named_nodes)
    missing = roster.gather(experiment.flower.wait)
    if missing and not (job.resume and len(names) - len(missing) >= experiment.flower.min_replies):
        raise RunError(f"{len(missing)} of {len(names)} clients did not come: {first_of(missing)}")
    federation = shared or _surveyed(experiment, str(run_config["form"]), roster, folder)

    engines: list[FlowerEngine] = []

    def connect(settings: EngineSettings, work: Workplace) -> FlowerEngine:
        engines.append(FlowerEngine(work, grid, roster, str(run_config["run"]), patience_of(experiment)))
        return engines[-1]

    def watch(row: Mapping[str, Any], rounds: int) -> None:
        traffic = {"sent_bytes": engines[-1].sent_bytes, "received_bytes": engines[-1].received_bytes}
        RunFolder(Path(job.out)).append(folder.traffic, {"round": row["round"], **traffic})

    if job.resume:
        runner.resume(Path(job.out), watch, federation, connect=connect)
    else:
        runner.start(experiment, Path(job.out), watch, federation, connect=connect)


def patience_of(experiment: Experiment) -> Patience:
    table, checkpoint = experiment.flower, experiment.checkpoint
    # One generation more than is kept, since the oldest goes only after the newest is written.
    window = checkpoint.every * (checkpoint.keep + 1)
    return Patience(table.timeout, table.min_replies, window)


def _known_counts(names: list[str], shared: Federation | None, folder: JobFolder) -> dict[str, list[int]]:
    """Class counts of clients that the server knows already: from the experiment's data, or from the run's start."""
    if shared is not None:
        return dict(zip(names, shared.counts().tolist(), strict=True))
    said = json.loads(folder.roster.read_text()) if folder.roster.exists() else {}
    return {name: hello["counts"] for name, hello in said.items()}


def _agreeing(known: Mapping[str, list[int]]) -> Callable[[Hello], None]:
    def check(hello: Hello) -> None:
        if hello.counts != known.get(hello.client, hello.counts):
            raise Refused("counts")

    return check


def _surveyed(experiment: Experiment, form: str, roster: Roster, folder: JobFolder) -> Federation:
    """The federation as its clients describe it; what they said at the start holds for the whole run."""
    if not folder.roster.exists():
        said = {name: hello._replace(surveys={})._asdict() for name, hello in roster.hellos.items()}
        write_atomically(folder.roster, json.dumps(said).encode())
    hellos = {name: Hello(**said) for name, said in json.loads(folder.roster.read_text()).items()}
    return surveyed_federation(experiment, form, [hellos[name] for name in roster.names])
