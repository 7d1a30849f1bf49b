"""HAPT: a phone's accelerometer and gyroscope on 30 people, each a natural client."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import Dataset, Loader, Scaling, dataset
from counterpoise.data.root import find_file, look_for, read_npz
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.data.split import TrainTest
from counterpoise.data.tables.delimited import read_lines
from counterpoise.data.types import Rows
from counterpoise.errors import DataError

WINDOW, STEP = 128, 64
ACTIVITIES = (
    "WALKING WALKING_UPSTAIRS WALKING_DOWNSTAIRS SITTING STANDING LAYING "
    "STAND_TO_SIT SIT_TO_STAND SIT_TO_LIE LIE_TO_SIT STAND_TO_LIE LIE_TO_STAND"
)
CLASSES = tuple(ACTIVITIES.split())
SPLIT_NOTE = (
    "of each activity's segments, ordered by person, every fifth goes to the test set with all its windows, "
    "so that overlapping windows stay on one side; the same in every run"
)


class Recording(NamedTuple):
    """Labelled segments of the signal, one after the other."""

    signal: NDArray[np.float64]  # [samples, 6]
    person: Rows  # [segments]
    label: Rows  # [segments] from 0
    length: Rows  # [segments]


@dataset("hapt", paper="Reyes-Ortiz et al., Transition-Aware Human Activity Recognition, Neurocomputing 2016")
def hapt() -> Loader:
    """10,929 windows [6, 128] of 30 people, the natural clients, in 12 classes (6 activities, 6 rare transitions).

    Windows of 2.56 s with half overlap inside each labelled segment; a fifth of the segments of each class tests.
    """
    return _load


def _load(root: Path | None) -> Dataset:
    recording, paths = _read(root)
    starts, segment = window_starts(recording.length)
    x = recording.signal[starts[:, None] + np.arange(WINDOW)].transpose(0, 2, 1).astype(np.float32)
    y = recording.label[segment]
    people, client = np.unique(recording.person[segment], return_inverse=True)
    split = _split(recording, segment)
    return Dataset(
        "hapt",
        train=to_samples(x[split.train], y[split.train]),
        test=to_samples(x[split.test], y[split.test]),
        classes=CLASSES,
        scaling=_axis_scaling(x[split.train]),
        clients=torch.tensor(client[split.train]),
        client_names=tuple(f"person {number}" for number in people),
        files=checksums(paths),
        notes=(SPLIT_NOTE,),
    )


def window_starts(length: Rows) -> tuple[Rows, Rows]:
    """First sample of each window, and the segment it lies in; a segment shorter than a window gives none."""
    count = np.maximum((length - WINDOW) // STEP + 1, 0)
    segment = np.repeat(np.arange(len(length)), count)
    place_in_segment = np.arange(len(segment)) - np.repeat(np.cumsum(count) - count, count)
    return (np.cumsum(length) - length)[segment] + STEP * place_in_segment, segment


def _split(recording: Recording, segment: Rows) -> TrainTest:
    """Every fifth segment that holds a window, activity by activity, so that each person and class is split alike."""
    used = np.unique(segment)
    tie = numpy_generator(0, "hapt-test").random(len(used))
    used = used[np.lexsort((tie, recording.person[used], recording.label[used]))]
    label = recording.label[used]
    place_in_class = np.arange(len(used)) - np.searchsorted(label, label)
    in_test = np.isin(segment, used[place_in_class % 5 == 2])
    return TrainTest(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def _axis_scaling(x: NDArray[np.float32]) -> Scaling:
    mean, deviation = x.mean(axis=(0, 2), dtype=np.float64), x.std(axis=(0, 2), dtype=np.float64)
    scale, shift = 1 / deviation, -mean / deviation
    return Scaling(
        torch.tensor(scale[:, None], dtype=torch.float32), torch.tensor(shift[:, None], dtype=torch.float32)
    )


def _read(root: Path | None) -> tuple[Recording, list[Path]]:
    packed = look_for(root, "hapt", "hapt_labelled.npz")
    if packed is not None:
        return _read_packed(packed), [packed]
    return _read_official(find_file(root, "hapt", "RawData/labels.txt", "hapt_labelled.npz"))


def _read_packed(path: Path) -> Recording:
    """Differences of the signals in units of `scale`, and rows (person, experiment, label, first sample, length)."""
    arrays = read_npz(path, "delta", "scale", "segments")
    segments = arrays["segments"].astype(np.int64)
    signal = np.cumsum(arrays["delta"], axis=0, dtype=np.int16) * arrays["scale"]
    if segments.ndim != 2 or segments.shape[1] != 5 or segments[:, 4].sum() != len(signal):
        raise DataError(
            f"{path}: segments {segments.shape} for {len(signal)} samples; needs 5 columns whose last adds up to them"
        )
    check_labels(path, segments[:, 2], len(CLASSES), first=1)
    return Recording(signal, segments[:, 0], segments[:, 2] - 1, segments[:, 4])


def _read_official(labels: Path) -> tuple[Recording, list[Path]]:
    """labels.txt has rows (experiment, person, label, first, last sample, counted from 1)."""
    rows = _numbers(labels, 5).astype(np.int64)
    check_labels(labels, rows[:, 2], len(CLASSES), first=1)
    signals: dict[tuple[int, int], NDArray[np.float64]] = {}
    paths = [labels]
    for experiment, person in dict.fromkeys(map(tuple, rows[:, :2].tolist())):
        files = [labels.parent / f"{kind}_exp{experiment:02}_user{person:02}.txt" for kind in ("acc", "gyro")]
        signals[experiment, person] = np.hstack([_numbers(file, 3) for file in files])
        paths += files
    pieces = [signals[e, p][first - 1 : last] for e, p, _, first, last in rows.tolist()]
    length = rows[:, 4] - rows[:, 3] + 1
    wrong = [place for place, piece in enumerate(pieces, start=1) if len(piece) != length[place - 1]]
    if wrong:
        raise DataError(f"{labels}: row {wrong[0]} goes beyond the end of its recording")
    return Recording(np.concatenate(pieces), rows[:, 1], rows[:, 2] - 1, length), paths


def _numbers(path: Path, width: int) -> NDArray[np.float64]:
    try:
        table = np.loadtxt(read_lines(path), ndmin=2)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    if table.shape[1] != width:
        raise DataError(f"{path}: {table.shape[1]} columns; needs {width}")
    return table
