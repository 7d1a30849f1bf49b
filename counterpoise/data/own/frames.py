"""A data frame, columns by name, or dicts as a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counterpoise.data.dataset import Dataset
from counterpoise.data.split import Share
from counterpoise.data.tables.frame import frame_table
from counterpoise.data.tables.skipped import OnError
from counterpoise.data.tables.splitting import Splitting
from counterpoise.data.tables.table import dataset_of, fitted_table
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.errors import ConfigError, listed


def from_frame(
    given: Any,
    label: str | None = None,
    client: str | None = None,
    test_share: Share = 0.2,
    numeric: list[str] | None = None,
    categorical: list[str] | None = None,
    drop: list[str] | None = None,
    on_error: OnError = "stop",
    seed: int = 0,
    split: str | None = None,
) -> Dataset:
    """A data frame, columns by name, or one dict per row, read as a file with these cells would be."""
    table = frame_table(given)
    if label is None:
        raise ConfigError(
            f"load_data: label is missing; needs the column of the classes, one of {listed(list(table.columns))}"
        )
    uses = ColumnUses(label, client, numeric, categorical, drop)
    how = Splitting(test_share, seed, split=split)
    return replace(dataset_of(fitted_table(table, uses, how, on_error), uses, how), name="frame")
