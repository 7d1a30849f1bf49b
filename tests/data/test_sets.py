"""The real files: totals and counts as published."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from counterpoise.data.dataset import DATASETS, Dataset
from counterpoise.errors import ConfigError

Load = Callable[..., Dataset]


@pytest.fixture(scope="module")
def load(data_root: Path) -> Load:
    @cache
    def loaded(name: str, **arguments: Any) -> Dataset:
        return DATASETS.build(name, arguments)(data_root)

    return loaded


def counts(y: Tensor) -> list[int]:
    return torch.bincount(y).tolist()


def together(data: Dataset) -> list[int]:
    return counts(torch.cat([data.train.y, data.test.y]))


def test_all_data_sets_are_registered_with_paper_and_summary() -> None:
    expected = "adult cifar10 cifar100 digits fashion_mnist hapt heart_disease imagenet_lt mnist nsl_kdd svhn tiny_imagenet unsw_nb15"
    assert set(expected.split()) <= set(DATASETS.names())
    for name in expected.split():
        assert DATASETS.entry(name).paper
        assert DATASETS.entry(name).summary


def test_a_wrong_option_of_a_set_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="must be 'stratified' or 'official'"):
        DATASETS.build("adult", {"split": "random"})
    with pytest.raises(ConfigError, match=r"size must be a whole number in \[8, 1024\], not 4"):
        DATASETS.build("tiny_imagenet", {"size": 4})


def test_digits_need_no_root_and_are_split_by_class() -> None:
    data = DATASETS.build("digits")(None)
    assert data.train.x.shape == (1438, 1, 8, 8)
    assert data.train.x.dtype == torch.uint8
    assert together(data) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert counts(data.test.y) == [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]
    everything = data.scaling(torch.cat([data.train.x, data.test.x]))
    assert abs(everything.mean().item()) < 1e-3
    assert abs(everything.std().item() - 1) < 1e-3
    again = DATASETS.build("digits")(None)
    assert torch.equal(again.test.x, data.test.x)


def test_digits_train_and_test_share_no_row_and_lose_none() -> None:
    from sklearn.datasets import load_digits

    data = DATASETS.build("digits")(None)
    rows = torch.cat([data.train.x, data.test.x]).flatten(1).numpy()
    assert sorted(map(bytes, rows)) == sorted(map(bytes, load_digits().data.astype(np.uint8)))


def test_mnist_has_the_published_counts(load: Load) -> None:
    data = load("mnist")
    assert data.train.x.shape == (60000, 1, 28, 28)
    assert counts(data.train.y) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert counts(data.test.y) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.files["t10k-labels-idx1-ubyte.gz"].startswith("f7ae60f92e00ec6d")


def test_fashion_mnist_is_balanced(load: Load) -> None:
    data = load("fashion_mnist")
    assert counts(data.train.y) == [6000] * 10
    assert counts(data.test.y) == [1000] * 10
    assert data.classes[9] == "Ankle boot"


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_scaled_pixels_have_zero_mean_and_unit_deviation(load: Load, name: str) -> None:
    data = load(name)
    scaled = data.scaling(
        data.train.x[::7]
    )  # an odd stride: the even rows of MNIST are lighter than the odd ones
    assert scaled.mean(dim=(0, 2, 3)).abs().max() < 0.02
    assert (scaled.std(dim=(0, 2, 3)) - 1).abs().max() < 0.02


def test_cifar10_sheets_give_the_official_pixels_and_labels(load: Load) -> None:
    data = load("cifar10")
    assert data.train.x.shape == (50000, 3, 32, 32)
    assert data.test.x.shape == (10000, 3, 32, 32)
    assert data.train.x[0, :, 0, 0].tolist() == [59, 62, 63]
    assert data.train.x[0, :, 0, 1].tolist() == [43, 46, 45]
    assert data.train.y[:3].tolist() == [6, 9, 9]
    assert counts(data.train.y) == [5000] * 10
    assert counts(data.test.y) == [1000] * 10
    assert data.classes[0] == "airplane"
    assert len(data.files) == 7


def test_adult_has_104_inputs_and_45222_complete_rows(load: Load) -> None:
    data = load("adult")
    assert data.input_shape == (104,)
    assert len(data.train.y) + len(data.test.y) == 45222
    assert together(data) == [34014, 11208]
    assert counts(data.test.y) == [6803, 2242]  # a fifth of each, rounded
    assert data.notes[0] == "3,620 rows with missing values dropped, 45,222 kept"
    one_hot = torch.cat([data.train.x, data.test.x])[:, 6:]
    assert torch.all((one_hot == 0) | (one_hot == 1))
    assert torch.all(one_hot.sum(dim=1) == 8)
    assert torch.all(one_hot.sum(dim=0) > 0)


def test_adult_numbers_are_standardised_with_training_statistics_only(load: Load) -> None:
    numbers = load("adult").train.x[:, :6].double()
    assert numbers.mean(dim=0).abs().max() < 1e-6
    assert (numbers.std(dim=0, correction=0) - 1).abs().max() < 1e-6
    test = load("adult").test.x[:, :6].double()
    assert test.mean(dim=0).abs().max() > 1e-4


def test_adult_official_split_keeps_the_two_files_apart(load: Load) -> None:
    data = load("adult", split="official")
    assert data.input_shape == (104,)
    assert counts(data.train.y) == [22654, 7508]
    assert counts(data.test.y) == [11360, 3700]


def test_unsw_nb15_keeps_its_natural_imbalance_on_both_sides(load: Load) -> None:
    data = load("unsw_nb15")
    assert together(data) == [37000, 18871, 11132, 6062, 4089, 3496, 677, 583, 378, 44]
    assert counts(data.test.y) == [7400, 3774, 2226, 1212, 818, 699, 135, 117, 76, 9]
    assert data.classes[0] == "Normal"
    assert data.classes[-1] == "Worms"
    assert data.input_shape == (39 + 131 + 13 + 7,)
    assert "not the published split" in data.notes[0]
    assert torch.all(torch.cat([data.train.x, data.test.x])[:, 39:].sum(dim=1) == 3)


def test_nsl_kdd_has_five_coarse_classes_with_the_counts_usually_printed(load: Load) -> None:
    data = load("nsl_kdd")
    assert data.classes == ("normal", "DoS", "Probe", "R2L", "U2R")
    assert counts(data.train.y) == [13449, 9234, 2289, 209, 11]
    assert counts(data.test.y) == [9711, 7458, 2421, 2754, 200]
    assert sum(counts(data.train.y)) == 25192
    assert sum(counts(data.test.y)) == 22544
    assert torch.all(data.test.x[:, 38:].sum(dim=1) == 3)


def test_nsl_kdd_fine_labels_drop_unseen_test_rows_and_say_so(load: Load) -> None:
    data = load("nsl_kdd", labels="fine")
    assert len(data.classes) == 22
    assert data.classes[:2] == ("normal", "neptune")
    assert counts(data.train.y)[:2] == [13449, 8282]
    assert counts(data.train.y)[-4:] == [1, 1, 1, 1]
    assert len(data.test.y) == 22544 - 3752
    assert "3,752 test rows dropped" in data.notes[1]
    assert "mscan" in data.notes[1]


def test_heart_disease_has_four_hospitals_of_the_published_sizes(load: Load) -> None:
    data = load("heart_disease")
    assert data.client_names == ("Cleveland", "Hungary", "Switzerland", "Long Beach")
    assert data.clients is not None
    assert together(data) == [164 + 188 + 8 + 51, 139 + 106 + 115 + 149]
    # four fifths of each hospital and class: 131 + 111, 150 + 85, 6 + 92, 41 + 119
    assert counts(data.clients) == [242, 235, 98, 160]
    assert counts(data.train.y[data.clients == 2]) == [6, 92]
    assert len(data.clients) == len(data.train.y)
    assert torch.isfinite(data.train.x).all()
    assert "ca 611" in data.notes[-1]


def test_heart_disease_grades_add_up_to_the_diagnosis(load: Load) -> None:
    two, five = load("heart_disease"), load("heart_disease", grades="five")
    assert len(five.classes) == 5
    assert together(five)[0] == together(two)[0]
    assert sum(together(five)[1:]) == together(two)[1]


def test_hapt_has_the_published_windows_of_thirty_people(load: Load) -> None:
    data = load("hapt")
    assert together(data) == [1722, 1544, 1407, 1801, 1979, 1958, 70, 33, 107, 85, 139, 84]
    assert sum(together(data)) == 10929
    assert data.input_shape == (6, 128)
    assert data.train.x.dtype == torch.float32
    assert data.clients is not None
    assert len(data.client_names) == 30
    assert min(counts(data.clients)) > 200
    assert abs(len(data.test.y) / 10929 - 0.2) < 0.01
    assert min(counts(data.test.y)) >= 7


def test_hapt_windows_of_train_and_test_share_no_sample(load: Load) -> None:
    """Half-overlapping windows would share 64 samples: the second half of one is the first half of the next."""
    data = load("hapt")
    train, test = (
        {half.copy().tobytes() for window in part.x.numpy() for half in (window[:, :64], window[:, 64:])}
        for part in (data.train, data.test)
    )
    assert not train & test


def test_hapt_signals_equal_a_plain_recomputation(load: Load, data_root: Path) -> None:
    archive = np.load(data_root / "hapt" / "hapt_labelled.npz")
    signal = np.cumsum(archive["delta"], axis=0, dtype=np.int16) * archive["scale"]
    windows = set()
    end = 0
    for _, _, label, _, length in archive["segments"]:
        for start in range(end, end + length - 127, 64):
            windows.add((signal[start : start + 128].T.astype(np.float32).tobytes(), label - 1))
        end += length
    data = load("hapt")
    for part in (data.train, data.test):
        assert all((x.numpy().tobytes(), y) in windows for x, y in zip(part.x, part.y.tolist(), strict=True))
