"""HTML as values, and numbers as text: whatever is not markup already is escaped, so that no name from a file can become a tag."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from counterpoise.errors import few_digits

VOID = {"meta", "br", "wbr"}
Show: TypeAlias = Callable[[float], str]


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: str | int | bool | None) -> Html:
    """A tag; ``class_`` is written ``class``, ``aria_sort`` is written ``aria-sort``, None and False are left out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(children)}</{tag}>")


def join(pieces: Iterable[str]) -> Html:
    return Html("".join(piece if isinstance(piece, Html) else html.escape(piece) for piece in pieces))


def breakable(text: str) -> Html:
    """A name with line breaks allowed between its words."""
    return Html(re.sub(r"(?<=[+_/(,])(?=\w)", "<wbr>", html.escape(text)))


def table(
    caption: str, head: Iterable[str], rows: Iterable[Iterable[str]], **attributes: str | int | bool | None
) -> Html:
    """A table in a scrolling frame; the first cell of a row is its header, unless cells are given as markup."""
    titles = join(cell if _is(cell, "th") else element("th", cell, scope="col") for cell in head)
    body = join(element("tr", join(_cells(row))) for row in rows)
    whole = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", titles)),
        element("tbody", body),
        **attributes,
    )
    return element("div", whole, class_="scroll", role="region", tabindex=0, aria_label=caption)


def number_cell(value: float | None, show: Show) -> Html:
    """A number as it is shown, and as it is sorted by; one that is not known comes after all others."""
    if value is None:
        return element("td", "–", data_value="")
    return element("td", show(value), data_value=repr(float(value)))


def data_block(name: str, value: Any) -> Html:
    """JSON for the page's script, escaped so that nothing in it can end the block."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Html(f'<script type="application/json" id="{name}">{_harmless(text)}</script>')


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def bytes_(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{few_digits(size)} {unit}"
        size /= 1000
    return f"{few_digits(size)} TB"


def seconds(time: float) -> str:
    if time < 120:
        return f"{time:.2g} s" if time < 10 else f"{time:.0f} s"
    return f"{time / 60:.1f} min" if time < 7200 else f"{time / 3600:.1f} h"


def _harmless(text: str) -> str:
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _cells(row: Iterable[str]) -> Iterable[Html]:
    first, *rest = row
    yield element("th", first if isinstance(first, Html) else breakable(first), scope="row")
    for cell in rest:
        yield Html(cell) if _is(cell, "td") else element("td", cell)


def _is(cell: str, name: str) -> bool:
    return isinstance(cell, Html) and cell.startswith(f"<{name}")


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
