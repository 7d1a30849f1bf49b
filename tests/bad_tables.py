"""Tables that are wrong, or only look so: what each holds and what is said of it."""

from __future__ import annotations

import gzip
from pathlib import Path

from counterpoise.data.dataset import Dataset
from counterpoise.data.own import read_table

GOOD = ["a,b,label", *(f"{row},{row % 3}.5,{'pq'[row % 2]}" for row in range(10))]
PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def table(*rows: str, end: str = "\n") -> bytes:
    return (end.join(rows) + end).encode()


def good_but(row: int, text: str) -> bytes:
    """The good table with one row (the header is row 1) replaced."""
    return table(*GOOD[: row - 1], text, *GOOD[row:])


# name -> content, and a part of the error; None where the table is to be read
CONTENTS: dict[str, tuple[bytes, str | None]] = {
    "byte order mark": (b"\xef\xbb\xbf" + table(*GOOD), None),
    "crlf": (table(*GOOD, end="\r\n"), None),
    "lone carriage returns": (table(*GOOD, end="\r"), None),
    "no last line end": (table(*GOOD)[:-1], None),
    "blank lines": (table(*GOOD[:4], "", "  ", *GOOD[4:], ""), None),
    "latin-1": (
        table(*GOOD)
        .replace(b"label", b"label,st\xe4dt")
        .replace(b"p\n", b"p,x\n")
        .replace(b"q\n", b"q,\xfc\n"),
        None,
    ),
    "nan and gaps": (good_but(3, "nan,,p"), None),
    "number labels": (table("a,label", *(f"{row},{row % 2 - 0.5}" for row in range(10))), None),
    "column of gaps": (table("a,b,label", *(f"{row},?,{'pq'[row % 2]}" for row in range(10))), None),
    "gaps in two spellings": (
        table("a,b,label", *(f"{row},{'NA' if row % 3 else ''},{'pq'[row % 2]}" for row in range(10))),
        None,
    ),
    "largest numbers": (
        table("a,label", *(f"{3e38 * (-1) ** (row // 2)},{'pq'[row % 2]}" for row in range(10))),
        None,
    ),
    "smallest numbers": (table("a,label", *(f"{row}e-320,{'pq'[row % 2]}" for row in range(10))), None),
    "one outlier": (
        table("a,label", *(f"{'1e38' if row == 4 else row},{'pq'[row % 2]}" for row in range(10))),
        None,
    ),
    "injection": (good_but(3, '1,2,"=cmd|x"'), None),
    "quoted line end": (good_but(3, '1,2,"p\nx"'), None),
    "empty": (b"", "is empty"),
    "header only": (table(GOOD[0]), "no rows below the header"),
    "blank lines only": (b"\n\n\n", "columns"),
    "short row": (good_but(4, "2,p"), "row 4: has 2 cells; needs 3"),
    "long row": (good_but(5, "2,2,p,9"), "row 5: has 4 cells; needs 3"),
    "short row after blank lines": (table(*GOOD[:3], "", "", "7,p", *GOOD[3:]), "row 6: has 2 cells"),
    "unclosed quote": (good_but(4, '"2,2.5,p'), "row 4: a quote is never closed"),
    "text after a quote": (good_but(4, '"2"x,2.5,p'), "row 4"),
    "endless cell": (good_but(4, "2," + "x" * 200_000 + ",p"), "row 4: field larger"),
    "utf-16": ("\n".join(GOOD).encode("utf-16"), "UTF-16"),
    "zero byte": (good_but(4, "2,\0,p"), "line 4 holds a zero byte"),
    "an image": (PNG_START + bytes(100), "row 1: the header has 1 columns"),
    "duplicate columns": (
        table("a,a,label", *GOOD[1:]),
        "row 1: two columns are named 'a'; this row must give their names",
    ),
    "nameless column": (table("a,,label", *GOOD[1:]), "row 1: column 2 has no name"),
    "index of rows": (
        table(",a,label", *(f"{7 * row},{row % 4},{'pq'[row % 2]}" for row in range(10))),
        None,
    ),
    "index of words": (
        table(",a,label", *(f"r{row},{row % 4},{'pq'[row % 2]}" for row in range(10))),
        "row 1: column 1 has no name and does not number the rows; name it, or write the file without an index",
    ),
    "index that repeats": (
        table(",a,label", *(f"{row // 2},{row % 4},{'pq'[row % 2]}" for row in range(10))),
        "row 1: column 1 has no name and does not number the rows",
    ),
    "two nameless columns": (table(",,label", *GOOD[1:]), "row 1: column 2 has no name"),
    "packed": (gzip.compress(table(*GOOD)), None),
    "packed in two pieces": (gzip.compress(table(*GOOD[:5])) + gzip.compress(table(*GOOD[5:])), None),
    "packed latin-1": (gzip.compress(table(*GOOD).replace(b"a,b", b"\xe4,b")), None),
    "packed utf-16": (gzip.compress("\n".join(GOOD).encode("utf-16")), "UTF-16"),
    "packed and cut off": (gzip.compress(table(*GOOD))[:-20], "damaged gzip file"),
    "packed with a wrong sum": (gzip.compress(table(*GOOD))[:-8] + bytes(8), "damaged gzip file"),
    "packed and nothing else": (b"\x1f\x8b", "damaged gzip file"),
    "packed nothing": (gzip.compress(b""), "row 1: the header has 0 columns"),
    "one column": (table("label", "p", "q", "p", "q"), "row 1: the header has 1 columns"),
    "blanks between cells": (
        table("a label", "1 p", "2 q", "1 p", "2 q"),
        "10,000, divided by comma, semicolon, tab or bar",
    ),
    "too many columns": (table(",".join(f"c{place}" for place in range(10_001)), "1"), "10,001 columns"),
    "near-miss of the label": (table("a,b,labels", *GOOD[1:]), "no column 'label'; did you mean 'labels'?"),
    "label missing": (good_but(4, "2,2.5,"), "row 4: 'label' is missing"),
    "only delimiters": (good_but(4, ",,"), "row 4: 'label' is missing"),
    "one class": (table("a,label", *(f"{row},p" for row in range(10))), "holds 1 class;"),
    "one sample a class": (table("a,label", "1,p", "2,q", "3,r"), "every class has one sample"),
    "one row": (table("a,label", "1,p"), "holds 1 class;"),
    "infinite": (good_but(4, "inf,2,p"), "row 4: 'a' holds 'inf'"),
    "beyond float32": (good_but(4, "1e39,2,p"), "row 4: 'a' holds '1e39'"),
    "beyond float64": (good_but(4, "-1e999,2,p"), "row 4: 'a' holds '-1e999'"),
    "word among numbers": (good_but(4, "two,2,p"), "row 4: 'a' holds 'two' among numbers"),
    "underscore among numbers": (good_but(4, "1_0,2,p"), "row 4: 'a' holds '1_0' among numbers"),
    "nothing to learn from": (
        table("a,label", *(f"1,{'pq'[row % 2]}" for row in range(10))),
        "no column to learn from",
    ),
    "too many categories": (
        table("who,label", *(f"n{row},{'pq'[row % 2]}" for row in range(2_000))),
        "column 'who' holds 1,600 categories",
    ),
    "long category": (
        table("a,label", *(f"{'xy'[row % 3 % 2] * 300},{'pq'[row % 2]}" for row in range(10))),
        None,
    ),
    "long label": (good_but(4, f"2,2,{'p' * 300}"), "row 4: 'label' holds 300 characters"),
    "one number in two spellings": (
        table("a,label", "1,0", "2,1", "3,0", "4,1.0"),
        "row 5: 'label' holds '1.0', and elsewhere '1'",
    ),
    "too many classes": (table("a,label", *(f"{row},c{row}" for row in range(10_001))), "10,001 classes"),
}


def read_content(folder: Path, content: bytes, name: str = "t.csv") -> Dataset:
    path = folder / name
    path.write_bytes(content)
    return read_table(path, "label")


# client column of ten rows, and a part of the error
CLIENTS: dict[str, tuple[list[str], str | None]] = {
    "one-sample clients": (["c", "d", *"eeeeeeee"], None),
    "one client": (["e"] * 10, None),
    "client missing": (["e", "e", "", *"eeeeeee"], "row 4: 'site' is missing"),
    "long client name": (["e" * 300, *"eeeeeeeee"], "row 2: 'site' holds 300 characters"),
}


def read_with_clients(folder: Path, clients: list[str]) -> Dataset:
    path = folder / "t.csv"
    path.write_bytes(
        table("site," + GOOD[0], *(f"{client},{row}" for client, row in zip(clients, GOOD[1:], strict=True)))
    )
    return read_table(path, "label", client="site")
