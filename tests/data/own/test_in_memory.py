"""What a Python program holds becomes a data set in one call: a frame, a torch data set, a Hugging Face data set, a path."""

from __future__ import annotations

import sys
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

import counterpoise as cp
from counterpoise.errors import ConfigError, DataError

ROWS = 30
COLUMNS: dict[str, list[Any]] = {
    "age": [20 + row * 7 % 40 for row in range(ROWS)],
    "weight": [None if row == 4 else 60.5 + row for row in range(ROWS)],
    "town": [("oslo", "rome", "bonn")[row % 3] for row in range(ROWS)],
    "outcome": ["ill" if row % 5 == 0 else "well" for row in range(ROWS)],
}


def assert_equal(left: cp.Dataset, right: cp.Dataset) -> None:
    assert left.classes == right.classes
    for half in ("train", "test"):
        for a, b in zip(getattr(left, half), getattr(right, half), strict=True):
            assert torch.equal(a, b)


def test_a_frame_is_the_data_of_the_file_that_pandas_writes(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    frame.to_csv(tmp_path / "a.csv", index=False)
    given = {"label": "outcome", "client": "town", "drop": ["age"]}
    file = cp.load_data("table", path=str(tmp_path / "a.csv"), **given)
    for data in (cp.load_data(frame, **given), cp.load_data(tmp_path / "a.csv", **given)):
        assert_equal(data, file)
        assert data.client_names == ("bonn", "oslo", "rome")
    federation = cp.split(cp.load_data(frame, label="outcome", imbalance=2.0), "iid", 2)
    assert cp.simulate(federation, rounds=1).predict(frame.head(3)).classes is not None


def test_columns_and_dicts_are_frames_too() -> None:
    rows = [{name: cells[row] for name, cells in COLUMNS.items()} for row in range(ROWS)]
    assert_equal(cp.load_data(COLUMNS, label="outcome"), cp.load_data(rows, label="outcome"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {},
            "load_data: label is missing; needs the column of the classes, one of age, weight, town, outcome",
        ),
        ({"lable": "outcome"}, "load_data: no argument 'lable'; did you mean 'label'?"),
        ({"label": 3}, "load_data: label must be a word or none, not 3"),
        ({"label": "outcom"}, "the frame: no column 'outcom'; did you mean 'outcome'?"),
        ({"label": "outcome", "test_share": 2.0}, "load_data: test_share must be a number in (0, 0.5)"),
    ],
)
def test_what_a_frame_lacks_is_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, DataError)) as refused:
        cp.load_data(COLUMNS, **given)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_dates_of_a_frame_are_the_words_of_a_file() -> None:
    days = [datetime(2026, 1, 1 + row % 2, 6, 15) for row in range(ROWS)]
    given = {"seen": days, "born": [day.date() for day in days]}
    words = cp.load_data(COLUMNS | given, label="outcome").source.columns.words
    assert words["seen"] == ("2026-01-01 06:15:00", "2026-01-02 06:15:00")
    assert words["born"] == ("2026-01-01", "2026-01-02")


def test_what_is_neither_a_number_nor_a_word_is_named_with_its_column() -> None:
    with pytest.raises(DataError, match=r"the frame: column 'x' holds \{1\}; needs numbers and words"):
        cp.load_data({"x": [{1}] * 4, "y": [0, 1] * 2}, label="y")


def test_a_torch_data_set_needs_no_second_one_for_tests() -> None:
    x, y = torch.arange(40.0).view(20, 2), torch.arange(20) % 2
    data = cp.load_data(TensorDataset(x, y), classes=["no", "yes"], clients=["a", "b"] * 10)
    assert (len(data.train.y), len(data.test.y), data.classes) == (16, 4, ("no", "yes"))
    assert sorted(torch.cat([data.train.x, data.test.x])[:, 0].tolist()) == x[:, 0].tolist()
    assert torch.equal(data.train.x[:, 0] / 2 % 2, data.train.y.float())  # rows keep their labels
    assert data.clients is not None
    assert torch.equal(data.clients, data.train.y)  # and their clients
    given = cp.load_data(TensorDataset(x, y), test=TensorDataset(x[:4], y[:4]))
    assert torch.equal(given.test.x, x[:4])


class Names:
    def __init__(self, names: list[str]) -> None:
        self.names = names


class Columns:
    """The columns, features and items that `datasets.Dataset` documents; that package is not needed to run this."""

    def __init__(self, features: dict[str, Any], **columns: list[Any]) -> None:
        self.features, self.columns_by_name, self.column_names = features, columns, list(columns)

    def __len__(self) -> int:
        return len(self.columns_by_name[self.column_names[0]])

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            return self.columns_by_name[key]
        return {name: cells[key] for name, cells in self.columns_by_name.items()}


