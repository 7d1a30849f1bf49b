"""From data as its user has it to inputs of a trained model, as it was done in training: kept with the run as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.data import check
from counterpoise.data.dataset import are_labels
from counterpoise.data.federation import Federation
from counterpoise.data.form import DataForm, form_from_json
from counterpoise.data.tables.cells import NAMELESS, Table, words_of
from counterpoise.data.tables.encoder import OTHER_WORD
from counterpoise.data.tables.frame import NEEDED, frame_table, is_rows
from counterpoise.errors import DataError, legal_words, listed, short

SCHEMA = 1
KEYS = {"schema", "form", "labels", "resized"}
UNKNOWN = -1  # in place of a class, where a row has no label


class Preprocessing(NamedTuple):
    """The form that a model takes, and which class a label in the data means."""

    form: DataForm
    labels: Mapping[str, int]
    resized: bool = False  # images of any size are brought to the model's

    def inputs(self, given: Any) -> Tensor:
        """Inputs [n, ...], not yet scaled, of arrays, or of rows of a frame; a table's columns are known by their names."""
        if is_rows(given):
            return self.encode(self.table(given))
        if self.form.columns is not None:
            names = [*self.form.columns.numbers, *self.form.columns.words]
            raise DataError(
                f"x is {type(given).__name__}; the model takes {NEEDED}, with the columns {listed(names)}"
            )
        return self.fitting("x", check.as_tensor("x", given))

    def table(self, given: Any) -> Table:
        """Rows of a frame as a table; a model that takes no columns refuses them."""
        return frame_table(given, self._encoder_of("rows of a frame").words)

    def encode(self, table: Table) -> Tensor:
        """Inputs of a table's rows; further columns are left out, in whatever order they are."""
        return torch.from_numpy(self._encoder_of(f"{table.path}, a table").transform(table).x)

    def fitting(self, where: str, x: Tensor) -> Tensor:
        """The inputs, if they have the shape and kind of those in training."""
        x = self._with_channel(x)
        if tuple(x.shape[1:]) != self.form.shape:
            raise DataError(
                f"{where} has shape {list(x.shape)}; the model takes [n, {', '.join(map(str, self.form.shape))}]"
            )
        if self.form.pixels:
            return _pixels(where, x)
        if x.is_complex() or x.dtype == torch.bool:
            raise DataError(f"{where} holds {_kind(x)}; the model takes numbers")
        if self.form.scaling.whole:
            return _whole(where, x)
        numbers = x if x.is_floating_point() else x.float()
        check.finite(where, numbers)
        return numbers

    def codes(self, words: Sequence[str], where: str, rows: Sequence[int] | None = None) -> Tensor:
        """[n] the class of each label, UNKNOWN where there is none; a label that is no class is refused."""
        known = {name: place for place, name in enumerate(self.form.classes)} | dict(self.labels)
        found = [
            UNKNOWN if word.lower() in NAMELESS and word not in known else known.get(word) for word in words
        ]
        for place, code in enumerate(found):
            if code is None:
                row = place + 1 if rows is None else rows[place]
                legal = legal_words(words[place], known)
                raise DataError(f"{where}: row {row}: the label {short(words[place])} is no class; {legal}")
        return torch.tensor(found, dtype=torch.int64)

    def unseen(self, table: Table) -> list[str]:
        """A note on each column with words that no training row held."""
        words = {} if self.form.columns is None else self.form.columns.words
        return [note for name, kinds in words.items() if (note := _unseen(table, name, kinds))]

    def to_json(self) -> dict[str, Any]:
        labels = dict(self.labels)
        return {"schema": SCHEMA, "form": self.form.to_json(), "labels": labels, "resized": self.resized}

    def _encoder_of(self, given: str) -> Any:
        if self.form.columns is None:
            kind = "pixels" if self.form.pixels else "numbers"
            raise DataError(f"the model takes {kind} of shape {list(self.form.shape)}, not {given}")
        return self.form.columns

    def _with_channel(self, x: Tensor) -> Tensor:
        """Grey images without a channel, and channels that come last, as in training."""
        shape = self.form.shape
        if len(shape) == 3 and shape[0] == 1 and tuple(x.shape[1:]) == shape[1:]:
            return x[:, None]
        last = (*shape[1:], shape[0])
        if len(shape) == 3 and tuple(x.shape[1:]) == last != shape:
            return x.permute(0, 3, 1, 2).contiguous()
        return x


def preprocessing_of(federation: Federation) -> Preprocessing:
    """What was done to the data of a federation before a model saw it."""
    source, classes = federation.source, federation.classes
    pixels = federation.train.x.dtype == torch.uint8
    scaling = federation.scaling.to(torch.device("cpu"), torch.float32)
    form = DataForm(classes, federation.input_shape, pixels, scaling, source.label, source.columns)
    by_place = {str(place): place for place in range(len(classes))}
    by_name = {name: place for place, name in enumerate(classes)}
    known = source.labels if source.labels is not None else by_name if source.columns else by_place
    return Preprocessing(form, known, source.resized)


def preprocessing_from_json(found: Any, whose: str) -> Preprocessing:
    """The preprocessing of untrusted JSON; a DataError that begins with `whose` where it is none."""

    def bad(words: str) -> DataError:
        return DataError(f"{whose} {words}; is it of another version?")

    if not isinstance(found, dict) or set(found) != KEYS or found["schema"] != SCHEMA:
        raise bad(f"has other parts; needs {', '.join(sorted(KEYS))}")
    form, labels = form_from_json(found["form"], bad), found["labels"]
    if not are_labels(labels, len(form.classes)) or not isinstance(found["resized"], bool):
        raise bad("does not say which class a label means")
    return Preprocessing(form, labels, found["resized"])


def _whole(where: str, x: Tensor) -> Tensor:
    if not check.is_whole(x):
        raise DataError(f"{where} holds {_kind(x)}; the model takes whole numbers, as it was trained")
    return x.long()


def _pixels(where: str, x: Tensor) -> Tensor:
    """Pixels as bytes: shares of one would be scaled a second time, without a word."""
    if x.dtype == torch.uint8:
        return x
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise DataError(
            f"{where} holds {_kind(x)}; the model takes pixels as whole numbers from 0 to 255, as it was trained"
        )
    if x.numel() and not (int(x.min()) >= 0 and int(x.max()) <= np.iinfo(np.uint8).max):
        raise DataError(
            f"{where} holds {int(x.min())} to {int(x.max())}; the model takes pixels from 0 to 255"
        )
    return x.to(torch.uint8)


def _kind(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _unseen(table: Table, name: str, kinds: Sequence[str]) -> str:
    strange = [word for word in words_of(table, name) if word not in kinds]
    if not strange:
        return ""
    become = "count as other words" if OTHER_WORD in kinds else "count as none of its words"
    return f"column {name!r}: {len(strange):,} of {len(table.rows):,} cells hold words that training did not have and {become}: {listed(sorted(set(strange)))}"
