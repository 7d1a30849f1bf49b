"""The readers of images on small files in the official formats, whole and damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from counterpoise.data.dataset import DATASETS, Dataset
from counterpoise.errors import DataError


def load(name: str, root: Path, **arguments: Any) -> Dataset:
    return DATASETS.build(name, arguments)(root)


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write_mnist(root: Path) -> None:
    images = np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2)
    for part in ("train", "t10k"):
        write(root / f"mnist/{part}-images-idx3-ubyte", idx(images))
        write(
            root / f"mnist/{part}-labels-idx1-ubyte.gz",
            gzip.compress(idx(np.array([7, 0, 9], np.uint8)), mtime=0),
        )


def test_idx_files_are_read_plain_and_compressed(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    data = load("mnist", tmp_path)
    assert data.train.x.shape == (3, 1, 2, 2)
    assert data.train.x[1].flatten().tolist() == [4, 5, 6, 7]
    assert data.test.y.tolist() == [7, 0, 9]
    assert sorted(data.files) == [
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte.gz",
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte.gz",
    ]


LABELS = idx(np.array([7, 0, 9], np.uint8))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (gzip.compress(LABELS, mtime=0)[:-9], "damaged or truncated"),
        (gzip.compress(LABELS[:-1], mtime=0), "10 bytes; needs 11"),
        (gzip.compress(LABELS + b"\0", mtime=0), "more than 11 bytes; needs 11"),
        (gzip.compress(b"\0\0\x08\x03" + LABELS[4:], mtime=0), "starts with 00000803; must be 00000801"),
        (gzip.compress(b"\0\0", mtime=0), "starts with 0000; must be 00000801"),
        (gzip.compress(b"", mtime=0), "must be 00000801"),
        (gzip.compress(idx(np.array([7, 10, 9], np.uint8)), mtime=0), "label 10 in row 2; must be 0 to 9"),
        (gzip.compress(idx(np.array([7, 1], np.uint8)), mtime=0), "2 labels for the 3 images"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_idx_file_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    write_mnist(tmp_path)
    write(tmp_path / "mnist/train-labels-idx1-ubyte.gz", content)
    with pytest.raises(DataError, match=f"train-labels-idx1-ubyte.gz: .*{complaint}"):
        load("mnist", tmp_path)


def test_an_idx_file_that_says_too_much_or_unpacks_to_more_is_refused_by_its_header(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    for shape, content, complaint in (
        ((3, 1 << 15, 1 << 15), b"", "says it holds 3,221,225,488 bytes; at most 1,073,741,824"),
        ((3, 2, 2), bytes(1 << 20), "more than 28 bytes; needs 28, as its header says"),
        ((1 << 31, 2, 2), b"", "3 labels for the 2147483648 images"),
    ):
        head = bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape)
        write(tmp_path / "mnist/train-images-idx3-ubyte", head + content)
        with pytest.raises(DataError, match=complaint):
            load("mnist", tmp_path)


def record(label: bytes, value: int) -> bytes:
    planes = [bytes([value + plane]) * 1024 for plane in range(3)]
    return label + b"".join(planes)


@pytest.mark.parametrize("folder", ["cifar10", "cifar10/cifar-10-batches-bin"])
def test_cifar10_binary_batches_are_read_in_order(tmp_path: Path, folder: str) -> None:
    for batch in range(1, 6):
        write(
            tmp_path / folder / f"data_batch_{batch}.bin",
            record(bytes([batch]), 10 * batch) + record(b"\0", 1),
        )
    write(tmp_path / folder / "test_batch.bin", record(b"\x09", 200))
    data = load("cifar10", tmp_path)
    assert data.train.y.tolist() == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert data.train.x[2, :, 5, 5].tolist() == [20, 21, 22]
    assert data.test.x[0, :, 31, 0].tolist() == [200, 201, 202]
    assert data.classes[data.test.y[0]] == "truck"


def test_cifar100_takes_the_fine_label_and_its_name(tmp_path: Path) -> None:
    write(tmp_path / "cifar100/train.bin", record(b"\x13\x63", 5) + record(b"\x00\x02", 6))
    write(tmp_path / "cifar100/test.bin", record(b"\x01\x00", 7))
    data = load("cifar100", tmp_path)
    assert data.train.y.tolist() == [99, 2]
    assert data.classes == tuple(str(label) for label in range(100))
    (note,) = data.notes
    assert note.startswith("only part of the official cifar100: 2 of 50,000 training samples, 0 to 1 of each")
    names = [f"name {label}" for label in range(100)]
    write(tmp_path / "cifar100/fine_label_names.txt", "\n".join(names) + "\n\n")
    assert load("cifar100", tmp_path).classes == tuple(names)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (record(b"\x01", 5)[:-1], "3,072 bytes; needs a whole number of records of 3,073"),
        (b"", "0 bytes; needs a whole number"),
        (record(b"\x01", 5) + record(b"\x0a", 5), "label 10 in row 2; must be 0 to 9"),
    ],
)
def test_a_damaged_cifar_batch_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    for batch in range(1, 6):
        write(tmp_path / f"cifar10/data_batch_{batch}.bin", record(b"\0", 1))
    write(tmp_path / "cifar10/test_batch.bin", content)
    with pytest.raises(DataError, match=rf"test_batch\.bin: {complaint}"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    "name", ["data_batch_1", "cifar-10-batches-py/data_batch_1", "cifar-10-python.tar.gz"]
)
def test_pickled_cifar_is_never_read_and_the_error_says_so(tmp_path: Path, name: str) -> None:
    write(tmp_path / "cifar10" / name, b"\x80\x04")
    with pytest.raises(DataError, match=r"never read, .*put the binary version \(data_batch_1\.bin"):
        load("cifar10", tmp_path)


def test_cifar_that_is_absent_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar100: no train\.bin .*counterpoise data download cifar100"):
        load("cifar100", tmp_path)


def write_sheets(root: Path, name: str, train: list[int], classes: int) -> np.ndarray:
    """Two training sheets of 2 x 3 tiles and a test sheet of one; returns the training tiles, NHWC."""
    rng = np.random.default_rng(0)
    tiles = rng.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    (root / name).mkdir(parents=True)
    for sheet in range(2):
        rows = [np.hstack(list(tiles[first : first + 3])) for first in (6 * sheet, 6 * sheet + 3)]
        Image.fromarray(np.vstack(rows)).save(
            root / name / f"data_batch_{sheet + 1}.webp", lossless=True, exact=True
        )
    Image.fromarray(tiles[0]).save(root / name / "test_batch.webp", lossless=True, exact=True)
    names = np.array([f"class {label}" for label in range(classes)])
    labels = np.array(train, np.uint8)
    np.savez(root / name / "labels.npz", train=labels, test=np.array([1], np.uint8), classes=names)
    return tiles


@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_sheets_are_cut_into_tiles_row_by_row(tmp_path: Path, name: str, classes: int) -> None:
    tiles = write_sheets(tmp_path, name, train=[*range(10), 0, 1], classes=classes)
    data = load(name, tmp_path)
    assert np.array_equal(data.train.x.numpy(), tiles.transpose(0, 3, 1, 2))
    assert data.train.y.tolist() == [*range(10), 0, 1]
    assert data.test.y.tolist() == [1]
    assert data.classes[3] == "class 3"


def test_damaged_sheets_are_named(tmp_path: Path) -> None:
    write_sheets(tmp_path / "few", "cifar10", train=[0] * 11, classes=10)
    with pytest.raises(DataError, match=r"labels\.npz: 11 labels for the 12 images"):
        load("cifar10", tmp_path / "few")
    write_sheets(tmp_path / "range", "cifar10", train=[0] * 11 + [10], classes=10)
    with pytest.raises(DataError, match=r"labels\.npz: label 10 in row 12"):
        load("cifar10", tmp_path / "range")
    write_sheets(tmp_path / "names", "cifar10", train=[0] * 12, classes=9)
    with pytest.raises(DataError, match=r"labels\.npz: 9 classes; needs 10"):
        load("cifar10", tmp_path / "names")
    write_sheets(tmp_path / "cut", "cifar10", train=[0] * 12, classes=10)
    cut = tmp_path / "cut/cifar10/data_batch_2.webp"
    cut.write_bytes(cut.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"data_batch_2\.webp: cannot be decoded"):
        load("cifar10", tmp_path / "cut")
    Image.new("RGB", (40, 32)).save(cut, lossless=True)
    with pytest.raises(DataError, match=r"data_batch_2\.webp: 40x32 pixels; needs multiples of 32"):
        load("cifar10", tmp_path / "cut")


def write_svhn(root: Path, x: np.ndarray, labels: list[int]) -> None:
    (root / "svhn").mkdir(exist_ok=True)
    for part in ("train", "test"):
        savemat(
            root / f"svhn/{part}_32x32.mat",
            {"X": x, "y": np.array(labels, np.uint8)[:, None]},
            do_compression=True,
        )


def test_svhn_is_turned_to_channels_first_and_label_10_is_the_digit_0(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    write_svhn(tmp_path, x, [10, 1, 9, 10])
    data = load("svhn", tmp_path)
    assert data.train.y.tolist() == [0, 1, 9, 0]
    assert data.train.x.shape == (4, 3, 32, 32)
    assert data.train.x[2, 1, 30, 4] == x[30, 4, 1, 2]


def test_a_damaged_svhn_file_is_named(tmp_path: Path) -> None:
    x = np.zeros((32, 32, 3, 2), np.uint8)
    write_svhn(tmp_path, x, [1, 11])
    with pytest.raises(DataError, match=r"train_32x32\.mat: label 11 in row 2; must be 1 to 10"):
        load("svhn", tmp_path)
    write_svhn(tmp_path, x, [1, 2, 3])
    with pytest.raises(DataError, match=r"train_32x32\.mat: X uint8 \(32, 32, 3, 2\) for 3 labels"):
        load("svhn", tmp_path)
    write_svhn(tmp_path, np.broadcast_to(np.uint8(0), (320, 320, 30, 2)), [1, 2])
    with pytest.raises(DataError, match=r"train_32x32\.mat: X uint8 \(320, 320, 30, 2\) for 2 labels"):
        load("svhn", tmp_path)
    write_svhn(tmp_path, x, [1, 2])
    whole = (tmp_path / "svhn/test_32x32.mat").read_bytes()
    for damaged in (whole[:200], whole[: len(whole) // 2], b"", b"no matlab file at all" * 20):
        write(tmp_path / "svhn/test_32x32.mat", damaged)
        with pytest.raises(DataError, match=r"test_32x32\.mat: not a MATLAB file with X and y"):
            load("svhn", tmp_path)


def save_image(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (16, 16)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, format="PNG")


def test_an_image_list_gives_each_path_its_label_at_one_size(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet_lt"
    save_image(folder / "train/a/one image.png", (255, 0, 0), size=(40, 20))
    save_image(folder / "train/b/2.png", (0, 255, 0))
    save_image(folder / "val/3.png", (0, 0, 255))
    write(folder / "ImageNet_LT_train.txt", "train/a/one image.png 0\ntrain/b/2.png 1\n")
    write(folder / "ImageNet_LT_test.txt", "val/3.png 1\n")
    data = load("imagenet_lt", tmp_path, size=8)
    assert data.train.x.shape == (2, 3, 8, 8)
    assert data.train.x[:, :, 4, 4].tolist() == [[255, 0, 0], [0, 255, 0]]
    assert data.test.x[0, :, 0, 0].tolist() == [0, 0, 255]
    assert data.test.y.tolist() == [1]
    assert data.classes == ("0", "1")


def test_tiny_imagenet_is_read_as_unpacked_or_from_lists(tmp_path: Path) -> None:
    folder = tmp_path / "tiny_imagenet"
    save_image(folder / "train/n02/images/n02_0.JPEG", (255, 0, 0))
    save_image(folder / "train/n01/images/n01_0.JPEG", (0, 255, 0))
    save_image(folder / "val/images/val_0.JPEG", (0, 0, 255))
    write(folder / "wnids.txt", "n02\nn01\n")
    write(folder / "val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\t62\t62\n")
    data = load("tiny_imagenet", tmp_path)
    assert data.classes == ("n02", "n01")
    assert data.train.x.shape == (2, 3, 64, 64)
    assert data.train.y.tolist() == [0, 1]
    assert data.train.x[0, 0].min() == 255
    assert data.test.y.tolist() == [1]
    write(folder / "train.txt", "train/n01/images/n01_0.JPEG 0\n")
    write(folder / "val.txt", "val/images/val_0.JPEG 0\n")
    assert load("tiny_imagenet", tmp_path).train.y.tolist() == [0]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("a.png", "line 1 is 'a.png'; needs a path below"),
        ("a.png minus", ".*needs a path below .* and a label from 0"),
        ("../secret.png 0", ".*needs a path below"),
        ("/etc/secret.png 0", ".*needs a path below"),
        ("", "no images"),
    ],
)
def test_a_bad_line_of_an_image_list_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    write(tmp_path / "imagenet_lt/ImageNet_LT_train.txt", line)
    with pytest.raises(DataError, match=rf"ImageNet_LT_train\.txt: {complaint}"):
        load("imagenet_lt", tmp_path)


def test_a_bad_image_or_label_of_a_list_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet_lt"
    save_image(folder / "1.png", (1, 2, 3))
    write(folder / "ImageNet_LT_train.txt", "1.png 0\n")
    write(folder / "ImageNet_LT_test.txt", "1.png 1\n")
    with pytest.raises(DataError, match=r"ImageNet_LT_test\.txt: label 1 in row 1; must be 0 to 0"):
        load("imagenet_lt", tmp_path)
    write(folder / "ImageNet_LT_test.txt", "2.png 0\n")
    with pytest.raises(DataError, match=r"2\.png: cannot be decoded"):
        load("imagenet_lt", tmp_path)
    write(folder / "2.png", (folder / "1.png").read_bytes()[:50])
    with pytest.raises(DataError, match=r"2\.png: cannot be decoded"):
        load("imagenet_lt", tmp_path)
