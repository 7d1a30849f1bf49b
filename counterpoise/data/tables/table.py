"""A CSV or Parquet table with a label column: its encoder, fitted on its training rows, and the data set of its inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from counterpoise.data.dataset import Dataset, Samples, Source
from counterpoise.data.faults import fault
from counterpoise.data.root import sha256_of
from counterpoise.data.split import (
    Clients,
    TrainTest,
    check_coverage,
    natural_clients,
    split_at,
)
from counterpoise.data.tables.cells import Coded, Table, names_of, parse_number
from counterpoise.data.tables.csv_file import FEWEST_COLUMNS, read_csv
from counterpoise.data.tables.encoder import Encoder, Inputs
from counterpoise.data.tables.fit import Fitted, column_warnings, fit_notes, fit_table
from counterpoise.data.tables.identifiers import drop_key, gap_word_notes, pandas_indices
from counterpoise.data.tables.parquet_file import read_parquet
from counterpoise.data.tables.skipped import OnError, usable
from counterpoise.data.tables.splitting import BY_SHARE, Splitting, choose_rows, splitting_note
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.data.types import Rows
from counterpoise.errors import ConfigError, legal_words, listed, short

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
PACKED = ".gz"
TEST_FILE = "test: "  # begins the name of a file that a run only tested on, in its record


class FittedTable(NamedTuple):
    """A table whose encoder is fitted on its training rows, and all its rows encoded."""

    table: Table
    classes: Coded
    split: TrainTest
    encoder: Encoder
    samples: Samples
    notes: tuple[str, ...]  # how the columns were encoded
    warnings: tuple[str, ...]  # columns that look like a mistake


def is_table(path: Path) -> bool:
    """Whether the suffix is that of a table; text files also with `.gz` after it."""
    name = Path(path.stem) if path.suffix.lower() == PACKED else path
    return name.suffix.lower() in CSV_SUFFIXES or path.suffix.lower() in PARQUET_SUFFIXES


def open_table(path: Path, fewest: int = FEWEST_COLUMNS, on_error: OnError = "stop") -> Table:
    """The table of a file with at least so many columns."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return read_parquet(path, fewest)
    return read_csv(path, fewest=fewest, on_error=on_error)


def read_table(
    path: Path | str,
    label: str,
    client: str | None = None,
    how: Splitting = BY_SHARE,
    on_error: OnError = "stop",
    **named: Sequence[str] | None,
) -> Dataset:
    """As `table_dataset`, with the columns one by one: `numeric`, `categorical` and `drop` may be named too."""
    return table_dataset(Path(path), ColumnUses(label, client, **named), how, on_error)


def table_dataset(
    path: Path, uses: ColumnUses, how: Splitting = BY_SHARE, on_error: OnError = "stop"
) -> Dataset:
    """The data set of a file, one row per sample.

    Rows that cannot be used are refused, or with `on_error` "skip" left out and listed in a note.
    """
    data = dataset_of(fitted_table(path, uses, how, on_error), uses, how)
    name = Path(path.stem).stem if path.suffix.lower() == PACKED else path.stem
    return replace(data, name=name, files=_files(path, how.test))


def dataset_of(fitted: FittedTable, uses: ColumnUses, how: Splitting) -> Dataset:
    """The data set of a table that was fitted so."""
    split, classes, codes = fitted.split, fitted.classes, fitted.classes.codes
    train, test = (fitted.samples.take(rows) for rows in map(torch.from_numpy, split))
    clients = _clients(fitted.table, uses.client, split)
    class_notes = check_coverage(fitted.table.path, classes.names, codes[split.train], codes[split.test])
    share = splitting_note(split, how)
    return Dataset(
        fitted.table.path.stem,
        train,
        test,
        classes.names,
        clients=clients.codes,
        client_names=clients.names,
        notes=(*fitted.notes, *fitted.warnings, *class_notes, *clients.notes, share),
        source=Source(uses.label, fitted.encoder),
    )


