"""What a run warns of before its first round."""

from __future__ import annotations

import logging

import torch

from counterpoise.core.method import Method
from counterpoise.data.federation import Federation
from counterpoise.errors import listed

FEWEST_TESTS = 5  # samples of a class below which its recall moves in steps of a quarter or more
RARE = 10.0  # largest over smallest class from which on few clients may hold a class


def warn_of_lost_tail(method: Method, federation: Federation) -> None:
    """A rule that leaves out or shortens what few clients send may cost a rare class."""
    rules = [part.name for part in method.parts if part.curbs_outliers]
    counts = federation.class_counts() if rules else None  # of a million clients this takes time
    if counts is None:
        return
    held = counts[counts > 0]
    if len(held) and float(held.max() / held.min()) >= RARE:
        logging.getLogger("counterpoise").warning(
            "%s leaves out or shortens what few clients send, and the largest class has %.0f times the samples of the smallest: compare the recall of tail classes with and without it",
            " and ".join(rules),
            float(held.max() / held.min()),
        )


def note_of_few_tests(federation: Federation) -> str:
    """The classes whose recall rests on very few test samples; empty where there are none, or no test set."""
    y = federation.test.y
    counts = torch.bincount(y.cpu(), minlength=len(federation.classes)).tolist() if len(y) else []
    few = [
        f"{name} ({count})"
        for name, count in zip(federation.classes, counts, strict=False)
        if count < FEWEST_TESTS
    ]
    return f"fewer than {FEWEST_TESTS} test samples of class: {listed(few)}" if few else ""
