"""Data before training: classes, clients, and how skewed the clients are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.data.dataset import DATASETS, Dataset
from counterpoise.data.federation import Federation
from counterpoise.data.own import kind_of, open_data
from counterpoise.data.prepare import assigned_federation, split_federation
from counterpoise.data.skew import SkewReport, describe
from counterpoise.errors import few_digits, plural
from counterpoise.run.assemble import load_dataset, load_federation
from counterpoise.run.config.experiment import make_experiment, open_experiment
from counterpoise.system.toml import override

MOST_CLIENTS = 40  # clients that are listed one by one


def look_at(
    source: str,
    label: str | None = None,
    client: str | None = None,
    by_client: bool = False,
    root: Path | None = None,
    overrides: Sequence[str] = (),
) -> Federation:
    """The federation of a user's file, an experiment file or a data set by name; data without clients is one client.

    `overrides` are those of `run`, such as ``data.imbalance=10`` or ``partition.name=iid``.
    """
    path = Path(source)
    if path.suffix == ".toml":
        return load_federation(open_experiment(path, overrides))
    if overrides:
        return _overridden(_data_table(source, label, client, by_client, root), overrides)
    if source in DATASETS and not path.exists():
        return as_clients(DATASETS.build(source)(root))
    return as_clients(open_data(path, label=label, client=client, clients=by_client))


def _overridden(data: Mapping[str, Any], overrides: Sequence[str]) -> Federation:
    tables: dict[str, Any] = reduce(override, overrides, {"data": data})
    experiment = make_experiment(tables, "inspect")
    if "partition" in tables:
        return load_federation(experiment)
    return as_clients(load_dataset(experiment.data))


def _data_table(
    source: str, label: str | None, client: str | None, by_client: bool, root: Path | None
) -> dict[str, Any]:
    """What [data] of an experiment would be."""
    if source in DATASETS and not Path(source).exists():
        return {"name": source} | ({} if root is None else {"root": str(root)})
    given = {"label": label, "client": client, "clients": by_client or None}
    return {"name": kind_of(Path(source)), "path": source} | {
        key: value for key, value in given.items() if value is not None
    }


def as_clients(data: Dataset) -> Federation:
    """The data's own clients, or all of it as one client."""
    if data.assignment is not None:
        return assigned_federation(data)
    return (
        split_federation(data, "natural", 0) if data.clients is not None else split_federation(data, "iid", 1)
    )


def report_lines(federation: Federation) -> Iterator[str]:
    """The report, line by line."""
    counts = federation.counts().numpy()
    totals, skew = counts.sum(0), describe(counts)
    yield f"{federation.name}: {totals.sum()} training and {len(federation.test.y)} test samples, {len(totals)} classes, {plural(len(counts), 'client')}"
    yield f"imbalance: {few_digits(skew.global_imbalance)} to 1 (largest over smallest class)"
    yield from (f"note: {note}" for note in federation.notes)
    yield ""
    yield "class                     samples   share   clients that hold it"
    for name, total, holders in zip(federation.classes, totals, (counts > 0).sum(0), strict=True):
        yield f"{name[:24]:<24} {total:>8} {total / max(totals.sum(), 1):>7.2%}   {holders} of {len(counts)}"
    if len(counts) > 1:
        yield from _client_lines(federation, skew, counts)


def _client_lines(
    federation: Federation, skew: SkewReport, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> Iterator[str]:
    names = federation.client_names or tuple(str(k) for k in range(len(counts)))
    yield ""
    yield "client                    samples   imbalance   missing classes   divergence from all"
    for k in range(min(len(names), MOST_CLIENTS)):
        yield f"{names[k][:24]:<24} {skew.sizes[k]:>8} {few_digits(skew.local_imbalance[k]):>11} {skew.missing_classes[k]:>17} {skew.divergence[k]:>21.3f}"
    if len(names) > MOST_CLIENTS:
        yield f"... and {len(names) - MOST_CLIENTS} more"
    summary = skew.summary()
    yield ""
    yield f"divergence of clients from all (Jensen-Shannon, 0 to 1): {summary['divergence']:.3f} on average"
    yield f"agreement of local and global class shares (cosine by samples, 1 is equal): {summary['weighted_cosine']:.3f}"
    yield f"clients whose largest class is not the largest of all: {skew.head_mismatch:.0%}"
