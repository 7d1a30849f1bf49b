"""Bad files: each is refused in one line that names the file and the row or reason, or is read to finite numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import bad_arrays
import bad_folders
import bad_tables
import pytest
import torch

from counterpoise.data.dataset import Dataset
from counterpoise.data.own import read_image_folder
from counterpoise.errors import DataError

Read = Callable[[Path], Dataset]


def read_folder(make: Callable[[Path], None], folder: Path) -> Dataset:
    make(folder / "images")
    return read_image_folder(folder / "images")


def gathered() -> dict[str, tuple[str, Read, str | None]]:
    """Name -> file name, how it is written and read, and a part of the error, None where there is none."""
    cases: dict[str, tuple[str, Read, str | None]] = {}
    for name, (content, reason) in bad_tables.CONTENTS.items():
        cases[f"table: {name}"] = ("t.csv", partial(bad_tables.read_content, content=content), reason)
    for name, (clients, reason) in bad_tables.CLIENTS.items():
        cases[f"clients: {name}"] = ("t.csv", partial(bad_tables.read_with_clients, clients=clients), reason)
    for name, (arrays, reason) in bad_arrays.ARRAYS.items():
        cases[f"arrays: {name}"] = ("a.npz", partial(bad_arrays.read_as_arrays, arrays=arrays), reason)
    for name, (content, reason) in bad_arrays.BYTES.items():
        cases[f"npz: {name}"] = ("a.npz", partial(bad_arrays.read_bytes, content=content), reason)
    for name, (make, reason) in bad_folders.FOLDERS.items():
        cases[f"folder: {name}"] = ("images", partial(read_folder, make), reason)
    return cases


CASES = gathered()


def check_finite(data: Dataset) -> None:
    for samples in (data.train, data.test):
        assert len(samples.x) == len(samples.y) > 0
        assert data.scaling(samples.x).isfinite().all()
        assert 0 <= samples.y.min() <= samples.y.max() < len(data.classes)
    assert torch.bincount(data.train.y, minlength=len(data.classes)).min() > 0
    if data.clients is not None:
        assert len(data.clients) == len(data.train.y)
        assert data.clients.unique().tolist() == list(range(len(data.client_names)))


def check_refused(error: DataError, file_name: str, reason: str) -> None:
    message = str(error)
    assert error.exit_code == 3
    assert len(message.splitlines()) == 1
    assert file_name in message
    assert reason in message
    assert len(message) < 600


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused_in_one_line_or_read_to_finite_numbers(name: str, tmp_path: Path) -> None:
    file_name, read, reason = CASES[name]
    if reason is None:
        check_finite(read(tmp_path))
        return
    with pytest.raises(DataError) as refused:
        read(tmp_path)
    check_refused(refused.value, file_name, reason)


def test_there_are_enough_of_them() -> None:
    refused = [name for name, (_, _, reason) in CASES.items() if reason is not None]
    assert len(CASES) >= 150
    assert len(refused) >= 120
    assert len([name for name in refused if "cut at" in name]) == bad_arrays.CUTS == 20
