"""Where each data set can be had, with the published checksum of every file: a table, nothing is fetched here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """One file to fetch, with full addresses: a mirror may have it under another name."""

    file: str  # its name in the set's folder
    size: int  # bytes
    checksum: str  # "md5:..." or "sha256:..."
    urls: tuple[str, ...]
    unpack: tuple[
        str, ...
    ] = ()  # patterns of archive members to take out, without the archive's first folder


def _same_name(size: int, checksum: str, file: str, *folders: str) -> Source:
    return Source(file, size, checksum, tuple(folder + file for folder in folders))


_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_TORONTO = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
_SVHN = "http://ufldl.stanford.edu/housenumbers/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_UNSW = "https://raw.githubusercontent.com/Nir-J/ML-Projects/master/UNSW-Network_Packet_Classification/"
_UNSW_SWAPPED = "https://media.githubusercontent.com/media/jamshaid120/UNSW_NB15-Complete-dataset/main/"
_NSL = (
    "https://raw.githubusercontent.com/LiuYangSO/Genetic-Algorithm-based-Adversarial-Examples-Generation-against-"
    "Machine-Learning-based-IDS/0c6a551be6abec45615b4e86ca8a99190c6533c1/",
    "https://raw.githubusercontent.com/defcom17/NSL_KDD/master/",
)

MIRRORS: dict[str, tuple[Source, ...]] = {
    "mnist": (
        _same_name(9_912_422, "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873", "train-images-idx3-ubyte.gz", *_MNIST),
        _same_name(28_881, "md5:d53e105ee54ea40749a09fcbcd1e9432", "train-labels-idx1-ubyte.gz", *_MNIST),
        _same_name(1_648_877, "md5:9fb629c4189551a2d022fa330f9573f3", "t10k-images-idx3-ubyte.gz", *_MNIST),
        _same_name(4_542, "md5:ec29112dd5afa0611ce80d1b7f02629c", "t10k-labels-idx1-ubyte.gz", *_MNIST),
    ),
    "fashion_mnist": (
        _same_name(
            26_421_880, "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d", "train-images-idx3-ubyte.gz", *_FASHION
        ),
        _same_name(29_515, "md5:25c81989df183df01b3e8a0aad5dffbe", "train-labels-idx1-ubyte.gz", *_FASHION),
        _same_name(4_422_102, "md5:bef4ecab320f06d8554ea6380940ec79", "t10k-images-idx3-ubyte.gz", *_FASHION),
        _same_name(5_148, "md5:bb300cfdad3c16e7a12a480ee83cd310", "t10k-labels-idx1-ubyte.gz", *_FASHION),
    ),
    "cifar10": (
        _same_name(
            170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-binary.tar.gz", *_TORONTO
        )._replace(unpack=("*.bin",)),
    ),
    "cifar100": (
        _same_name(
            168_513_733, "md5:03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary.tar.gz", *_TORONTO
        )._replace(unpack=("*.bin", "fine_label_names.txt")),
    ),
    "svhn": (
        _same_name(182_040_794, "md5:e26dedcc434d2e4c54c9b2d4a06d8373", "train_32x32.mat", _SVHN),
        _same_name(64_275_384, "md5:eb5a983be6a315427106f1b164d9cef3", "test_32x32.mat", _SVHN),
    ),
    "tiny_imagenet": (
        _same_name(
            248_100_043,
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
            "tiny-imagenet-200.zip",
            "http://cs231n.stanford.edu/",
        )._replace(unpack=("wnids.txt", "train/*", "val/*")),
    ),
    "adult": (
        _same_name(3_974_305, "md5:5d7c39d7b8804f071cdd1f2a7c460872", "adult.data", _UCI + "adult/"),
        _same_name(2_003_153, "md5:35238206dfdf7f1fe215bbb874adecdc", "adult.test", _UCI + "adult/"),
    ),
    "unsw_nb15": (
        Source(
            "UNSW_NB15_training-set.csv",
            32_293_018,
            "sha256:bec7dd5ec88dc2a0ccc7a07879d338395ed7421750f675fd0339e07dfe0648fa",
            (_UNSW + "UNSW_NB15_training-set.csv", _UNSW_SWAPPED + "UNSW_NB15_testing-set.csv"),
        ),
        Source(
            "UNSW_NB15_testing-set.csv",
            15_380_800,
            "sha256:734fe6642edf758f7c94d7d9149426b49d202fe8e7bf0bef47392489c3c0a559",
            (_UNSW + "UNSW_NB15_testing-set.csv", _UNSW_SWAPPED + "UNSW_NB15_training-set.csv"),
        ),
    ),
    "nsl_kdd": (
        _same_name(3_822_033, "md5:7255822dd1ef129a6809090565b95550", "KDDTrain+_20Percent.txt", *_NSL),
        _same_name(3_441_513, "md5:d92f02fa82e5daf868a0566d5d6ce577", "KDDTest+.txt", *_NSL),
    ),
    "heart_disease": (
        _same_name(
            18_461,
            "md5:2d91a8ff69cfd9616aa47b59d6f843db",
            "processed.cleveland.data",
            _UCI + "heart-disease/",
        ),
        _same_name(
            10_263,
            "md5:22e96bee155b5973568101c93b3705f6",
            "processed.hungarian.data",
            _UCI + "heart-disease/",
        ),
        _same_name(
            4_109,
            "md5:9a87f7577310b3917730d06ba9349e20",
            "processed.switzerland.data",
            _UCI + "heart-disease/",
        ),
        _same_name(
            6_737, "md5:4249d03ca7711e84f4444768c9426170", "processed.va.data", _UCI + "heart-disease/"
        ),
    ),
}

# Sets without a published checksum or behind a login: nothing unverified is fetched, so they are placed by hand.
BY_HAND: dict[str, str] = {
    "hapt": "unpack the folder RawData of https://archive.ics.uci.edu/dataset/341 there",
    "imagenet_lt": (
        "put there ImageNet's folders train and val (https://image-net.org, needs an account) with the lists "
        "ImageNet_LT_train.txt and ImageNet_LT_test.txt of https://github.com/zhmiao/OpenLongTailRecognition-OLTR"
    ),
}


def how_to_get(name: str, root: Path) -> str:
    """End of a sentence about a missing file: the command that downloads it, or what to do by hand."""
    if name in MIRRORS:
        return f"or run: counterpoise data download {name} --root {root}"
    return BY_HAND.get(name, "it cannot be downloaded by command")