def fitted_table(
    path: Path | Table,
    uses: ColumnUses,
    how: Splitting = BY_SHARE,
    on_error: OnError = "stop",
    drop_words: Callable[[str], str] = drop_key,
) -> FittedTable:
    """The table with its rows encoded; `drop_words` says in notes how to leave a column out."""
    how.check()
    table = path if isinstance(path, Table) else open_table(path, on_error=on_error)
    table, features = _with_features(table, uses, how, on_error)
    classes = _classes(table, uses.label)
    if how.test is not None and how.test.resolve() == table.path.resolve():
        raise ConfigError(f"data.test is the training file itself, {short(table.path)}; needs other rows")
    tests = None if how.test is None else _open_test(how.test, uses.label, classes)
    rows = len(table.rows)
    split = choose_rows(table, classes, how) if tests is None else split_at(rows, rows + len(tests[1]))
    fitted = fit_table(table, features, split.train, *uses.typed)
    x, y = _encoded(table, fitted, classes.codes, tests)
    samples = Samples(torch.from_numpy(x), torch.from_numpy(y))
    gaps = (note for name in uses.owners for note in gap_word_notes(name, table.columns[name]))
    notes = (*table.notes, *fit_notes(fitted))
    warnings = (*gaps, *column_warnings(table, fitted, *uses.typed, drop_words))
    return FittedTable(table, classes._replace(codes=y), split, fitted.encoder, samples, notes, warnings)


def _with_features(
    table: Table, uses: ColumnUses, how: Splitting, on_error: OnError
) -> tuple[Table, list[str]]:
    """The rows and columns that are used, and which of these are features."""
    left_out, (numeric, categorical) = uses.no_features(how), uses.typed
    named = [*left_out, *numeric, *categorical]
    check_named(table, named)
    table = _without_index(table, named)
    features = [name for name in table.columns if name not in left_out]
    if on_error == "skip":
        numbers = [name for name in features if name not in categorical]
        table = usable(table, uses.owners, numbers, numeric)
    return table, features


def _encoded(table: Table, fitted: Fitted, y: Rows, tests: tuple[Table, Rows] | None) -> tuple[Inputs, Rows]:
    """The inputs and classes of all rows; those of a test file come last."""
    x = fitted.encoder.transform(table, fitted.numbers).x
    if tests is None:
        return x, y
    return np.concatenate([x, fitted.encoder.transform(tests[0]).x]), np.concatenate([y, tests[1]])


def _open_test(path: Path, label: str, classes: Coded) -> tuple[Table, Rows]:
    """The test file, and the class of each of its rows among those of the training rows."""
    table = open_table(path)
    check_named(table, [label])
    found, places = names_of(table, label), {name: place for place, name in enumerate(classes.names)}
    for place, name in enumerate(found.names):
        if name not in places:
            row = table.rows[int((found.codes == place).argmax())]
            raise fault(path, f"{label!r} holds {name!r}, which is in no training row", row)
    return table, np.array([places[name] for name in found.names], dtype=np.int64)[found.codes]


def _files(path: Path, test: Path | None) -> dict[str, str]:
    found = {path.name: sha256_of(path)}
    return found if test is None else found | {f"{TEST_FILE}{test.name}": sha256_of(test)}


def _without_index(table: Table, named: Sequence[str]) -> Table:
    """The table without columns that pandas wrote as an index, unless they are named for a use, or nothing else is left."""
    found = [name for name in pandas_indices(table.columns) if name not in named]
    kept = {name: cells for name, cells in table.columns.items() if name not in found}
    if not found or len(kept) < FEWEST_COLUMNS:
        return table
    keys = f"numeric = {json.dumps(found, ensure_ascii=False)}"
    note = f"index of pandas, which numbers the rows: left out; {keys} keeps it: {listed(found)}"
    return table._replace(columns=kept, notes=(*table.notes, note))


def check_named(table: Table, named: Iterable[str]) -> None:
    """Every named column exists and has one use."""
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
    """The label column, one class per spelling; two spellings of one number are refused."""
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
