"""Checks of the rows of a run's logs: an unfinished run has no seal that readers could check."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.core.rounds import counted
from counterpoise.errors import DataError
from counterpoise.metrics.catalogue import headline

LARGEST = 2**53  # largest whole number up to which floats are exact
MOST = sys.float_info.max

# Faster than the validator of settings: logs have millions of values, and each is either right or damaged.
Check = Callable[[Any], bool]
Form = Mapping[str, "Check | Form"]  # key -> what its value must be; a form: each of a list of tables


def is_whole(value: Any) -> bool:
    return type(value) is int


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and -MOST <= value <= MOST


def is_number_or_none(value: Any) -> bool:
    return value is None or is_number(value)


SPENT: Form = {"round": is_count, "seconds": lambda value: is_number(value) and value >= 0}
REJECTED: Form = {"client": is_whole, "reason": lambda value: isinstance(value, str)}
CLIPPED: Form = {
    "client": is_whole,
    "norm": is_number,
    "bound": lambda value: is_number(value) and value > 0,
}
ROUND: Form = {
    "round": is_count,
    "lr": is_number,
    "asked": is_count,
    "tasks": is_count,
    "replied": is_count,
    "rejected": REJECTED,
    "loss": is_number_or_none,
    "bytes_down": is_count,
    "bytes_up": is_count,
    "skipped": lambda value: isinstance(value, bool),
}


def check_rounds(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Refuse damaged rows of metrics.jsonl; of the scores only those that are shown of unfinished runs are checked."""
    _check(ROUND, {"clipped": CLIPPED, **dict.fromkeys(headline(), is_number_or_none)}, rows, path)


def check_times(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Refuse damaged rows of timing.jsonl."""
    _check(SPENT, {}, rows, path)


def _check(needed: Form, further: Form, rows: Sequence[dict[str, Any]], path: Path) -> None:
    for number, row in enumerate(rows):
        if (key := next(_damaged(row, needed, further), None)) is not None:
            where = f" at {key}" if key else ""
            raise DataError(f"{path}, row {number + 1}: damaged{where}, not a row of this log")
    for number, row in enumerate(rows):
        if row["round"] != number:
            raise DataError(f"{path}, row {number + 1}: damaged, it has round {counted(row['round'])}")


def _damaged(row: Any, needed: Form, further: Form) -> Iterator[str]:
    """Keys of a row that are missing or have a wrong value; further keys are allowed."""
    if not isinstance(row, dict):
        yield ""
        return
    for key, form in (*needed.items(), *((key, form) for key, form in further.items() if key in row)):
        if not isinstance(form, Mapping):
            if key not in row or not form(row[key]):
                yield key
        elif not isinstance(listed := row.get(key), list):
            yield key
        else:
            for place, one in enumerate(listed):
                yield from (f"{key}.{place}.{inner}".rstrip(".") for inner in _damaged(one, form, {}))
