"""The summary holds every score under its name and survives JSON."""

from __future__ import annotations

import json

import pytest
import torch

from counterpoise.metrics import Shots
from counterpoise.metrics.scoring import summarise

SHOTS = Shots(head=(0,), medium=(1,), tail=(2, 3))


def test_summary_by_hand() -> None:
    counts = torch.tensor([[6, 2, 0, 0], [1, 3, 0, 0], [2, 0, 2, 0], [0, 0, 0, 0]])
    summary = summarise(counts, SHOTS, ("cat", "dog", "eel", "fox"))
    assert summary == {
        "accuracy": 11 / 16,
        "balanced_accuracy": pytest.approx(2 / 3),
        "macro_f1": pytest.approx((12 / 17 + 2 / 3 + 2 / 3) / 3),
        "weighted_f1": pytest.approx((8 * 12 / 17 + 8 * 2 / 3) / 16),
        "g_mean": pytest.approx((0.75 * 0.75 * 0.5) ** (1 / 3)),
        "per_class_recall": [0.75, 0.75, 0.5, None],
        "per_class_precision": [6 / 9, 3 / 5, 1.0, None],
        "per_class_f1": [12 / 17, 6 / 9, 4 / 6, None],
        "head": 0.75,
        "medium": 0.75,
        "tail": 0.5,
        "worst_class": "eel",
        "worst_class_recall": 0.5,
        "supported_classes": 3,
    }
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_summary_of_nothing_is_null_throughout() -> None:
    summary = summarise(torch.zeros(4, 4), SHOTS, ("cat", "dog", "eel", "fox"))
    assert summary.pop("supported_classes") == 0
    assert all(value in (None, [None] * 4) for value in summary.values())
    assert summary["worst_class"] is None
