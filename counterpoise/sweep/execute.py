"""Execute the runs of a sweep, one after another or in worker processes; each can be killed and resumed."""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import torch

from counterpoise.data.dataset import Dataset
from counterpoise.data.federation import Federation
from counterpoise.data.held_out import hold_out_classes
from counterpoise.errors import ConfigError, CounterpoiseError, one_line
from counterpoise.report.client_tables import ClientTable
from counterpoise.report.pictures import Pictures
from counterpoise.results.results import FAILURE
from counterpoise.run.assemble import load_dataset, load_federation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.listener import Listener
from counterpoise.run.runner import Member, resume, run_together, start
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.jobs import has_begun
from counterpoise.sweep.orders import Group, Order
from counterpoise.sweep.tune import use_validation_as_test
from counterpoise.system.allocator import keep_memory
from counterpoise.system.atomic import write_atomically
from counterpoise.system.toml import write_toml

LISTENERS = (Pictures(), ClientTable())
DATA = ("data", "partition", "seed")  # keys that decide the samples of each client


Handle = TypeVar("Handle", bound=Hashable)


class Event(NamedTuple):
    """A run began or ended; it succeeded if there is no error."""

    path: str
    ended: bool = False
    error: str | None = None


class Executor(Protocol[Handle]):
    """Executes groups of runs; a handle stands for a running group."""

    places: int  # groups that run at once

    def submit(self, group: Group) -> Handle: ...

    def collect(self, busy: Sequence[Handle]) -> list[tuple[Handle, list[str | None] | str]]:
        """Wait until some end: the error of each run, or one line if the whole group was lost."""

    def stop(self, busy: Sequence[Handle]) -> None:
        """End what still runs; such runs can be resumed."""


def run_group(orders: Group) -> list[str | None]:
    """Execute a group; the error of each run, None where it succeeded."""
    if len(orders) == 1:
        return [run_one(one) for one in orders]
    try:
        ended = run_together([_member(one) for one in orders], _listeners(orders[0]))
    except ConfigError:  # they cannot be joined, or one of them is invalid: by method, and at last one by one
        return _run_apart(orders)
    except Exception as error:  # no error of one group may stop the others
        return [note_failure(one, in_one_line(error)) for one in orders]
    return [
        note_failure(one, end) if isinstance(end, str) else None
        for one, end in zip(orders, ended, strict=True)
    ]


def _run_apart(orders: Group) -> list[str | None]:
    """The runs of each method together; where there is only one method, one by one."""
    by_method: dict[str, list[Order]] = {}
    for one in orders:
        by_method.setdefault(json.dumps(one.config.get("method"), sort_keys=True), []).append(one)
    if len(by_method) == 1:
        return [run_one(one) for one in orders]
    ends = {one.path: end for own in by_method.values() for one, end in zip(own, run_group(own), strict=True)}
    return [ends[one.path] for one in orders]


def _member(one: Order) -> Member:
    folder = RunFolder(Path(one.path))
    make_ready(folder)
    return Member(make_experiment(one.config), folder.path, _federation(one))


def _federation(one: Order) -> Federation:
    data = {key: one.config[key] for key in DATA if key in one.config}
    return _load(json.dumps(data), one.tuning, one.held)


def _listeners(one: Order) -> Sequence[Listener]:
    return LISTENERS if one.pictures else ()


def run_one(one: Order) -> str | None:
    """Start or resume a run; an error is written to its folder in one line."""
    folder = RunFolder(Path(one.path))
    try:
        experiment = make_experiment(one.config)
        federation = _federation(one)
        make_ready(folder)
        if has_begun(folder):
            resume(folder.path, _listeners(one), federation, max_skipped=experiment.engine.max_skipped)
        else:
            start(experiment, folder.path, _listeners(one), federation)
    except Exception as error:  # no error of one run may stop the others
        return note_failure(one, in_one_line(error))
    return None


def one_by_one(groups: Sequence[Group]) -> Generator[Event]:
    """Execute the groups in this process; files may have changed since it last did."""
    _load.cache_clear()
    _dataset.cache_clear()
    for members in groups:
        yield from (Event(one.path) for one in members)
        yield from _ended(members, run_group(members))


def share_out(groups: Sequence[Group], executor: Executor[Handle]) -> Generator[Event]:
    """Submit each group to the next free worker."""
    waiting, busy = deque(groups), dict[Handle, Group]()
    try:
        while waiting or busy:
            while waiting and len(busy) < executor.places:
                members = waiting.popleft()
                busy[executor.submit(members)] = members
                yield from (Event(one.path) for one in members)
            for handle, answer in executor.collect(list(busy)):
                yield from _ended(busy.pop(handle), answer)
    finally:
        executor.stop(list(busy))


def prepare_worker() -> None:
    """Parallel runs share the cores, so further threads would only compete for them; pages that a step frees serve the next one."""
    torch.set_num_threads(1)
    keep_memory()


def note_failure(one: Order, error: str) -> str:
    """Write to the run's folder why it failed, and its config if it is not there."""
    folder = RunFolder(Path(one.path))
    with suppress(OSError):
        folder.path.mkdir(parents=True, exist_ok=True)
        if not folder.holds_run():
            write_atomically(folder.config, write_toml(make_experiment(one.config).tables()).encode())
        folder.write_json(folder.path / FAILURE, {"error": error})
    return error


def make_ready(folder: RunFolder) -> None:
    """Remove a recorded failure, and all files of a run that never began."""
    (folder.path / FAILURE).unlink(missing_ok=True)
    # With a record but without a config it did begin: it is refused later rather than removed.
    if not has_begun(folder) and not folder.record.exists():
        folder.forget()


def in_one_line(error: Exception) -> str:
    if isinstance(error, CounterpoiseError):
        words = str(error)
    elif isinstance(error, OSError):
        words = f"{error.filename or 'output'}: {error.strerror or error}"
    else:
        words = f"{type(error).__name__}: {error}"
    return one_line(words)


def _ended(members: Group, answer: list[str | None] | str) -> Iterator[Event]:
    errors = [note_failure(one, answer) for one in members] if isinstance(answer, str) else answer
    for one, error in zip(members, errors, strict=True):
        yield Event(one.path, ended=True, error=error)


@functools.lru_cache(maxsize=1)
def _load(config: str, tuning: bool, held: float) -> Federation:
    """The data of a run, cut into clients; cached, since methods of one seed follow each other."""
    tables = json.loads(config)
    experiment = make_experiment(tables)
    alone = {key: tables[key] for key in ("data",) if key in tables}
    federation = load_federation(experiment, _dataset(json.dumps(alone)))
    federation = hold_out_classes(federation, held, experiment.seed) if held else federation
    return use_validation_as_test(federation) if tuning else federation


@functools.lru_cache(maxsize=1)
def _dataset(config: str) -> Dataset:
    """The data set of a run; cached, since seeds only cut it otherwise."""
    return load_dataset(make_experiment(json.loads(config)).data)
