"""HTML as values: whatever is not markup already is escaped, so that no name from a file can become a tag."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any

VOID = {"meta", "br", "wbr"}


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
    """A name that may go over to the next line between its words."""
    return Html(re.sub(r"(?<=[+_/(,])(?=\w)", "<wbr>", html.escape(text)))


def table(
    caption: str, head: Iterable[str], rows: Iterable[Iterable[str]], **attributes: str | int | bool | None
) -> Html:
    """A table in a frame that scrolls by itself; the first cell of a row names it, where cells are not made already."""
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


def data_block(name: str, value: Any) -> Html:
    """JSON for the page's script; no character of it can end the block."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Html(f'<script type="application/json" id="{name}">{_harmless(text)}</script>')


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
