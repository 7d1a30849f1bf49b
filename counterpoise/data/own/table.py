"""A CSV or Parquet table with a label column as a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from counterpoise.data.columns import TrainTest
from counterpoise.data.dataset import Dataset, Samples
from counterpoise.data.own.assemble import (
    Clients,
    check_coverage,
    natural_clients,
    split_note,
    split_rows,
)
from counterpoise.data.own.cells import Coded, Table, names_of, parse_number
from counterpoise.data.own.csv_file import read_csv
from counterpoise.data.own.faults import check_share, fault
from counterpoise.data.own.features import features_of
from counterpoise.data.own.parquet_file import read_parquet
from counterpoise.data.root import sha256_of
from counterpoise.errors import legal_words

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
PACKED = ".gz"


def is_table(path: Path) -> bool:
    """Whether a file's name says so; of a text file also with `.gz` behind it."""
    name = Path(path.stem) if path.suffix.lower() == PACKED else path
    return name.suffix.lower() in CSV_SUFFIXES or path.suffix.lower() in PARQUET_SUFFIXES


def read_table(
    path: Path | str,
    label: str,
    client: str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
) -> Dataset:
    """One row a sample; `label` names the class, `client` the natural client, every other column is a feature.

    Columns in neither `numeric` nor `categorical` are what their cells look like; those in `drop` are left out.
    """
    check_share(test_share)
    path = Path(path)
    table = read_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else read_csv(path)
    forced_numbers, forced_words, dropped = numeric or (), categorical or (), drop or ()
    special = [label] if client is None else [label, client]
    check_named(table, [*special, *forced_numbers, *forced_words, *dropped])
    classes = _classes(table, label)
    split = split_rows(path, classes.codes, test_share, seed)
    names = [name for name in table.columns if name not in {*special, *dropped}]
    encoded = features_of(table, names, split, forced_numbers, forced_words)
    x, y = torch.from_numpy(encoded.x), torch.from_numpy(classes.codes)
    train, test = (Samples(x[rows], y[rows]) for rows in map(torch.from_numpy, split))
    clients = _clients(table, client, split)
    class_notes = check_coverage(path, classes.names, classes.codes[split.train], classes.codes[split.test])
    return Dataset(
        Path(path.stem).stem if path.suffix.lower() == PACKED else path.stem,
        train,
        test,
        classes.names,
        clients=clients.codes,
        client_names=clients.names,
        files={path.name: sha256_of(path)},
        notes=(
            *table.notes,
            *encoded.notes,
            *class_notes,
            *clients.notes,
            split_note(split, test_share, seed),
        ),
    )


def check_named(table: Table, named: Iterable[str]) -> None:
    """Every named column is there, and for one use."""
    seen: set[str] = set()
    for name in named:
        if name not in table.columns:
            raise fault(
                table.path,
                f"no column {name!r}; {legal_words(name, table.columns)}",
                table.header,
            )
        if name in seen:
            raise fault(table.path, f"column {name!r} is named for two uses")
        seen.add(name)


def _classes(table: Table, label: str) -> Coded:
    """The label column, one class a spelling; two spellings of one number are refused rather than guessed at."""
    classes = names_of(table, label)
    values = [parse_number(name) for name in classes.names]
    for place in range(1, len(values)):
        if values[place] is not None and values[place] == values[place - 1]:
            row = table.rows[int((classes.codes == place).argmax())]
            here, elsewhere = classes.names[place], classes.names[place - 1]
            raise fault(
                table.path,
                f"{label!r} holds {here!r}, and elsewhere {elsewhere!r}: one number in two spellings",
                row,
            )
    return classes


def _clients(table: Table, client: str | None, split: TrainTest) -> Clients:
    if client is None:
        return Clients()
    coded = names_of(table, client)
    return natural_clients(coded.names, coded.codes[split.train])
