"""Rows of a run's logs, checked: a reader of a run that is not finished has no seal to trust."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from counterpoise.errors import DataError
from counterpoise.metrics.catalogue import headline

LARGEST = 2**53  # of the whole numbers that a float holds

Count = Annotated[int, Field(ge=0, le=LARGEST)]


class Row(BaseModel):
    """A row of a log; it may have more keys."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    round: Count


class Spent(Row):
    """A row of timing.jsonl."""

    seconds: Annotated[float, Field(ge=0)]


class Rejected(BaseModel):
    """A reply that was not used."""

    client: int
    reason: str


class Clipped(BaseModel):
    """An update that was shortened."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    client: int
    norm: float
    bound: Annotated[float, Field(gt=0)]


class Round(Row):
    """What a row of metrics.jsonl has, whether the model was scored or not."""

    lr: float
    asked: Count
    tasks: Count
    replied: Count
    rejected: list[Rejected]
    clipped: list[Clipped] = []
    loss: float | None
    bytes_down: Count
    bytes_up: Count
    skipped: bool


TIMES = TypeAdapter(list[Spent])


def check_rounds(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Refuse rows of metrics.jsonl that no run writes."""
    _check(_rounds(headline()), rows, path)


def check_times(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Refuse rows of timing.jsonl that no run writes."""
    _check(TIMES, rows, path)


@functools.cache
def _rounds(scores: tuple[str, ...]) -> TypeAdapter[Any]:
    """Rounds with, of the scores, those that readers show of a run at work."""
    form = create_model("Scored", __base__=Round, **dict.fromkeys(scores, (float | None, None)))  # type: ignore[call-overload]
    return TypeAdapter(list[form])


def _check(form: TypeAdapter[Any], rows: Sequence[dict[str, Any]], path: Path) -> None:
    try:
        form.validate_python(rows)
    except ValidationError as error:
        number, *key = error.errors()[0]["loc"]
        where = f" at {'.'.join(map(str, key))}" if key else ""
        raise DataError(f"{path}, row {int(number) + 1}: damaged{where}, not a row of this log") from None
    for number, row in enumerate(rows):
        if row["round"] != number:
            raise DataError(f"{path}, row {number + 1}: damaged, it is of round {row['round'] + 1}")
