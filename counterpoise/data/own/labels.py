"""Labels of arrays: whole numbers from 0 on, or words that name the classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.data.faults import as_fault, fault
from counterpoise.data.own.forms import WORDS, ArrayHeader, check_label_form
from counterpoise.data.own.npy import AnyArray
from counterpoise.data.tables.cells import NAMELESS, in_order
from counterpoise.data.types import Rows
from counterpoise.errors import legal_words, short


class Named(NamedTuple):
    """Labels of one or more arrays as indices into the classes."""

    classes: tuple[str, ...]
    codes: list[Rows]


def are_words(labels: ArrayHeader) -> bool:
    return labels.dtype.kind in WORDS


def checked_labels(
    source: Path | str, name: str, y: AnyArray, samples: int, classes: tuple[str, ...] | None
) -> Rows:
    """One whole number per sample, each the index of a class."""
    check_label_form(source, name, y, samples)
    highest = np.iinfo(np.int64).max if classes is None else len(classes) - 1
    wrong = (y < 0) | (y > highest)
    if wrong.any():
        row = int(wrong.argmax())
        raise fault(source, f"{name} holds {y[row]}; must be 0 to {highest}", row + 1)
    return y.astype(np.int64)


def checked_words(source: Path | str, name: str, y: AnyArray) -> list[str]:
    """One word per sample, none of them missing."""
    with as_fault(source, f"{name} cannot be read"):
        words: list[str] = np.char.strip(y.astype(np.str_)).tolist()
    for row, word in enumerate(words, start=1):
        if word.lower() in NAMELESS:
            raise fault(source, f"{name} is missing", row)
    return words


def named_labels(
    source: Path | str, labels: Sequence[tuple[str, AnyArray]], classes: tuple[str, ...] | None
) -> Named:
    """Words as indices into the given classes, else into the sorted words of the first array, the training samples."""
    for name, y in labels:
        if not are_words(y):
            raise fault(source, f"{name} holds {y.dtype}, {labels[0][0]} words; both must be the same")
    words = [checked_words(source, name, y) for name, y in labels]
    known = in_order(set(words[0])) if classes is None else classes
    places = {word: place for place, word in enumerate(known)}
    for (name, _), column in zip(labels, words, strict=True):
        for row, word in enumerate(column, start=1):
            if word not in places:
                raise fault(source, f"{name} holds {short(word)}; {legal_words(word, known)}", row)
    return Named(known, [np.array([places[word] for word in column], dtype=np.int64) for column in words])
