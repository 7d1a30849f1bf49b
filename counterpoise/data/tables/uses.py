"""What the columns of a table are used for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from counterpoise.data.tables.splitting import Splitting


class ColumnUses(NamedTuple):
    """The columns that are named for a use; every other one is a feature, typed by its cells."""

    label: str  # the class
    client: str | None = None  # the natural client
    numeric: Sequence[str] | None = None  # features that are numbers, whatever their cells look like
    categorical: Sequence[str] | None = None  # features that are words
    drop: Sequence[str] | None = None  # left out

    @property
    def owners(self) -> list[str]:
        """Columns without which a row cannot be used."""
        return [self.label, *([] if self.client is None else [self.client])]

    @property
    def typed(self) -> tuple[Sequence[str], Sequence[str]]:
        """Features that are numbers and that are words, as told."""
        return self.numeric or (), self.categorical or ()

    def no_features(self, how: Splitting) -> list[str]:
        """Columns that the model does not see, each once; groups may be the clients: then whole clients test."""
        splits = [name for name in how.columns if name != self.client or how.group is None]
        return [*self.owners, *(self.drop or ()), *splits]
