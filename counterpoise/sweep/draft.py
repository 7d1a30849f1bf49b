"""From a table to a first experiment and a first sweep, with all that was assumed in words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterpoise.data.dataset import Dataset
from counterpoise.data.faults import fault
from counterpoise.data.federation import Federation
from counterpoise.data.own import read_table
from counterpoise.data.skew import imbalance_of
from counterpoise.data.tables.cells import Table, parse_number
from counterpoise.data.tables.identifiers import names_rows
from counterpoise.data.tables.suspects import Suspects, suspects
from counterpoise.errors import listed, one_line
from counterpoise.results.statistics import fewest_pairs
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.sweep.given_table import open_given
from counterpoise.sweep.sweep import make_sweep
from counterpoise.system.toml import write_toml

METHODS: list[Any] = [
    "fedavg",
    ["fedavg", "weighted_ce"],
    ["fedavg", "balanced_softmax"],
    ["fedavg", "focal"],
    ["fedavg", "resample"],
    ["fedavgm", "balanced_softmax"],
]
REMEDY = ["fedavg", "balanced_softmax"]  # of the first experiment, where classes are uneven
UNEVEN = 1.5  # largest over smallest class
SPARE_SEEDS = 2  # beyond the fewest with which a test can find anything: some pairs may be equal, or disagree
RATES = [0.3, 0.1, 0.03]
ENOUGH = (
    50  # training rows: of the rarest class for a smaller validation share, of a simulated client at least
)
MOST_CLIENTS = 10  # that rows are cut into where no column names them
SMALL_CLIENT = 200  # rows below which batches are halved
MANY_CLASSES = 20  # different numbers in a label from which on it may be a quantity


class Draft(NamedTuple):
    """Two files, and what was assumed in writing them, one line each."""

    experiment: str
    sweep: str
    assumed: tuple[str, ...]
    counts: dict[str, int]  # rows of each class in the file


def draft(path: Path, label: str | None, client: str | None, name: str, skip: bool = False) -> Draft:
    """The experiment and the sweep of a table; `name` is that of the experiment's file, without its suffix.

    With `skip` rows that cannot be used are left out, else they are refused.
    """
    table = open_given(path, label, client, skip)
    assert label is not None
    _check_classes(table, label)
    found = suspects(table, _features(table, label, client))
    data = read_table(path, label, client, drop=list(found.left_out), on_error="skip" if skip else "stop")
    tables = _experiment(path, label, client, data, found, skip)
    federation = load_federation(make_experiment(tables))
    assumed = tuple(map(one_line, _assumed(table, data, label, client, found, tables, federation)))
    counts = dict(zip(data.classes, _class_counts(data).tolist(), strict=True))
    tables["data"]["path"] = _from_folder(path, Path(name).parent)
    sweep = _sweep(tables)
    make_sweep(sweep)
    text = _comment([f"counterpoise run {name}.toml", *assumed]) + write_toml(tables)
    return Draft(text, _sweep_text(sweep, name), assumed, counts)


def _check_classes(table: Table, label: str) -> None:
    """A column in which most rows differ is a quantity or a name, and holds no classes."""
    kinds = set(table.columns[label])
    if names_rows(kinds, len(table.rows)):
        many = f"{label!r} holds {len(kinds):,} different values in {len(table.rows):,} rows"
        raise fault(table.path, f"--label: {many}; needs classes, so cut a quantity into ranges first")


def _from_folder(path: Path, folder: Path) -> str:
    """The path as it is from the folder of the experiment, so that it holds wherever the command is called."""
    return (
        str(path)
        if path.is_absolute()
        else os.path.relpath(path.parent.resolve() / path.name, folder.resolve())
    )


def _features(table: Table, label: str, client: str | None) -> list[str]:
    return [column for column in table.columns if column not in (label, client)]


def _experiment(
    path: Path, label: str, client: str | None, data: Dataset, found: Suspects, skip: bool
) -> dict[str, Any]:
    """The tables of the experiment; every number is a first guess that is easy to change."""
    counts, rows = _class_counts(data, train=True), len(data.train.y)
    validation = 0.1 if counts.min() >= ENOUGH else 0.2
    clients = max(2, min(MOST_CLIENTS, rows // ENOUGH))
    here = len(data.client_names) if client is not None else clients
    given = {"label": label, "client": client, "drop": list(found.left_out) or None}
    given |= {"on_error": "skip"} if skip else {}
    given |= {"positive": _rarest(data)[0]} if len(data.classes) == 2 else {}
    return {
        "rounds": 50,
        "method": REMEDY if imbalance_of(counts) >= UNEVEN else "fedavg",
        "data": {"name": "table", "path": str(path), **given, "validation": validation},
        "partition": {"name": "natural", "clients": 0}
        if client is not None
        else {"name": "dirichlet", "clients": clients, "alpha": 0.5},
        "model": {"name": "mlp", "hidden": [32]},
        "local": {"lr": 0.1, "epochs": 2, "batch_size": 32 if rows >= here * SMALL_CLIENT else 16},
        "evaluate": {"every": 5},
        "checkpoint": {"every": 10},
    }


def _sweep(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """All methods with tuned learning rates, and enough seeds for the paired test after Holm's correction."""
    shared = {key: value for key, value in experiment.items() if key != "method"}
    return {
        "methods": METHODS,
        "seeds": fewest_pairs(len(METHODS) - 1) + SPARE_SEEDS,
        "base": {key: _given(value) for key, value in shared.items()},
        "tune": {"grid": {"local.lr": RATES}, "budget": len(RATES)},
    }


