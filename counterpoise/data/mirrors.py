"""Download addresses of each data set and the SHA-256 of every file; nothing is fetched here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from counterpoise.errors import ConfigError

SHA256 = re.compile(r"[0-9a-f]{64}")
SECURE = "https://"


@dataclass(frozen=True)
class Source:
    """One file to fetch, with full addresses, since a mirror may use another name."""

    file: str  # its name in the set's folder
    size: int  # bytes
    sha256: str
    urls: tuple[str, ...]
    unpack: tuple[str, ...] = ()  # patterns of archive members to extract, without the archive's first folder

    def __post_init__(self) -> None:
        if not SHA256.fullmatch(self.sha256):
            raise ConfigError(f"{self.file}: sha256 must be 64 hex digits, not {self.sha256!r}")
        for url in self.urls:
            if not url.startswith(SECURE):
                raise ConfigError(f"{self.file}: the address must begin with {SECURE}, not {url!r}")


def _same_name(size: int, sha256: str, file: str, *folders: str, unpack: tuple[str, ...] = ()) -> Source:
    return Source(file, size, sha256, tuple(folder + file for folder in folders), unpack)


_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
)
_TORONTO = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
_SVHN = "https://cseweb.ucsd.edu/~weijian/static/datasets/svhn/"  # the authors' own server has http only
_TINY = ("https://cs231n.stanford.edu/", "https://zenodo.org/records/10720917/files/")
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
        _same_name(
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-images-idx3-ubyte.gz",
            *_MNIST,
        ),
        _same_name(
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "train-labels-idx1-ubyte.gz",
            *_MNIST,
        ),
        _same_name(
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-images-idx3-ubyte.gz",
            *_MNIST,
        ),
        _same_name(
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "t10k-labels-idx1-ubyte.gz",
            *_MNIST,
        ),
    ),
    "fashion_mnist": (
        _same_name(
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-images-idx3-ubyte.gz",
            *_FASHION,
        ),
        _same_name(
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "train-labels-idx1-ubyte.gz",
            *_FASHION,
        ),
        _same_name(
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-images-idx3-ubyte.gz",
            *_FASHION,
        ),
        _same_name(
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "t10k-labels-idx1-ubyte.gz",
            *_FASHION,
        ),
    ),
    "cifar10": (
        _same_name(
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            "cifar-10-binary.tar.gz",
            *_TORONTO,
            unpack=("*.bin",),
        ),
    ),
    "cifar100": (
        _same_name(
            168_513_733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            "cifar-100-binary.tar.gz",
            *_TORONTO,
            unpack=("*.bin", "fine_label_names.txt"),
        ),
    ),
    "svhn": (
        _same_name(
            182_040_794,
            "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            "train_32x32.mat",
            _SVHN,
        ),
        _same_name(
            64_275_384,
            "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            "test_32x32.mat",
            _SVHN,
        ),
    ),
    "tiny_imagenet": (
        _same_name(
            248_100_043,
            "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            "tiny-imagenet-200.zip",
            *_TINY,
            unpack=("wnids.txt", "train/*", "val/*"),
        ),
    ),
    "adult": (
        _same_name(
            3_974_305,
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            "adult.data",
            _UCI + "adult/",
        ),
        _same_name(
            2_003_153,
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            "adult.test",
            _UCI + "adult/",
        ),
    ),
    "unsw_nb15": (
        Source(
            "UNSW_NB15_training-set.csv",
            32_293_018,
            "bec7dd5ec88dc2a0ccc7a07879d338395ed7421750f675fd0339e07dfe0648fa",
            (_UNSW + "UNSW_NB15_training-set.csv", _UNSW_SWAPPED + "UNSW_NB15_testing-set.csv"),
        ),
        Source(
            "UNSW_NB15_testing-set.csv",
            15_380_800,
            "734fe6642edf758f7c94d7d9149426b49d202fe8e7bf0bef47392489c3c0a559",
            (_UNSW + "UNSW_NB15_testing-set.csv", _UNSW_SWAPPED + "UNSW_NB15_training-set.csv"),
        ),
    ),
    "nsl_kdd": (
        _same_name(
            3_822_033,
            "1a1559ff163a1dfa7ad1fba6b00ac6a408cc16741588831b66f043b918881e53",
            "KDDTrain+_20Percent.txt",
            *_NSL,
        ),
        _same_name(
            3_441_513,
            "86b5ec03d20c040bdbeeb7eb68ae7df37e27a16c5b66a6ba2b62b8fed0e5cdfa",
            "KDDTest+.txt",
            *_NSL,
        ),
    ),
    "heart_disease": (
        _same_name(
            18_461,
            "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
            "processed.cleveland.data",
            _UCI + "heart-disease/",
        ),
        _same_name(
            10_263,
            "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
            "processed.hungarian.data",
            _UCI + "heart-disease/",
        ),
        _same_name(
            4_109,
            "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
            "processed.switzerland.data",
            _UCI + "heart-disease/",
        ),
        _same_name(
            6_737,
            "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
            "processed.va.data",
            _UCI + "heart-disease/",
        ),
    ),
}

# Sets without a published checksum or behind a login must be downloaded by hand: nothing unverified is fetched.
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
