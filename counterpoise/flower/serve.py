"""A run on the server, with folder, rows, checkpoints and resume as any run, and its clients' shares of the average."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import RunError
from counterpoise.flower.grid import Grid
from counterpoise.flower.job import JobFolder, JobSettings, write_roster
from counterpoise.flower.messages import Hello
from counterpoise.flower.own_data import surveyed_federation
from counterpoise.flower.refusal import Refused
from counterpoise.flower.roster import Roster, first_of
from counterpoise.flower.server import FlowerEngine, RoundPolicy
from counterpoise.flower.status import Status
from counterpoise.flower.sums import Histogram, ask_histogram
from counterpoise.flower.workplaces import client_names
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.listener import Listener
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import RunFolder

LOG = logging.getLogger("counterpoise")
TOO_MUCH = 0.5  # of all samples, above which one client determines the model
SHOWN = 20  # clients whose share is printed


class Prepared(NamedTuple):
    """A run that is ready for its clients."""

    experiment: Experiment
    out: Path
    settings: JobSettings  # what clients are sent before the run
    resume: bool
    named_nodes: bool = False  # nodes are registered under their clients' names

    @property
    def folder(self) -> JobFolder:
        return JobFolder(self.out)

    @property
    def names(self) -> list[str]:
        return client_names(self.experiment, int(self.settings["clients"]))


Say = Callable[[str], None]


def run(
    grid: Grid, ready: Prepared, listeners: Sequence[Listener] = (), say: Say = LOG.info
) -> dict[str, Any]:
    """Wait for the clients, run all rounds, and return the summary."""
    experiment, folder, form = ready.experiment, ready.folder, str(ready.settings["form"])
    shared = None if experiment.flower.clients else load_federation(experiment)
    classes = len(shared.classes) if shared else len(json.loads(form)["classes"])
    hidden = experiment.privacy.in_messages
    known = {} if hidden else _known_counts(ready.names, shared, folder)
    roster = Roster(grid, ready.names, classes, _agreeing(known), hidden, ready.named_nodes)
    status = Status(folder.status, ready.names, experiment.rounds)
    roster.on_update = lambda: status.update(roster.known(), roster.why_missing())
    try:
        _gather(roster, ready)
        histogram = None if shared or not hidden else _histogram(ready, roster)
        total = None if histogram is None else histogram.counts
        federation = shared or _surveyed(experiment, form, roster, folder, total)
        samples = dict(zip(ready.names, federation.samples().tolist(), strict=True))
        counted = capped(samples, experiment.flower.max_share)
        for line in share_lines(samples, counted):
            say(line)
        shares = list(counted.values())
        summary = _start(grid, ready, roster, federation, status, shares, histogram, listeners)
    except BaseException as error:
        status.end(f"stopped: {error or type(error).__name__}")
        raise
    status.end("done")
    return summary


def _gather(roster: Roster, ready: Prepared) -> None:
    """Wait for clients; a resumed run needs only as many as a round does."""
    flower, names = ready.experiment.flower, ready.names
    missing = roster.gather(flower.wait)
    if missing and not (ready.resume and len(names) - len(missing) >= flower.min_replies):
        why = roster.why_missing()
        words = [f"{name} (refused: {why[name]})" if name in why else name for name in missing]
        raise RunError(f"{len(missing)} of {len(names)} clients did not connect: {first_of(words)}")


def _start(
    grid: Grid,
    ready: Prepared,
    roster: Roster,
    federation: Federation,
    status: Status,
    counted: list[int],
    histogram: Histogram | None,
    listeners: Sequence[Listener],
) -> dict[str, Any]:
    engines: list[FlowerEngine] = []

    def connect(settings: EngineSettings, work: Workplace) -> FlowerEngine:
        policy, run_id = round_policy(ready.experiment), str(ready.settings["run"])
        engines.append(FlowerEngine(work, grid, roster, run_id, policy, status, histogram, counted))
        engines[-1].tallied = {} if histogram is None else histogram.facts
        return engines[-1]

    all_listeners = [TrafficLog(ready, engines), *listeners]
    if ready.resume:
        return resume(ready.out, all_listeners, federation, connect=connect)
    return start(ready.experiment, ready.out, all_listeners, federation, connect=connect)


class TrafficLog(Listener):
    """Logs the bytes sent and received in each round."""

    def __init__(self, ready: Prepared, engines: Sequence[FlowerEngine]) -> None:
        self._ready, self._engines = ready, engines

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        engine, folder = self._engines[-1], self._ready.folder
        traffic = {"sent_bytes": engine.sent_bytes, "received_bytes": engine.received_bytes}
        RunFolder(self._ready.out).append(folder.traffic, {"round": row["round"], **traffic})


def round_policy(experiment: Experiment) -> RoundPolicy:
    table, checkpoint = experiment.flower, experiment.checkpoint
    # One more than is kept, since the oldest is deleted only after the newest is written.
    window = checkpoint.every * (checkpoint.keep + 1)
    return RoundPolicy(table.timeout, table.min_replies, window)


def _known_counts(names: list[str], shared: Federation | None, folder: JobFolder) -> dict[str, list[int]]:
    """Class counts of clients that the server knows: from the experiment's data, or from the start of the run."""
    if shared is not None:
        return dict(zip(names, shared.counts().tolist(), strict=True))
    recorded = json.loads(folder.roster.read_text()) if folder.roster.exists() else {}
    return {name: hello["counts"] for name, hello in recorded.items()}