LABELS = [row % 2 for row in range(20)]
PICTURES = [Image.new("L", (4, 3), row) for row in range(20)]


def check_pictures_and_table(make: Any) -> None:
    """`make(names of classes, columns)` gives a data set of the package, or one with its protocol."""
    pictures = make(["cat", "dog"], image=PICTURES, label=LABELS)
    data = cp.load_data(pictures)
    assert data.classes == ("cat", "dog")
    assert data.train.x.shape == (16, 1, 3, 4)
    assert torch.equal(data.train.x[:, 0, 0, 0] % 2, data.train.y)
    halves = cp.load_data({"train": pictures, "test": make(["cat", "dog"], image=PICTURES, label=LABELS)})
    assert (len(halves.train.y), len(halves.test.y)) == (20, 20)
    table = make(["cat", "dog"], age=[float(row) for row in range(20)], site=["a", "b"] * 10, label=LABELS)
    named = cp.load_data(table, client="site")
    assert named.input_shape == (1,)
    assert (named.classes, named.client_names) == (("cat", "dog"), ("a", "b"))


def test_the_protocol_of_a_hugging_face_data_set_suffices() -> None:
    check_pictures_and_table(
        lambda names, **columns: Columns(dict.fromkeys(columns) | {"label": Names(names)}, **columns)
    )
    bare = Columns({"label": None, "a": None, "b": None}, a=[[1.0]] * 4, b=[[1.0]] * 4, label=[0, 1, 0, 1])
    with pytest.raises(ConfigError, match=r"load_data: a, b beside the label; needs one column of images"):
        cp.load_data(bare)
    with pytest.raises(ConfigError, match=r"load_data: no column 'y'; needs one of a, b, label"):
        cp.load_data(bare, label="y")


@pytest.mark.foreign
def test_a_hugging_face_data_set_itself() -> None:
    datasets = import_module("datasets")

    def make(names: list[str], **columns: list[Any]) -> Any:
        made = datasets.Dataset.from_dict(columns)
        return made.cast_column("label", datasets.ClassLabel(names=names))

    check_pictures_and_table(make)


@pytest.mark.foreign
def test_a_hugging_face_data_set_is_the_same_in_any_format_and_from_files(tmp_path: Path) -> None:
    datasets = import_module("datasets")
    made = datasets.Dataset.from_dict({**COLUMNS, "label": COLUMNS["outcome"]}).remove_columns("outcome")
    made = made.class_encode_column("label")
    made.to_parquet(tmp_path / "a.parquet")
    made.save_to_disk(tmp_path / "saved")
    wanted = cp.load_data(
        {**{k: v for k, v in COLUMNS.items() if k != "outcome"}, "label": COLUMNS["outcome"]}, label="label"
    )
    read = datasets.Dataset.from_parquet(str(tmp_path / "a.parquet"), cache_dir=str(tmp_path / "cache"))
    for given in (made, *map(made.with_format, ("numpy", "torch", "pandas")), read, tmp_path / "saved"):
        assert_equal(cp.load_data(given), wanted)
    halves = cp.load_data(datasets.DatasetDict(train=made, test=made.select(range(6))))
    assert (halves.classes, len(halves.test.y)) == (("ill", "well"), 6)


@pytest.mark.foreign
def test_arrays_ids_and_images_of_a_hugging_face_data_set_keep_their_type(tmp_path: Path) -> None:
    datasets = import_module("datasets")
    kinds = {
        torch.uint8: datasets.Array3D((3, 4, 5), "uint8"), torch.float32: datasets.Array2D((4, 5), "float32"),
        torch.int64: datasets.List(datasets.Value("int32")),
    }  # fmt: skip
    for dtype, feature in kinds.items():
        shape = getattr(feature, "shape", (7,))
        features = datasets.Features({"x": feature, "label": datasets.ClassLabel(names=["a", "b"])})
        cells = {"x": [np.full(shape, row).tolist() for row in range(20)], "label": LABELS}
        data = cp.load_data(datasets.Dataset.from_dict(cells, features=features))
        assert (data.train.x.dtype, data.input_shape) == (dtype, shape)
        assert torch.equal(data.train.x.flatten(1)[:, 0].long() % 2, data.train.y)
    words = {"image": PICTURES, "label": ["cat" if label else "dog" for label in LABELS]}
    datasets.Dataset.from_dict(words).to_parquet(tmp_path / "a.parquet")
    read = datasets.Dataset.from_parquet(str(tmp_path / "a.parquet"), cache_dir=str(tmp_path / "cache"))
    assert cp.load_data(read).classes == ("cat", "dog")
    with pytest.raises(ConfigError, match="streamed has no length"):
        cp.load_data(read.to_iterable_dataset())
    with pytest.raises(
        ConfigError, match=r"split: data must be a Dataset, such as load_data returns, not datasets\.Dataset"
    ):
        cp.split(read, "iid", 2)


