"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from counterpoise.metrics.catalogue import find

Show: TypeAlias = Callable[[float], str]


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def plain(value: float) -> str:
    return f"{value:.3g}"


def show_score(name: str) -> Show:
    return percent if find(name).unit == "percent" else plain


def number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def bytes_(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def seconds(time: float) -> str:
    if time < 120:
        return f"{time:.2g} s" if time < 10 else f"{time:.0f} s"
    return f"{time / 60:.1f} min" if time < 7200 else f"{time / 3600:.1f} h"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