def _given(value: Any) -> Any:
    return (
        {key: item for key, item in value.items() if item is not None}
        if isinstance(value, Mapping)
        else value
    )


def _sweep_text(sweep: Mapping[str, Any], name: str) -> str:
    seeds, needed = sweep["seeds"], fewest_pairs(len(METHODS) - 1)
    said = (
        f"counterpoise compare {name}-sweep.toml",
        f"{seeds} seeds: with {len(METHODS) - 1} methods against the first, fewer than {needed} cannot show any difference",
        "seeds change the first weights, the order of rows and, where clients are simulated, who holds what; the test rows stay",
        "the learning rate of each method is chosen on validation rows",
    )
    return _comment(said) + write_toml(sweep)


def _comment(lines: Sequence[str]) -> str:
    """Lines that stay comments, whatever the names in them hold."""
    return "".join(f"# {one_line(line)}\n" for line in lines)


def _assumed(
    table: Table,
    data: Dataset,
    label: str,
    client: str | None,
    found: Suspects,
    tables: Mapping[str, Any],
    federation: Federation,
) -> Iterator[str]:
    yield from _on_classes(table, label, data)
    yield from (f"left out: {name!r}, {why}" for name, why in found.left_out.items())
    yield from (f"look at {name!r}: it {why}" for name, why in found.doubtful.items())
    copies = len(table.rows) - len(set(zip(*table.columns.values(), strict=True)))
    if copies:
        yield f"look at the rows: {copies:,} of {len(table.rows):,} are copies of an earlier one, and may test what trained"
    if found.coded:
        yield f"whole numbers of few kinds, read as amounts: {listed(found.coded)}; data.categorical lists those that only name kinds"
    yield from _on_clients(client, federation)
    yield f"validation: {tables['data']['validation']:g} of the training rows of each class, to choose settings by"
    yield from federation.notes


def _on_classes(table: Table, label: str, data: Dataset) -> Iterator[str]:
    names, (rare, count) = data.classes, _rarest(data)
    what = "the positive class, the rarer of two" if len(names) == 2 else "the rarest class"
    yield f"classes: {len(names)} in {label!r}; {rare!r} is {what}, with {count:,} of {len(table.rows):,} rows"
    if len(names) > MANY_CLASSES and all(parse_number(name) is not None for name in names):
        yield f"look at {label!r}: {len(names):,} different numbers, each a class of its own; a quantity must be cut into ranges first"


def _rarest(data: Dataset) -> tuple[str, int]:
    """The rarest class and its rows; the last of equals, as 1 of 0 and 1."""
    counts = _class_counts(data)
    place = len(counts) - 1 - int(counts[::-1].argmin())
    return data.classes[place], int(counts[place])


def _on_clients(client: str | None, federation: Federation) -> Iterator[str]:
    sizes, counts = federation.samples(), federation.counts()
    span = f"{int(sizes.min()):,} to {int(sizes.max()):,} training rows each"
    if client is None:
        yield f"clients: {len(sizes)} simulated ones, with {span} and uneven classes; --client COLUMN if a column says who holds a row"
        return
    yield f"clients: {len(sizes)}, one per name in {client!r}, with {span}"
    lacking = int((counts == 0).any(1).sum())
    if lacking:
        yield f"classes on clients: {lacking} of {len(sizes)} lack at least one class"


def _class_counts(data: Dataset, train: bool = False) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    labels = [data.train.y] if train else [data.train.y, data.test.y]
    return sum(np.bincount(y.numpy(), minlength=len(data.classes)) for y in labels)  # type: ignore[return-value]
