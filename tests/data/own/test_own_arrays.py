"""Arrays of the user's own: npz files and torch data sets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from counterpoise.data.own import from_torch, read_npz
from counterpoise.errors import ConfigError, DataError


def written(folder: Path, **arrays: Any) -> Path:
    path = folder / "a.npz"
    np.savez_compressed(path, **arrays)
    return path


def test_whole_arrays_are_split_by_class(tmp_path: Path) -> None:
    x = np.arange(20, dtype=np.float64).reshape(10, 2)
    data = read_npz(written(tmp_path, x=x, y=np.array([0] * 5 + [1] * 5)))
    assert data.train.y.tolist() == [0] * 4 + [1] * 4
    assert data.test.y.tolist() == [0, 1]
    assert data.train.x.dtype == torch.float32
    rows = torch.cat([data.train.x, data.test.x])
    assert sorted(rows.tolist()) == x.tolist()
    assert (data.train.x[:4] < 10).all()  # rows kept their labels: class 0 holds 0 to 9
    assert (data.train.x[4:] >= 10).all()


def test_halves_are_kept_as_given(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    path = written(
        tmp_path,
        x_train=x,
        y_train=np.arange(6) % 3,
        x_test=x[:3] + 1,
        y_test=np.arange(3),
        classes=["a", "b", "c"],
    )
    data = read_npz(path)
    assert torch.equal(data.train.x, torch.from_numpy(x))
    assert data.test.x.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert data.classes == ("a", "b", "c")
    assert list(data.files) == ["a.npz"]


def test_labels_with_gaps_are_renumbered(tmp_path: Path) -> None:
    y = np.array([10**9, 3, 10**9, 3])
    data = read_npz(written(tmp_path, x=np.eye(4), y=y))
    assert data.classes == ("3", "1000000000")
    assert set(data.train.y.tolist()) == {0, 1}
    assert any("renumbered" in note for note in data.notes)


def test_clients_follow_their_samples(tmp_path: Path) -> None:
    x = np.arange(20.0)[:, None]
    data = read_npz(
        written(tmp_path, x=x, y=np.arange(20) % 2, client=np.array(["s", "r"])[np.arange(20) // 10])
    )
    assert data.client_names == ("r", "s")
    assert data.clients is not None
    assert data.clients.tolist() == [int(value < 10) for value in data.train.x[:, 0].tolist()]


def test_pixels_stay_bytes_and_their_scaling_is_measured(tmp_path: Path) -> None:
    x = np.zeros((4, 8, 8, 3), np.uint8)
    x[..., 0] = 51  # 0.2 of full
    x[[1, 3], :, :, 1] = 255
    data = read_npz(
        written(tmp_path, x_train=x, y_train=np.array([0, 1, 0, 1]), x_test=x, y_test=np.array([0, 1, 0, 1]))
    )
    assert data.train.x.dtype == torch.uint8
    assert data.input_shape == (3, 8, 8)
    scaled = data.scaling(data.train.x)
    assert scaled[:, 0].abs().max() < 1e-6  # constant: only centred
    assert scaled[0, 1].unique().tolist() == pytest.approx([-1.0])  # half 0, half 1: mean 1/2, deviation 1/2
    assert scaled[1, 1].unique().tolist() == pytest.approx([1.0])
    assert "channels moved from last to first" in data.notes


def test_grey_pixels_get_a_channel_and_flat_ones_one_scale(tmp_path: Path) -> None:
    grey = np.arange(4 * 5 * 5, dtype=np.uint8).reshape(4, 5, 5)
    y = np.array([0, 1, 0, 1])
    assert read_npz(written(tmp_path, x=grey, y=y)).input_shape == (1, 5, 5)
    flat = read_npz(written(tmp_path, x=grey.reshape(4, 25), y=y))
    assert flat.scaling(flat.train.x).shape == flat.train.x.shape
    assert flat.scaling(flat.train.x).mean().item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<f2", "<i4", "|i1", "|b1", "<u2"])
def test_every_plain_type_and_order_is_read(tmp_path: Path, kind: str, order: Any) -> None:
    x = np.asarray(np.arange(24).reshape(4, 6) % 2, dtype=kind, order=order)
    y = np.array([0, 1, 0, 1], dtype=">i2")
    data = read_npz(written(tmp_path, x_train=x, y_train=y, x_test=x, y_test=y))
    assert data.train.x.tolist() == x.astype(float).tolist()


def test_unused_arrays_are_named_and_left_packed(tmp_path: Path) -> None:
    path = written(
        tmp_path, x=np.eye(4), y=np.array([0, 1, 0, 1]), ids=np.array([{}, {}, {}, {}], dtype=object)
    )
    assert "arrays not used: ids" in read_npz(path).notes


def test_the_limit_counts_unpacked_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, x=np.zeros((1000, 100), np.uint8), y=np.arange(1000) % 2)
    assert len(read_npz(path, limit=108_000).train.y) == 800  # 100,000 pixels and 8,000 bytes of labels
    with pytest.raises(DataError, match=r"a\.npz: unpacks to 108,000 bytes; at most 107,999"):
        read_npz(path, limit=107_999)


def test_torch_items_are_stacked() -> None:
    x = torch.arange(12.0).reshape(6, 2)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    data = from_torch(
        TensorDataset(x, y),
        TensorDataset(x[:3], y[:3]),
        classes=["a", "b", "c"],
        clients=["u", "u", "v", "v", "v", "u"],
    )
    assert torch.equal(data.train.x, x)
    assert torch.equal(data.test.y, y[:3])
    assert data.client_names == ("u", "v")
    assert data.clients is not None
    assert data.clients.tolist() == [0, 0, 1, 1, 1, 0]


class Images:
    """Items as image libraries give them: bytes [H, W, 3] and a plain label; class names as an attribute."""

    classes = ("cat", "dog")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> tuple[np.ndarray, int]:
        return np.full((8, 8, 3), place, np.uint8), place % 2


def test_images_and_class_names_of_a_torch_data_set_are_understood() -> None:
    data = from_torch(Images(), Images())  # type: ignore[arg-type]
    assert data.classes == ("cat", "dog")
    assert data.input_shape == (3, 8, 8)
    assert data.train.x[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter([(torch.zeros(2), 0)])


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([(torch.zeros(2), 0), (torch.zeros(3), 1)], "row 2.*first item"),
        ([(torch.zeros(2), 0), (torch.tensor([0, math.nan]), 1)], "row 2.*nan"),
        ([(torch.zeros(2), 0), (torch.zeros(2), 1.5)], "row 2.*whole number"),
        ([(torch.zeros(2), 0), (torch.zeros(2), -1)], "row 2.*-1"),
        ([(torch.zeros(2), 0), (torch.zeros(2), torch.tensor([1, 1]))], "row 2.*whole number"),
        ([(torch.zeros(2), 0), torch.zeros(2)], "row 2.*pair"),
        ([(torch.zeros(2), 0)], "holds 1 class;"),
        ([("word", 0), ("word", 1)], "needs numbers"),
        ([], "no items"),
    ],
)
def test_a_bad_torch_item_is_named(items: list[Any], reason: str) -> None:
    with pytest.raises(DataError, match=f"list.*{reason}"):
        from_torch(items, items)  # type: ignore[arg-type]


def test_a_stream_is_no_map_style_data_set() -> None:
    with pytest.raises(ConfigError, match=r"Stream.*map-style"):
        from_torch(Stream(), Stream())
