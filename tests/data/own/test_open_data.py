"""One door to data of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bad_tables
import numpy as np
import pytest
from PIL import Image

from counterpoise.data.own import (
    Assignment,
    open_data,
    read_image_folder,
    read_npz,
    read_pack,
    read_table,
    write_pack,
)
from counterpoise.errors import ConfigError, DataError


def test_a_file_is_read_by_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "t.CSV").write_bytes(bad_tables.table(*bad_tables.GOOD))
    (tmp_path / "t.tsv").write_bytes(bad_tables.table(*bad_tables.GOOD).replace(b",", b"\t"))
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.array([0, 1, 0, 1]))
    for label in "pq":
        for number in range(2):
            (tmp_path / "images" / label).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (3, 3)).save(tmp_path / "images" / label / f"{number}.png")
    assert open_data(tmp_path / "t.CSV", label="label").input_shape == (2,)
    assert open_data(tmp_path / "t.tsv", label="label", drop=["a"]).input_shape == (1,)
    assert open_data(tmp_path / "a.npz").input_shape == (4,)
    assert open_data(tmp_path / "images", size=2).input_shape == (3, 2, 2)
    write_pack(open_data(tmp_path / "a.npz"), Assignment([np.array([0])]), tmp_path / "p.safetensors", {})
    assert open_data(tmp_path / "p.safetensors").name == "a"


def test_what_cannot_be_read_is_answered_with_what_can(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"\x80\4")
    with pytest.raises(DataError, match=r"model\.pkl: .*needs a table \(\.csv.*\.npz.*folder of images"):
        open_data(tmp_path / "model.pkl")
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        open_data(tmp_path / "none.csv", label="label")


def test_a_table_needs_its_label_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(bad_tables.table(*bad_tables.GOOD))
    with pytest.raises(ConfigError, match=r"t\.csv: label is missing"):
        open_data(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "cell"), [("near", "no column 'labl'; did you mean 'label'"), ("far", "one of a, b, label")]
)
def test_an_unknown_column_is_answered_with_the_nearest(tmp_path: Path, name: str, cell: str) -> None:
    (tmp_path / "t.csv").write_bytes(bad_tables.table(*bad_tables.GOOD))
    with pytest.raises(DataError, match=r"t\.csv: row 1") as refused:
        open_data(tmp_path / "t.csv", label="labl" if name == "near" else "zzz")
    assert cell in str(refused.value)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "t.csv").write_bytes(bad_tables.table(*bad_tables.GOOD))
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"t\.csv: cannot be opened: .*Permission denied"):
        open_data(tmp_path / "t.csv", label="label")


def test_one_column_cannot_serve_twice(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(bad_tables.table(*bad_tables.GOOD))
    with pytest.raises(DataError, match="'label' is named for two uses"):
        open_data(tmp_path / "t.csv", label="label", client="label")


@pytest.mark.parametrize(
    "read", [lambda path: read_table(path, "y"), read_npz, read_pack, open_data, read_image_folder]
)
def test_a_relative_path_that_is_not_there_says_where_it_was_looked_for(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"^sub/mine\.csv: no such \w+( or folder)? in ") as missing:
        read(Path("sub/mine.csv"))
    assert f" in {tmp_path}" in str(missing.value)
    with pytest.raises(DataError) as missing:
        read(tmp_path / "mine.csv")
    assert " in " not in str(missing.value).partition(";")[0]
