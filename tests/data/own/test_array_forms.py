"""Arrays as people keep them: labels as words, x.npy beside y.npy, numbers on any scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import TINY, call

import counterpoise as cp
from counterpoise.data.own import open_data, read_npz
from counterpoise.data.own.inputs import read_inputs
from counterpoise.data.preprocessing import preprocessing_of
from counterpoise.errors import ConfigError, DataError
from counterpoise.system.toml import write_toml

X = np.random.default_rng(0).normal(50.0, 20.0, (30, 3))
WORDS = np.array(["ill", "well", "10"])[np.arange(30) % 3]
NUMBERS = np.array([1, 2, 0])[np.arange(30) % 3]  # the places of the sorted words


def saved(folder: Path, **arrays: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_labels_may_be_words_and_are_the_same_data_as_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "words.npz", x=X, y=WORDS)
    np.savez(tmp_path / "bytes.npz", x=X, y=WORDS.astype("S"))
    np.savez(tmp_path / "numbers.npz", x=X, y=NUMBERS, classes=["10", "ill", "well"])
    words, raw, numbers = (read_npz(tmp_path / f"{name}.npz") for name in ("words", "bytes", "numbers"))
    assert words.classes == raw.classes == numbers.classes == ("10", "ill", "well")
    for data in (words, raw):
        assert torch.equal(data.train.x, numbers.train.x)
        assert torch.equal(data.train.y, numbers.train.y)


def test_words_take_the_order_of_given_classes_and_of_the_training_samples(tmp_path: Path) -> None:
    halves = {"x_train": X, "y_train": WORDS, "x_test": X[:3], "y_test": WORDS[:3]}
    np.savez(tmp_path / "a.npz", **halves, classes=["well", "ill", "10"])
    data = read_npz(tmp_path / "a.npz")
    assert data.classes == ("well", "ill", "10")
    assert data.test.y.tolist() == [1, 0, 2]
    np.savez(tmp_path / "b.npz", **halves | {"y_test": np.array(["ill", "wel", "10"])})
    with pytest.raises(DataError, match=r"b.npz: row 2: y_test holds 'wel'; did you mean 'well'"):
        read_npz(tmp_path / "b.npz")


def test_new_data_with_words_is_labelled_as_the_training_data_was(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=WORDS)
    how = preprocessing_of(cp.split(read_npz(tmp_path / "a.npz"), "iid", 2))
    given = read_inputs(tmp_path / "a.npz", how)
    assert given.y is not None
    assert given.y.tolist() == NUMBERS.tolist()  # the class "10" is not taken for a place
    np.save(tmp_path / "new.npy", X[:4])
    alone = read_inputs(tmp_path / "new.npy", how)
    assert alone.y is None
    assert torch.equal(alone.x, given.x[:4])


@pytest.mark.parametrize("names", [("x", "y"), ("X", "Y")])
def test_a_pair_of_npy_files_is_the_npz_of_both(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = saved(tmp_path / "pair", **dict(zip(names, (X, WORDS), strict=True)))
    np.savez(tmp_path / "pair.npz", x=X, y=WORDS)
    whole = read_npz(tmp_path / "pair.npz")
    for path in (folder, folder / f"{names[0]}.npy"):
        data = open_data(path)
        assert torch.equal(data.train.x, whole.train.x)
        assert torch.equal(data.test.y, whole.test.y)
        assert list(data.files) == [f"{name}.npy" for name in names]


def test_files_of_any_name_go_with_labels(tmp_path: Path) -> None:
    folder = saved(tmp_path / "any", features=X, target=WORDS)
    data = read_npz(folder / "features.npy", labels="target.npy")
    assert data.classes == ("10", "ill", "well")
    with pytest.raises(DataError, match=r"features.npy: which file holds its labels\? needs x.npy beside"):
        read_npz(folder / "features.npy")
    with pytest.raises(ConfigError, match=r"data.labels goes with a .npy file of inputs, not with a.npz"):
        read_npz(folder / "a.npz", labels="target.npy")
    with pytest.raises(DataError, match=r"absent\.npy: no such file"):
        read_npz(folder / "features.npy", labels="absent.npy")


def test_pickled_and_damaged_npy_files_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = saved(tmp_path / "bad", x=X, y=WORDS.astype(object))
    with pytest.raises(DataError, match=r"y holds dtype\('O'\); needs numbers or words, as astype\(str\)"):
        open_data(folder)
    (folder / "y.npy").write_bytes((folder / "x.npy").read_bytes()[:100])
    with pytest.raises(DataError, match="damaged or not an npy file") as refused:
        open_data(folder)
    assert "\n" not in str(refused.value)


def test_arrays_are_standardised_where_asked_and_else_noted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.hstack([X * [1, 1e-3, 1e6], np.full((30, 1), 7.0)]), y=WORDS)
    plain, scaled = (read_npz(tmp_path / "a.npz", standardise=asked) for asked in (False, True))
    assert any(note.startswith("numbers taken as they are, not standardised") for note in plain.notes)
    assert any("standardise = true" in note for note in plain.notes)
    assert torch.equal(plain.train.x, plain.scaling(plain.train.x))
    z = scaled.scaling(scaled.train.x).double()
    assert z[:, :3].mean(0).abs().max() < 1e-5
    assert (z[:, :3].std(0, correction=0) - 1).abs().max() < 1e-5
    assert z[:, 3].abs().max() < 1e-5  # constant: centred, not blown up


def test_an_experiment_takes_npy_files(tmp_path: Path) -> None:
    folder = saved(tmp_path / "pair", x=X, y=WORDS)
    own = {"name": "arrays", "path": "pair", "standardise": True}
    (tmp_path / "mine.toml").write_text(
        write_toml(TINY | {"data": own, "partition": {"name": "iid", "clients": 2}})
    )
    done = call("validate", tmp_path / "mine.toml")
    assert done.code == 0, done.err
    (folder / "y.npy").unlink()
    lost = call("validate", tmp_path / "mine.toml")
    assert (lost.code, len(lost.err.splitlines())) == (3, 1)
    assert "pair: holds x; needs x and y, or x_train" in lost.err