def _agreeing(known: Mapping[str, list[int]]) -> Callable[[Hello], None]:
    def check(hello: Hello) -> None:
        if hello.counts != known.get(hello.client, hello.counts):
            raise Refused("counts")

    return check


def _histogram(ready: Prepared, roster: Roster) -> Histogram:
    """The clients' class counts as their sum, where the server is to know no more."""
    experiment, run_id = ready.experiment, str(ready.settings["run"])
    waits = experiment.flower.timeout
    return ask_histogram(experiment.privacy, roster.classes, roster, run_id, waits, ready.folder.histogram)


def _surveyed(
    experiment: Experiment, form: str, roster: Roster, folder: JobFolder, total: list[int] | None
) -> Federation:
    """The federation as its clients describe it; their first counts hold for the whole run."""
    if not folder.roster.exists():
        recorded = {name: hello._replace(surveys={})._asdict() for name, hello in roster.hellos.items()}
        write_roster(folder.roster, recorded)
    hellos = {name: Hello(**recorded) for name, recorded in json.loads(folder.roster.read_text()).items()}
    return surveyed_federation(experiment, form, [hellos[name] for name in roster.names], total)


def capped(samples: Mapping[str, int], most: float | None) -> dict[str, int]:
    """Samples that each client counts for, none more than a share `most` of their sum; nobody can check what clients report.

    n_k <- min(n_k, b) with the largest b for which b <= most * sum_j min(n_j, b); where there is none, all alike.
    """
    counts = sorted(samples.values())
    if most is None or counts[-1] <= most * sum(counts):
        return dict(samples)
    for kept in range(len(counts) - 1, -1, -1):
        # The largest ones, all but `kept`, count for b each: b = most (rest + (K - kept) b).
        over, rest = len(counts) - kept, sum(counts[:kept])
        if most * over < 1:
            bound = most * rest / (1 - most * over)
            if kept == 0 or bound >= counts[kept - 1]:
                return {name: max(1, min(count, int(bound))) for name, count in samples.items()}
    return dict.fromkeys(samples, 1)


def share_lines(samples: Mapping[str, int], counted: Mapping[str, int]) -> list[str]:
    """Every client's share, largest first, and a warning where one has more than half."""
    total = sum(counted.values())
    order: Sequence[str] = sorted(samples, key=lambda name: (-samples[name], name))
    lines = []
    for name in order[:SHOWN]:
        less = "" if counted[name] == samples[name] else f", counts for {counted[name]:,}"
        lines.append(
            f"client {name}: {samples[name]:,} samples{less}, {counted[name] / total:.1%} of the average"
        )
    if len(order) > SHOWN:
        lines.append(f"and {len(order) - SHOWN} more clients")
    largest = order[0]
    if len(order) > 1 and counted[largest] > TOO_MUCH * total:
        lines.append(
            f"warning: client {largest} reports {samples[largest]:,} samples, more than half of all, so it alone "
            "determines the model; flower.max_share bounds that"
        )
    return lines
