"""A user's own files under a name that a config can use; the readers are in `counterpoise.data.own`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.folds import read_fold
from counterpoise.data.split import Share
from counterpoise.data.tables.skipped import OnError
from counterpoise.data.tables.splitting import Splitting
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.registry.schema import Count, Interval, Whole

Folds = Annotated[int, Interval(2, 1000)]


@dataclass(frozen=True)
class TableFile:
    """A table, what its columns are used for, and which of its rows test."""

    path: str
    uses: ColumnUses
    how: Splitting
    on_error: OnError

    def __call__(self, root: Path | None) -> Dataset:
        from counterpoise.data.tables.table import table_dataset

        return table_dataset(*self.below(root))

    def below(self, root: Path | None) -> tuple[Path, ColumnUses, Splitting, OnError]:
        """With the paths of its files below a data root: what reads a table."""
        tests = None if self.how.test is None else under(root, self.how.test)
        return under(root, self.path), self.uses, self.how._replace(test=tests), self.on_error


@dataset("table")
def table(
    path: str,
    label: str,
    client: str | None = None,
    test_share: Share = 0.2,
    seed: Whole = 0,
    numeric: list[str] | None = None,
    categorical: list[str] | None = None,
    drop: list[str] | None = None,
    test: str | None = None,
    split: str | None = None,
    group: str | None = None,
    time: str | None = None,
    on_error: OnError = "stop",
    folds: Folds | None = None,
    fold: Whole | None = None,
) -> Loader:
    """Your CSV or Parquet table: a label column, further columns as numbers or categories, optionally one that names the client.

    Test rows are a share of each class, or a file (`test`), or what a column says: train or test (`split`), groups that are not torn (`group`), time, of which the latest rows test (`time`). With `folds` the rows, or groups, are dealt into so many, of which `fold`, from 0 on, tests.
    Rows that cannot be used stop the run; with `on_error` "skip" they are left out, and a note lists them.
    """

    uses = ColumnUses(label, client, numeric, categorical, drop)
    tests, cut = None if test is None else Path(test), read_fold(folds, fold)
    return TableFile(path, uses, Splitting(test_share, seed, tests, split, group, time, cut), on_error)


@dataset("images")
def images(
    path: str,
    clients: bool = False,
    size: Count | None = None,
    test_share: Share = 0.2,
    seed: Whole = 0,
    on_error: OnError = "stop",
    folds: Folds | None = None,
    fold: Whole | None = None,
) -> Loader:
    """Your folder of images, ``class/file``, or ``client/class/file`` with `clients`; folders ``train`` and ``test`` give the split.

    With `folds` the images of each class are dealt into so many, of which `fold`, from 0 on, tests.

    Files that cannot be used stop the run; with `on_error` "skip" they are left out, and a note lists them.
    """

    def load(root: Path | None) -> Dataset:
        from counterpoise.data.own import read_image_folder

        cut = read_fold(folds, fold)
        return read_image_folder(under(root, path), size, clients, test_share, seed, on_error, cut)

    return load


@dataset("arrays")
def arrays(
    path: str,
    test_share: Share = 0.2,
    seed: Whole = 0,
    labels: str | None = None,
    standardise: bool = False,
    folds: Folds | None = None,
    fold: Whole | None = None,
) -> Loader:
    """Your npz file, or folder of npy files, with x and y, or x_train, y_train, x_test and y_test, and optionally client and classes.

    `labels` is the npy file of labels beside a `path` of any name; `standardise` scales each feature by the training samples.
    With `folds` the samples of each class are dealt into so many, of which `fold`, from 0 on, tests.
    """

    def load(root: Path | None) -> Dataset:
        from counterpoise.data.own import read_npz

        cut = read_fold(folds, fold)
        return read_npz(under(root, path), test_share, seed, labels=labels, standardise=standardise, fold=cut)

    return load


@dataset("pack")
def pack(path: str) -> Loader:
    """What ``counterpoise data pack`` wrote: imbalanced and split among clients already, so ``[partition]`` is left out."""

    def load(root: Path | None) -> Dataset:
        from counterpoise.data.own import open_pack

        return open_pack(under(root, path))

    return load


def under(root: Path | None, path: Path | str) -> Path:
    """A path as given, or below the data root where it is relative and a root is given."""
    return Path(path).expanduser() if root is None else root / Path(path).expanduser()
