"""The file that a prepared data set travels in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays
from PIL import Image
from safetensors.torch import save_file

from counterpoise.data.dataset import Dataset, Samples, Scaling, pixel_scaling
from counterpoise.data.own import Assignment, Pack, read_pack, write_pack
from counterpoise.data.own.pack import ABOUT, DIGEST, _digest, _load
from counterpoise.data.own.pixels import compress, decompress
from counterpoise.errors import DataError

RECORD = {"seed": 3, "protocol": "lt-100", "nested": {"beta": 0.5, "classes": [1, 2]}}
ASSIGNMENT = Assignment(
    [np.array([0, 2]), np.array([], dtype=np.int64), np.array([5, 1, 3])], [np.array([4])], np.array([6, 7])
)


def images(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


def small(x: torch.Tensor | None = None, **changes: Any) -> Dataset:
    x = images(8, 3, 4, 5) if x is None else x
    data = Dataset(
        "small",
        Samples(x, torch.arange(8) % 2),
        Samples(x[:3] + 1, torch.tensor([0, 1, 0])),
        ("cat", "dög"),
        pixel_scaling((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
        if x.dim() == 4
        else Scaling(torch.tensor(1.0), torch.tensor(0.0)),
        torch.arange(8) % 3,
        ("x", "y", "z"),
        {"a.csv": "00ff"},
        ("a note",),
    )
    return replace(data, **changes)


def there_and_back(folder: Path, data: Dataset, assignment: Assignment = ASSIGNMENT) -> Pack:
    write_pack(data, assignment, folder / "p.safetensors", RECORD)
    return read_pack(folder / "p.safetensors")


def assert_same(one: Dataset, other: Dataset) -> None:
    for half in ("train", "test"):
        for first, second in zip(getattr(one, half), getattr(other, half), strict=True):
            assert first.dtype == second.dtype
            assert torch.equal(first, second)
    assert all(torch.equal(first, second) for first, second in zip(one.scaling, other.scaling, strict=True))
    assert (one.name, one.classes, one.client_names, one.files, one.notes) == (
        other.name, other.classes, other.client_names, other.files, other.notes,
    )  # fmt: skip


@pytest.mark.parametrize(
    "x", [images(8, 3, 4, 5), images(8, 1, 4, 5), images(8, 7), torch.arange(16.0).reshape(8, 2) / 3]
)
def test_what_was_written_is_read(tmp_path: Path, x: torch.Tensor) -> None:
    data = small(x, scaling=Scaling(torch.tensor(0.1), torch.tensor(-0.3)))
    pack = there_and_back(tmp_path, data)
    assert_same(pack.dataset, data)
    assert pack.dataset.clients is not None
    assert pack.dataset.clients.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert [rows.tolist() for rows in pack.assignment.clients] == [[0, 2], [], [5, 1, 3]]
    assert [rows.tolist() for rows in pack.assignment.held_out] == [[4]]
    assert pack.assignment.validation is not None
    assert pack.assignment.validation.tolist() == [6, 7]
    assert pack.record == RECORD


def test_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    pack = there_and_back(tmp_path, small(clients=None, client_names=()), Assignment([np.arange(8)]))
    assert pack.dataset.clients is None
    assert pack.assignment.validation is None
    assert list(pack.assignment.held_out) == []


def test_equal_content_gives_equal_bytes_and_no_other_file_is_left(tmp_path: Path) -> None:
    for name in ("a.safetensors", "b.safetensors"):
        write_pack(small(), ASSIGNMENT, tmp_path / name, RECORD)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "p.safetensors"
    write_pack(small(), ASSIGNMENT, target, RECORD)
    before = target.read_bytes()
    with pytest.raises(
        DataError, match=r"p\.safetensors: cannot be written: client rows are not all in 0 to 7"
    ):
        write_pack(small(), Assignment([np.array([8])]), target, RECORD)
    with pytest.raises(DataError, match="cannot be written"):
        write_pack(small(), ASSIGNMENT, tmp_path / "nowhere" / "p.safetensors", RECORD)
    with pytest.raises(DataError, match="cannot be written"):
        write_pack(small(), ASSIGNMENT, target, {"model": object()})
    assert target.read_bytes() == before


@given(arrays.arrays(np.uint8, arrays.array_shapes(min_dims=4, max_dims=4, min_side=1, max_side=5)))
@settings(max_examples=100, deadline=None)
def test_compressed_pixels_come_back(pixels: np.ndarray) -> None:
    assert (decompress(compress(pixels), pixels.shape) == pixels).all()


def test_a_ramp_of_pixels_compresses_to_almost_nothing() -> None:
    ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    assert len(compress(np.broadcast_to(ramp, (10, 3, 64, 64)))) < 10 * 3 * 64 * 64 / 100


@pytest.mark.parametrize("shape", [(2, 1, 3, 5), (2, 1, 3, 3), (0, 1, 1, 1)])
def test_pixels_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not unpack"):
        decompress(compress(np.ones((2, 1, 3, 4), np.uint8)), shape)


def test_a_cut_pack_is_refused(tmp_path: Path) -> None:
    write_pack(small(), ASSIGNMENT, tmp_path / "p.safetensors", RECORD)
    content = (tmp_path / "p.safetensors").read_bytes()
    for length in range(0, len(content), 37):
        (tmp_path / "p.safetensors").write_bytes(content[:length])
        with pytest.raises(DataError, match=r"p\.safetensors: ") as refused:
            read_pack(tmp_path / "p.safetensors")
        assert len(str(refused.value).splitlines()) == 1


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    write_pack(small(), ASSIGNMENT, tmp_path / "p.safetensors", RECORD)
    content = (tmp_path / "p.safetensors").read_bytes()
    for place in range(len(content)):
        (tmp_path / "p.safetensors").write_bytes(
            content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
        )
        with pytest.raises(DataError, match=r"p\.safetensors: "):
            read_pack(tmp_path / "p.safetensors")


FORGERIES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "label": ({"train.y": torch.full((8,), 2)}, {}, "training labels are not all in 0 to 1"),
    "label type": ({"test.y": torch.zeros(3)}, {}, "test labels are not a vector of 64-bit"),
    "fewer labels": ({"train.y": torch.zeros(7, dtype=torch.int64)}, {}, "for 7 labels"),
    "row": ({"clients.rows": torch.tensor([0, 2, 5, 1, 8])}, {}, "client rows are not all in 0 to 7"),
    "ends": ({"clients.ends": torch.tensor([2, 1, 5])}, {}, "the ends of clients"),
    "last end": ({"clients.ends": torch.tensor([2, 2, 6])}, {}, "the ends of clients"),
    "held-out row": ({"held_out.rows": torch.tensor([-1])}, {}, "held-out rows"),
    "validation row": ({"validation": torch.tensor([99])}, {}, "validation rows"),
    "natural client": ({"natural": torch.full((8,), 3)}, {}, "natural clients are not all in 0 to 2"),
    "scaling": ({"scaling.scale": torch.tensor(torch.inf)}, {}, "the scaling is not finite"),
    "scaling shape": ({"scaling.scale": torch.ones(2, 1, 1)}, {}, "damaged or not a pack"),
    "pixel size": ({}, {"pixels": {"train.x": [8, 3, 4, 6], "test.x": [3, 3, 4, 5]}}, "do not unpack"),
    "more pixels than labels": (
        {},
        {"pixels": {"train.x": [1 << 20, 3, 4, 5], "test.x": [3, 3, 4, 5]}},
        "train.x has 1,048,576 images for 8 labels; needs as many",
    ),
    "a million classes": (
        {},
        {"classes": [str(k) for k in range(1_000_000)]},
        "holds 1,000,000 classes; at most 10,000",
    ),
    "pixel bomb": (
        {},
        {"pixels": {"train.x": [1 << 20, 3, 1 << 10, 1 << 10], "test.x": [3, 3, 4, 5]}},
        "bytes of pixels",
    ),
    "negative size": ({}, {"pixels": {"train.x": [-8, 3, -4, 5], "test.x": [3, 3, 4, 5]}}, "bytes of pixels"),
    "class names": ({}, {"classes": [1, 2]}, "damaged or not a pack"),
    "format": ({}, {"format": 2}, "damaged or not a pack"),
    "unknown word": ({}, {"code": "os.abort()"}, "damaged or not a pack"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_pack_whose_checksum_fits_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "p.safetensors"
    write_pack(small(), ASSIGNMENT, path, RECORD)
    tensors, words = _load(path)
    changed_tensors, changed_words, reason = FORGERIES[name]
    forged = {key: tensor.clone() for key, tensor in tensors.items()} | changed_tensors
    words = json.dumps(json.loads(words) | changed_words)
    forged[DIGEST] = torch.tensor(list(_digest(forged, words)), dtype=torch.uint8)
    save_file(forged, path, {ABOUT: words})
    with pytest.raises(DataError, match=r"p\.safetensors: ") as refused:
        read_pack(path)
    assert reason in str(refused.value)


def test_another_safetensors_file_is_no_pack(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="is a safetensors file, but not a pack"):
        read_pack(tmp_path / "model.safetensors")


def test_cifar_10_long_tailed_fits_in_64_mebibytes(tmp_path: Path, data_root: Path) -> None:
    def batch(name: str) -> torch.Tensor:
        sheet = np.asarray(Image.open(data_root / "cifar10" / name).convert("RGB"))
        return torch.from_numpy(
            sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(10_000, 3, 32, 32)
        )

    train, test = (
        torch.cat([batch("data_batch_1.webp"), batch("data_batch_2.webp")[:2_406]]),
        batch("test_batch.webp"),
    )
    data = Dataset(
        "cifar10",
        Samples(train, torch.zeros(12_406).long()),
        Samples(test, torch.ones(10_000).long()),
        ("a", "b"),
    )
    pack = there_and_back(tmp_path, data, Assignment(np.array_split(np.arange(12_406), 100)))
    assert_same(pack.dataset, data)
    assert (tmp_path / "p.safetensors").stat().st_size < 40 << 20
