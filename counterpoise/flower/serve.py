"""A run on the server, with folder, rows, checkpoints and resume as any run, and its clients' shares of the average."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import RunError, first_few
from counterpoise.flower.greetings import Greeted, expected, greeted
from counterpoise.flower.grid import Grid
from counterpoise.flower.job import JobFolder, JobSettings
from counterpoise.flower.roster import Roster
from counterpoise.flower.server import FlowerEngine, RoundPolicy
from counterpoise.flower.status import Status
from counterpoise.flower.workplaces import client_names, with_questions
from counterpoise.run.assemble import load_federation
from counterpoise.run.build import Connect
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.listener import Listener
from counterpoise.run.runner import resume, start
from counterpoise.run.store.stored import Run

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
    experiment, folder = ready.experiment, ready.folder
    shared = None if experiment.flower.clients else load_federation(experiment)
    roster = Roster(grid, ready.names, expected(ready.names, shared, folder), ready.named_nodes)
    status = Status(folder.status, ready.names, experiment.rounds)
    roster.on_update = lambda: status.update(roster.known(), roster.why_missing())
    try:
        _gather(roster, ready)
        known = Greeted(shared) if shared else greeted(experiment, ready.settings, roster, folder)
        federation = known.federation
        samples = dict(zip(ready.names, federation.samples().tolist(), strict=True))
        counted = capped(samples, experiment.flower.max_share)
        for line in share_lines(samples, counted):
            say(line)
        connect = _connect(ready, roster, known, status, list(counted.values()))
        summary = _start(ready, federation, [TrafficLog(), *listeners], connect)
    except BaseException as error:
        status.end(f"stopped: {str(error) or type(error).__name__}")
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
        raise RunError(f"{len(missing)} of {len(names)} clients did not connect: {first_few(words, most=5)}")


def _connect(ready: Prepared, roster: Roster, known: Greeted, status: Status, counted: list[int]) -> Connect:
    """Makes the engine of a run from what its clients said before."""

    def connect(_: EngineSettings, work: Workplace) -> FlowerEngine:
        return FlowerEngine(
            with_questions(work, ready.experiment),  # as clients do, whose answers are checked against it
            roster.grid,
            roster,
            str(ready.settings["run"]),
            round_policy(ready.experiment),
            status,
            counted,
            tallied=known.tallied,
            known_counts=known.known_counts,
            spend=ready.folder.spend,
        )

    return connect


def _start(
    ready: Prepared, federation: Federation, listeners: Sequence[Listener], connect: Connect
) -> dict[str, Any]:
    if ready.resume:
        return resume(ready.out, listeners, federation, connect=connect)
    return start(ready.experiment, ready.out, listeners, federation, connect=connect)


class TrafficLog(Listener):
    """Logs the bytes sent and received in each round."""

    def began(self, run: Run) -> None:
        assert isinstance(run.simulation.engine, FlowerEngine)
        self._messenger, self._folder = run.simulation.engine.messenger, run.folder

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        traffic = {
            "sent_bytes": self._messenger.sent_bytes,
            "received_bytes": self._messenger.received_bytes,
        }
        log = JobFolder(self._folder.path).traffic
        self._folder.append(log, {"round": row["round"], **traffic})


def round_policy(experiment: Experiment) -> RoundPolicy:
    table, checkpoint = experiment.flower, experiment.checkpoint
    # One more than is kept, since the oldest is deleted only after the newest is written.
    window = checkpoint.every * (checkpoint.keep + 1)
    return RoundPolicy(table.timeout, table.min_replies, window)


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
                return {name: min(count, max(1, int(bound))) for name, count in samples.items()}
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
