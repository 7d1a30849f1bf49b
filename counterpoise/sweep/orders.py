"""Runs as they are sent to workers, and which of them share a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from counterpoise.core.variants import skeleton
from counterpoise.errors import ConfigError
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.jobs import Job, has_begun, known_experiment

RATES = ("lr", "schedule")  # of [local]: each run has its rate of the round


class Order(NamedTuple):
    """A run as it is sent to a worker: plain strings and numbers."""

    path: str
    config: dict[str, Any]
    tuning: bool
    held: float = 0.0
    pictures: bool = True


Group: TypeAlias = Sequence[Order]  # runs that are executed together


def order(job: Job, out: Path, alone: bool) -> Order:
    """The job as an order; unless it runs alone, a run uses one process."""
    # Only the given keys: a pack refuses a partition that was set.
    tables = job.experiment.given()
    if not alone:
        tables["engine"] = tables.get("engine", {}) | {"processes": 1}
    return Order(str(job.path(out).absolute()), tables, job.tuning, job.held, job.pictures)


def group(orders: Sequence[Order]) -> list[Group]:
    """Groups of runs that differ only in seed, learning rate and numbers of their method, where the stacked engine can train them together."""
    groups: dict[str, list[Order]] = {}
    for one in orders:
        groups.setdefault(_group_key(one), []).append(one)
    return list(groups.values())


def _group_key(one: Order) -> str:
    """Runs with equal keys share a program; a run that began stays with those it began with."""
    folder = RunFolder(Path(one.path))
    if has_begun(folder):
        known = known_experiment(folder)
        return json.dumps((known.engine.together if known else None) or one.path)
    if one.config.get("evaluate", {}).get("patience"):  # each may end after another round
        return one.path
    engine = one.config.get("engine", {})
    on_gpu = torch.cuda.is_available() and engine.get("device", "auto") != "cpu"
    if not (engine.get("name") == "stacked" or (engine.get("name", "auto") == "auto" and on_gpu)):
        return one.path
    local = {key: value for key, value in one.config.get("local", {}).items() if key not in RATES}
    alike = {"seed": 0, "local": local, "method": _skeleton(one)}
    return json.dumps([one.tuning, one.held, one.config | alike], sort_keys=True)


def _skeleton(one: Order) -> Any:
    """The method without its numbers; as it is given where they cannot differ in one program, or where it is wrong."""
    method: Any = one.config.get("method")
    if one.config.get("engine", {}).get("compile") is True:
        return method
    try:
        return skeleton(method)
    except ConfigError:
        return method
