"""Image folders of the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from counterpoise.data.own import read_image_folder
from counterpoise.errors import ConfigError, DataError


def paint(path: Path, value: int | tuple[int, int, int], size: tuple[int, int] = (4, 6)) -> None:
    """A one-coloured image of (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(value, int) else "RGB", size[::-1], value).save(path)


def paint_classes(folder: Path, count: int = 5) -> Path:
    for label, value in (("cat", 10), ("dog", 20)):
        for number in range(count):
            paint(folder / label / f"{number}.png", value)
    return folder


def test_a_folder_a_class_is_split_by_class(tmp_path: Path) -> None:
    data = read_image_folder(paint_classes(tmp_path))
    assert data.classes == ("cat", "dog")
    assert data.train.x.dtype == torch.uint8
    assert data.train.x.shape == (8, 1, 4, 6)
    assert data.train.x[:, 0, 0, 0].tolist() == [10] * 4 + [20] * 4
    assert data.test.x[:, 0, 0, 0].tolist() == [10, 20]
    assert data.scaling(data.train.x).unique().tolist() == pytest.approx([-1.0, 1.0])  # mean 15, deviation 5


def test_train_and_test_folders_are_kept(tmp_path: Path) -> None:
    paint_classes(tmp_path / "train", 3)
    paint_classes(tmp_path / "test", 1)
    data = read_image_folder(tmp_path)
    assert (len(data.train.y), len(data.test.y)) == (6, 2)


def test_client_folders_give_natural_clients(tmp_path: Path) -> None:
    for client, count in (("10", 5), ("9", 10)):
        paint_classes(tmp_path / client, count)
    data = read_image_folder(tmp_path, clients=True)
    assert data.client_names == ("9", "10")
    assert data.clients is not None
    assert len(data.clients) == len(data.train.y) == 24


def test_one_colour_image_makes_all_of_them_colour(tmp_path: Path) -> None:
    paint_classes(tmp_path / "train", 2)
    paint_classes(tmp_path / "test", 2)
    paint(tmp_path / "train" / "dog" / "9.png", (1, 2, 3))
    data = read_image_folder(tmp_path)
    assert data.train.x[-1, :, 0, 0].tolist() == [1, 2, 3]
    assert data.train.x[0, :, 0, 0].tolist() == [10, 10, 10]


def test_pixels_are_in_their_place(tmp_path: Path) -> None:
    paint_classes(tmp_path / "train", 1)
    paint_classes(tmp_path / "test", 1)
    pixels = np.arange(4 * 6, dtype=np.uint8).reshape(4, 6)
    Image.fromarray(pixels).save(tmp_path / "train" / "cat" / "0.png")
    assert read_image_folder(tmp_path).train.x[0, 0].tolist() == pixels.tolist()


def test_other_sizes_are_brought_to_the_size_given(tmp_path: Path) -> None:
    paint_classes(tmp_path)
    paint(tmp_path / "cat" / "large.png", 10, size=(12, 12))
    data = read_image_folder(tmp_path, size=(8, 5))
    assert data.input_shape == (1, 8, 5)
    assert "images resized to 8 x 5" in data.notes
    assert read_image_folder(tmp_path, size=7).input_shape == (1, 7, 7)


def test_hidden_files_and_a_link_inside_are_no_matter(tmp_path: Path) -> None:
    paint_classes(tmp_path)
    (tmp_path / "cat" / ".DS_Store").write_bytes(b"\0")
    (tmp_path / "README.txt").write_text("about")
    (tmp_path / "cat" / "again.png").symlink_to(tmp_path / "cat" / "0.png")
    data = read_image_folder(tmp_path)
    assert len(data.train.y) + len(data.test.y) == 11


def test_the_checksum_is_that_of_names_and_bytes(tmp_path: Path) -> None:
    paint_classes(tmp_path)
    first = read_image_folder(tmp_path).files
    assert read_image_folder(tmp_path).files == first
    paint(tmp_path / "cat" / "0.png", 11)
    assert read_image_folder(tmp_path).files != first


@pytest.mark.parametrize("size", [0, -1, (4, 0), (1 << 13, 1 << 13)])
def test_a_size_out_of_range_is_refused(tmp_path: Path, size: int | tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="size"):
        read_image_folder(paint_classes(tmp_path), size=size)


def test_sixteen_bits_keep_their_high_byte_and_a_note_says_so(tmp_path: Path) -> None:
    paint_classes(tmp_path)
    deep = np.array([[0, 255, 256], [40_000, 65_279, 65_535]], np.uint16)
    for number in range(5):
        for label in ("cat", "dog"):
            Image.fromarray(deep).save(tmp_path / label / f"{number}.png")
    data = read_image_folder(tmp_path)
    assert data.train.x[0, 0].tolist() == [[0, 0, 1], [156, 254, 255]]
    assert (
        "10 images of sixteen bits brought to eight by their high byte; largest value 65,535 of 65,535"
        in data.notes
    )
    for file in tmp_path.glob("*/*.png"):
        Image.fromarray(deep // 16).save(file)  # twelve bits, as of a scanner
    assert any("few grey levels are left" in note for note in read_image_folder(tmp_path).notes)


def test_files_that_cannot_be_used_are_skipped_where_asked_and_listed(tmp_path: Path) -> None:
    whole = read_image_folder(paint_classes(tmp_path / "whole"))
    folder = paint_classes(tmp_path / "some")
    (folder / "cat" / "zz.png").write_text("no image")
    paint(folder / "dog" / "zz.png", 20, (5, 5))
    with pytest.raises(DataError, match=r"zz\.png: cannot be read as an image"):
        read_image_folder(folder)
    data = read_image_folder(folder, on_error="skip")
    assert torch.equal(data.train.x, whole.train.x)
    assert torch.equal(data.test.y, whole.test.y)
    (note,) = (note for note in data.notes if note.startswith("skipped"))
    assert note.startswith(
        "skipped 2 of 12 images that cannot be used: cat/zz.png: cannot be read as an image"
    )
    assert "dog/zz.png: is 5 x 5, the first image 4 x 6" in note


def test_a_folder_of_which_most_cannot_be_used_is_refused(tmp_path: Path) -> None:
    for file in [*paint_classes(tmp_path).glob("*/*.png")][1:]:
        file.write_text("no image")
    with pytest.raises(DataError, match=r"9 of 10 images cannot be used, more than half; the first is"):
        read_image_folder(tmp_path, on_error="skip")
