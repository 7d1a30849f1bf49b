"""The reference, written from the config's fields and the registries: ``python -m counterpoise.cli.reference [FILE]``."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeGuard, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from counterpoise.cli.catalogue import CATALOGUE, describe_parts, list_entries
from counterpoise.registry.registry import Entry, Interval, Parameter
from counterpoise.run.config.experiment import Experiment

OPENING = """\
# Reference

Every key of an experiment file, and every name it may use. This page is written from the code by `make docs`; the same
text is on the command line: `counterpoise ls KIND` and `counterpoise show NAME`. An argument that is not listed, or a
value outside its range, is refused in one line that says what is legal.
"""

TOP = """\
## The experiment file

A file is TOML. Every key may be left out; an empty file is FedAvg on digits. On the command line, `key.sub=value` after
the file changes a value. Ranges are written `[a, b]`, with a round bracket where the end is excluded.
"""

PLACES = {
    "methods": 'Named by `method = "fedcm"`, or with arguments by `method = { fedcm = { alpha = 0.2 } }`.',
    "parts": 'Listed after a method: `method = ["fedavg", { focal = { gamma = 1.0 } }, "sam"]`. '
    "What a hook is: [concepts](concepts.md).",
    "data": "Named by `name` in `[data]`; arguments are further keys of that table.",
    "imbalances": "Given by `imbalance` in `[data]`: a number is `longtail`, another is "
    "`{ step = { factor = 10.0 } }`.",
    "partitions": "Named by `name` in `[partition]`; arguments are further keys of that table.",
    "models": "Named by `name` in `[model]`; arguments are further keys of that table.",
    "schedules": "Given by `schedule` in `[local]`: a name, or `{ factor = { by = 0.99 } }`.",
    "augmentations": 'Listed in `augment` of `[data]`: `["flip", { crop = { padding = 2 } }]`.',
}

# What a config's types say in other words than a factory's; TOML has no none, a key is left out.
WORDS = {
    str(dict[str, dict[str, Any]]): "{ name = { argument = value } }",
    str(Any): "a name, or a list of names",
    f"{2**63:g}": "2^63",
    " or none": "",
}


def reference() -> str:
    """The whole page."""
    blocks = [OPENING, TOP, *config_blocks(), *(block for kind in CATALOGUE for block in kind_blocks(kind))]
    return "\n".join(block.rstrip() + "\n" for block in blocks)


def config_blocks() -> Iterator[str]:
    """The keys before the first table, then each table."""
    fields = Experiment.model_fields
    yield "### Before the first table"
    yield _field_table({name: field for name, field in fields.items() if not _is_table(field.annotation)})
    for name, field in fields.items():
        if _is_table(table := field.annotation):
            yield f"### [{name}]\n\n{inspect.getdoc(table)}"
            yield _field_table(table.model_fields)


def kind_blocks(kind: str) -> Iterator[str]:
    """Every entry of one registry."""
    yield f"## {kind.capitalize()}\n\n{PLACES.get(kind, '')}"
    for entry in list_entries(kind):
        yield f"### {entry.name}\n\n{entry.doc}"
        yield from _entry_blocks(kind, entry)


def _entry_blocks(kind: str, entry: Entry[Any]) -> Iterator[str]:
    if entry.paper:
        yield f"Paper: {entry.paper}."
    if entry.parameters:
        rows = [(f"`{p.name}`", _words(p.legal, ()), _default(p.default)) for p in entry.parameters.values()]
        yield _table(("argument", "legal", "default"), rows)
    if off := entry.facts.get("off"):
        yield f"Switched off by {' and '.join(f'`{name} = {json.dumps(value)}`' for name, value in off.items())}."
    if kind == "methods":
        method = entry.build()
        parts = [f"`{name}` ({hooks})" for name, hooks in describe_parts(method)]
        yield f"Made of: {', '.join(parts) or 'plain averaging'}. Clients weigh by {method.weighting}."


def _field_table(fields: dict[str, FieldInfo]) -> str:
    rows = []
    for name, field in fields.items():
        legal = Parameter(name, field.annotation, interval_of(field), field.default).legal
        words = _words(legal, get_args(field.annotation))
        rows.append((f"`{name}`", words, _default(field.default), field.description or ""))
    return _table(("key", "legal", "default", "meaning"), rows)


def interval_of(field: FieldInfo) -> Interval | None:
    """The range that a field's marks state, on the field itself or on one option of its type."""
    bounds = dict(_bounds(field.metadata))
    for option in get_args(field.annotation):
        for inner in getattr(option, "__metadata__", ()):
            bounds.update(_bounds(getattr(inner, "metadata", ())))
    if not bounds:
        return None
    low, high = bounds.get("ge", bounds.get("gt", -math.inf)), bounds.get("le", bounds.get("lt", math.inf))
    return Interval(low, high, open_low="gt" in bounds, open_high="lt" in bounds)


def _bounds(marks: Iterable[Any]) -> Iterator[tuple[str, float]]:
    for mark in marks:
        for name in ("ge", "gt", "le", "lt"):
            if hasattr(mark, name):
                yield name, getattr(mark, name)


def _words(legal: str, options: Iterable[Any]) -> str:
    inner = {str(o): f"{{ {', '.join(o.model_fields)} }}" for o in options if _is_table(o)}
    for code, words in (WORDS | inner).items():
        legal = legal.replace(code, words)
    return legal


def _is_table(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    return "not set" if value is None else f"`{json.dumps(value)}`"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def main() -> None:
    """Write the page to the file that is named, or to the terminal."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
    else:
        sys.stdout.write(reference())


if __name__ == "__main__":
    main()
