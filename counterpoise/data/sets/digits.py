"""Digits of scikit-learn, which need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import Dataset, Loader, Scaling, dataset
from counterpoise.data.sets.assemble import to_samples
from counterpoise.data.split import stratified_split

MEAN, DEVIATION = 4.8842, 6.0168  # of the raw values, which run from 0 to 16


@dataset("digits", paper="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998")
def digits() -> Loader:
    """1,797 grey 8x8 digits in 10 classes, shipped with scikit-learn; a fixed stratified fifth is the test set."""
    return _load


def _load(root: Path | None) -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x, y = bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64)
    split = stratified_split(y, 0.2, numpy_generator(0, "digits-test"))
    return Dataset(
        "digits",
        train=to_samples(x[split.train], y[split.train]),
        test=to_samples(x[split.test], y[split.test]),
        classes=tuple(str(digit) for digit in range(10)),
        scaling=Scaling(torch.tensor(1 / DEVIATION), torch.tensor(-MEAN / DEVIATION)),
        notes=("no official split: 80/20, stratified by class, the same in every run",),
    )
