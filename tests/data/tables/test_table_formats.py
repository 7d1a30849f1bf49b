"""The readers of tables and signals on small files in the official formats, whole and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from counterpoise.data.dataset import DATASETS, Dataset
from counterpoise.data.sets import nsl_kdd, unsw_nb15
from counterpoise.errors import DataError


def load(name: str, root: Path, **arguments: Any) -> Dataset:
    return DATASETS.build(name, arguments)(root)


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def unsw(*rows: tuple[str, str], duration: str | None = None) -> str:
    """A CSV with these (proto, class) rows; the duration counts up."""
    lines = ["\ufeff" + unsw_nb15.HEADER]
    for place, (proto, attack) in enumerate(rows):
        fields = dict.fromkeys(unsw_nb15.HEADER.split(","), "0")
        fields |= {
            "dur": duration or str(place),
            "proto": proto,
            "service": "-",
            "state": "FIN",
            "attack_cat": attack,
        }
        lines.append(",".join(fields.values()))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("swapped", [False, True])
def test_with_both_unsw_files_the_larger_one_trains_whatever_its_name(tmp_path: Path, swapped: bool) -> None:
    large = unsw(("tcp", "Normal"), ("udp", "Normal"), ("tcp", "Worms"), ("tcp", "Normal"))
    small = unsw(("arp", "Worms"), ("tcp", "DoS"))
    names = unsw_nb15.FILES[::-1] if swapped else unsw_nb15.FILES
    for name, content in zip(names, (large, small), strict=True):
        write(tmp_path / "unsw_nb15" / name, content)
    data = load("unsw_nb15", tmp_path)
    assert data.classes == ("Normal", "Worms", "DoS")
    assert data.train.y.tolist() == [0, 0, 1, 0]
    assert data.test.y.tolist() == [1, 2]
    assert data.input_shape == (39 + 3 + 1 + 1,)  # arp is in the test file alone
    assert data.train.x[:, 39:42].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]
    duration = np.array([0, 1, 2, 3])
    expected = (duration - 1.5) / duration.std()
    assert np.allclose(data.train.x[:, 0], expected)
    assert data.notes == (f"official split: {names[0]} trains, {names[1]} tests",)


def test_a_single_unsw_file_is_split_by_class(tmp_path: Path) -> None:
    write(
        tmp_path / "unsw_nb15/UNSW_NB15_training-set.csv",
        unsw(*[("tcp", "Normal")] * 10, *[("tcp", "Worms")] * 5),
    )
    data = load("unsw_nb15", tmp_path)
    assert torch.bincount(data.test.y).tolist() == [2, 1]
    assert torch.bincount(data.train.y).tolist() == [8, 4]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("srcip,sport\n1,2\n", "starts with 'srcip,sport'; needs the official header"),
        (
            unsw(("tcp", "Normal")).replace(",Normal,", ",Wurm,"),
            "label 'Wurm' in data row 1; must be one of Normal, Generic",
        ),
        (unsw(("tcp", "Normal"))[:-10], "row 1 has 4[0-9] fields; needs 45"),
        (unsw(("tcp", "Normal"), duration="long"), "could not convert string 'long' to float64"),
        (unsw_nb15.HEADER, "no rows"),
        ("", "starts with ''"),
    ],
)
def test_a_damaged_unsw_file_is_named(tmp_path: Path, content: str, complaint: str) -> None:
    write(tmp_path / "unsw_nb15/UNSW_NB15_training-set.csv", content)
    with pytest.raises(DataError, match=rf"UNSW_NB15_training-set\.csv: {complaint}"):
        load("unsw_nb15", tmp_path)


ADULT_ROW = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States"


def write_adult(root: Path, train: list[str], test: list[str]) -> None:
    write(root / "adult/adult.data", "\n".join(train) + "\n\n")
    write(root / "adult/adult.test", "|1x3 Cross validator\n" + "\n".join(test) + "\n\n")


def test_adult_drops_rows_with_a_gap_and_the_full_stop_of_test_labels(tmp_path: Path) -> None:
    gap = ADULT_ROW.replace("State-gov", "?")
    write_adult(
        tmp_path,
        train=[f"{ADULT_ROW}, <=50K", f"{gap}, <=50K", f"{ADULT_ROW}, >50K"],
        test=[f"{ADULT_ROW}, >50K.", f"{ADULT_ROW.replace('39', '40')}, <=50K."],
    )
    data = load("adult", tmp_path, split="official")
    assert data.train.y.tolist() == [0, 1]
    assert data.test.y.tolist() == [1, 0]
    assert data.notes[0] == "1 rows with missing values dropped, 4 kept"
    assert data.input_shape == (6 + 8,)  # every word takes one value only
    assert data.test.x[:, 0].tolist() == [0, 1]  # a constant training column is only centred


def test_a_wrong_adult_label_names_the_file(tmp_path: Path) -> None:
    write_adult(tmp_path, train=[f"{ADULT_ROW}, <=50K"], test=[f"{ADULT_ROW}, rich."])
    with pytest.raises(
        DataError, match=r"adult\.test: label 'rich' in data row 1; must be one of <=50K, >50K"
    ):
        load("adult", tmp_path)


def test_nsl_kdd_prefers_the_full_training_file(tmp_path: Path) -> None:
    row = ",".join(["0", "tcp", "http", "SF", *["1"] * 37])
    write(tmp_path / "nsl_kdd/KDDTest+.txt", f"{row},mscan,3\n{row},neptune,3\n")
    write(tmp_path / "nsl_kdd/KDDTrain+_20Percent.txt", f"{row},normal,3\n")
    assert load("nsl_kdd", tmp_path).train.y.tolist() == [0]
    write(tmp_path / "nsl_kdd/KDDTrain+.txt", f"{row},normal,3\n{row},neptune,20\n{row},neptune,21\n")
    assert load("nsl_kdd", tmp_path).train.y.tolist() == [0, 1, 1]
    assert load("nsl_kdd", tmp_path).test.y.tolist() == [2, 1]
    fine = load("nsl_kdd", tmp_path, labels="fine")
    assert fine.classes == ("neptune", "normal")
    assert fine.test.y.tolist() == [0]
    assert len(nsl_kdd.COARSE) == 40


def test_an_unknown_attack_names_the_file(tmp_path: Path) -> None:
    row = ",".join(["0", "tcp", "http", "SF", *["1"] * 37])
    write(tmp_path / "nsl_kdd/KDDTrain+.txt", f"{row},normal,3\n")
    write(tmp_path / "nsl_kdd/KDDTest+.txt", f"{row},surprise,3\n")
    with pytest.raises(DataError, match=r"KDDTest\+\.txt: label 'surprise' in data row 1"):
        load("nsl_kdd", tmp_path)


def test_heart_gaps_take_the_training_median_and_an_indicator(tmp_path: Path) -> None:
    hospitals = ("cleveland", "hungarian", "switzerland", "va")
    for place, hospital in enumerate(hospitals):
        rows = [
            f"{50 + k},1,4,{'?' if k == 0 else 120},200,0,0,150,0,1,?,0,{'3.0' if k else '?'},{k % 2}"
            for k in range(10)
        ]
        write(tmp_path / f"heart_disease/processed.{hospital}.data", "\n".join(rows[: 10 - place]))
    data = load("heart_disease", tmp_path)
    assert data.clients is not None
    assert torch.bincount(data.clients).tolist() == [8, 7, 6, 5]
    # 9 numbers, 1 indicator, one-hot cp (1), restecg (1), slope (missing only), thal (3, missing)
    assert data.input_shape == (9 + 1 + 1 + 1 + 1 + 2,)
    x = torch.cat([data.train.x, data.test.x])
    assert x[:, 9].sum() == 4
    assert torch.all(x[:, 2] == 0)  # the median equals every known value, so nothing is left after centring


def test_a_wrong_diagnosis_names_the_hospitals_file(tmp_path: Path) -> None:
    for hospital in ("cleveland", "hungarian", "switzerland", "va"):
        write(
            tmp_path / f"heart_disease/processed.{hospital}.data",
            "63,1,1,145,233,1,2,150,0,2.3,3,0,6,0\n" * 5,
        )
    write(tmp_path / "heart_disease/processed.va.data", "63,1,1,145,233,1,2,150,0,2.3,3,0,6,5\n")
    with pytest.raises(
        DataError, match=r"processed\.va\.data: label '5' in data row 1; must be one of 0, 1, 2, 3, 4"
    ):
        load("heart_disease", tmp_path)


def write_hapt(root: Path, packed: bool) -> None:
    """Two people, an experiment each: standing for 256 samples, then walking for 640."""
    rng = np.random.default_rng(0)
    raw = {person: rng.integers(-500, 500, (1000, 6)) for person in (1, 2)}
    segments = [(person, 5, 11, 256) for person in (1, 2)] + [(person, 1, 300, 640) for person in (1, 2)]
    if packed:
        signal = np.concatenate([raw[p][first - 1 : first - 1 + n] for p, _, first, n in segments])
        delta = np.diff(signal, axis=0, prepend=0).astype(np.int16)
        rows = np.array([(p, p, label, first, n) for p, label, first, n in segments], np.int32)
        (root / "hapt").mkdir()
        np.savez(root / "hapt/hapt_labelled.npz", delta=delta, scale=np.full(6, 0.5), segments=rows)
        return
    lines = [f"{p} {p} {label} {first} {first + n - 1}" for p, label, first, n in segments]
    write(root / "hapt/RawData/labels.txt", "\n".join(lines))
    for person, values in raw.items():
        for kind, axes in (("acc", values[:, :3]), ("gyro", values[:, 3:])):
            text = "\n".join(" ".join(f"{v * 0.5:.16e}" for v in row) for row in axes.tolist())
            write(root / f"hapt/RawData/{kind}_exp{person:02}_user{person:02}.txt", text)


def test_hapt_packed_and_official_files_give_the_same_windows(tmp_path: Path) -> None:
    for name, packed in (("packed", True), ("official", False)):
        (tmp_path / name).mkdir()
        write_hapt(tmp_path / name, packed)
    packed_set, official = load("hapt", tmp_path / "packed"), load("hapt", tmp_path / "official")
    assert torch.equal(packed_set.train.x, official.train.x)
    assert torch.equal(packed_set.train.y, official.train.y)
    # windows a person: (256 - 128) / 64 + 1 = 3 of standing, 9 of walking; two segments a class are too few to test
    assert torch.bincount(official.train.y).tolist() == [18, 0, 0, 0, 6]
    assert official.clients is not None
    assert torch.bincount(official.clients).tolist() == [12, 12]
    assert len(official.files) == 5


def test_damaged_hapt_files_are_named(tmp_path: Path) -> None:
    write_hapt(tmp_path, packed=False)
    write(tmp_path / "hapt/RawData/gyro_exp01_user01.txt", "1 2\n")
    with pytest.raises(DataError, match=r"gyro_exp01_user01\.txt: 2 columns; needs 3"):
        load("hapt", tmp_path)
    write(tmp_path / "hapt/RawData/labels.txt", "1 1 13 1 200")
    with pytest.raises(DataError, match=r"labels\.txt: label 13 in row \d+; must be 1 to 12"):
        load("hapt", tmp_path)
    write(tmp_path / "hapt/RawData/labels.txt", "2 2 1 900 1001")
    with pytest.raises(DataError, match=r"labels\.txt: row 1 goes beyond the end"):
        load("hapt", tmp_path)
    np.savez(
        tmp_path / "hapt/hapt_labelled.npz",
        delta=np.zeros((9, 6), np.int16),
        scale=np.ones(6),
        segments=np.ones((2, 5)),
    )
    with pytest.raises(DataError, match=r"hapt_labelled\.npz: segments \(2, 5\) for 9 samples"):
        load("hapt", tmp_path)