def test_token_ids_of_a_hugging_face_data_set_stay_whole_and_bytes_are_pixels() -> None:
    bytes_of = SimpleNamespace(feature=SimpleNamespace(dtype="uint8"))
    cells = {"x": [[row, 3] for row in range(20)], "label": LABELS}
    assert cp.load_data(Columns({"x": None, "label": None}, **cells)).train.x.dtype == torch.int64
    assert cp.load_data(Columns({"x": bytes_of, "label": None}, **cells)).train.x.dtype == torch.uint8


@pytest.mark.parametrize("kinds", [("cat", "dog"), (False, True)])
def test_labels_that_are_words_name_the_classes_of_arrays(kinds: tuple[Any, Any]) -> None:
    cells = {"x": [[float(row)] for row in range(20)], "label": [kinds[row % 2] for row in range(20)]}
    data = cp.load_data(Columns({"x": None, "label": None}, **cells))
    assert data.classes == tuple(map(str, kinds))
    assert torch.equal(data.train.x[:, 0] % 2, data.train.y.float())


def test_a_table_of_two_halves_is_encoded_by_its_training_rows() -> None:
    features = {"age": None, "label": Names(["cat", "dog"])}
    train = Columns(features, age=[float(row) for row in range(20)], label=LABELS)
    test = Columns(features, age=[100.0] * 6, label=[0, 1] * 3)
    data = cp.load_data({"train": train, "test": test})
    assert (len(data.train.y), len(data.test.y)) == (20, 6)
    assert float(data.train.x.mean()) == pytest.approx(0, abs=1e-6)
    assert data.test.y.tolist() == [0, 1] * 3


class Lines:
    """Shows itself in lines, as frames and data sets do."""

    def __repr__(self) -> str:
        return "first\nsecond"


class Stream:
    """Like a streamed data set: columns, but no length."""

    column_names, features = ("x", "label"), None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Columns({"x": None, "label": None}, x=[], label=[]), r"\(train\): holds no rows"),
        (Lines(), "must be a word, not first second; needs a name, a Path"),
        (Stream(), "streamed has no length"),
        ({"train": Stream()}, "streamed has no length"),
        (
            Columns({"x": None, "label": None}, x=[[1]] * 3, label=[0, None, 1]),
            "row 2: label is None; needs a",
        ),
        (
            Columns({"x": None, "label": None}, x=[{1}] * 4, label=[0, 1] * 2),
            "x holds object; needs numbers",
        ),
    ],
)
def test_what_a_hugging_face_data_set_lacks_is_one_line(given: Any, words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words) as refused:
        cp.load_data(given)
    assert "\n" not in str(refused.value)


def test_a_saved_hugging_face_data_set_names_the_package_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dataset_info.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match="which needs the package datasets: pip install datasets"):
        cp.load_data(tmp_path)


def test_the_seed_draws_the_test_set_of_what_a_program_holds() -> None:
    frames = [cp.load_data(COLUMNS, label="outcome", seed=seed).test.x for seed in (0, 1)]
    items = [
        cp.load_data(TensorDataset(torch.arange(40.0)[:, None], torch.arange(40) % 2), seed=s) for s in (0, 1)
    ]
    assert not torch.equal(*frames)
    assert not torch.equal(items[0].test.x, items[1].test.x)


def test_a_path_is_read_by_its_kind(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(20.0).reshape(10, 2), y=["a", "b"] * 5)
    assert_equal(cp.load_data(tmp_path / "a.npz"), cp.load_data("arrays", path=str(tmp_path / "a.npz")))
    with pytest.raises(DataError, match=r"absent\.npz: no such file"):
        cp.load_data(tmp_path / "absent.npz")
    with pytest.raises(ConfigError, match=r"no data set 'a\.csv'; a file is given as Path\('a\.csv'\)"):
        cp.load_data("a.csv", label="y")
    with pytest.raises(ConfigError, match="no data set"):
        cp.load_data(str(tmp_path / "a.npz"))  # a word is a name, as in a config
