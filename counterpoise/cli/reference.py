"""The reference, written from the config's fields and the registries: ``python -m counterpoise.cli.reference [FILE]``."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from counterpoise.cli.catalogue import CATALOGUE, describe_parts, list_entries
from counterpoise.registry.registry import Entry
from counterpoise.registry.schema import is_table
from counterpoise.registry.settings import REQUIRED, Parameter, Settings
from counterpoise.run.config.experiment import Experiment
from counterpoise.sweep.sweep import MethodEntry, Sweep, TableOptions, Tune

OPENING = """\
# Reference

Every key of an experiment file, and every name it may use. `make docs` generates this page from the code; the same
text is on the command line: `counterpoise ls KIND` and `counterpoise show NAME`. An argument that is not listed, or a
value outside its range, is refused in one line that says what is needed.
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
    "probes": 'Listed in `probes` of `[evaluate]`: `["concentration"]`, or with arguments '
    '`[{ concentration = { layers = "body.*" } }]`.',
    "augmentations": 'Listed in `augment` of `[data]`: `["flip", { crop = { padding = 2 } }]`.',
}

SWEEP = """\
## The sweep file

What `counterpoise compare` takes; [comparing methods](compare.md) explains it.
"""
SWEEP_TABLES: dict[str, type[Settings]] = {
    "Each of methods, as a table": MethodEntry,
    "[tune] of a sweep": Tune,
    "[table] of a sweep": TableOptions,
}

# Words for types that only Python has, and their form in a file.
WORDS = {"any value": "a name, or a list of names", "a function or ": "", " or none": ""}


def reference() -> str:
    """The whole page."""
    blocks = [
        OPENING,
        TOP,
        *config_blocks(),
        *sweep_blocks(),
        *(block for kind in CATALOGUE for block in kind_blocks(kind)),
    ]
    return "\n".join(block.rstrip() + "\n" for block in blocks)


def config_blocks() -> Iterator[str]:
    """The keys before the first table, then each table."""
    keys = Experiment.parameters()
    yield "### Before the first table"
    yield _key_table(one for one in keys.values() if not is_table(one.type))
    for name, one in keys.items():
        if is_table(one.type):
            yield f"### [{name}]\n\n{inspect.getdoc(one.type)}"
            yield _key_table(one.type.parameters().values())


def sweep_blocks() -> Iterator[str]:
    """The keys of a sweep file, then those of its own tables."""
    yield SWEEP
    yield _key_table(one for one in Sweep.parameters().values() if not is_table(one.type))
    for heading, settings in SWEEP_TABLES.items():
        yield f"### {heading}\n\n{inspect.getdoc(settings)}"
        yield _key_table(settings.parameters().values())


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
        rows = [(f"`{p.name}`", _words(p), _default(p.default)) for p in entry.parameters.values()]
        yield _table(("argument", "values", "default"), rows)
    if off := entry.facts.get("off"):
        yield f"Switched off by {' and '.join(f'`{name} = {json.dumps(value)}`' for name, value in off.items())}."
    if kind == "methods":
        method = entry.build()
        parts = [f"`{name}` ({hooks})" for name, hooks in describe_parts(method)]
        yield f"Parts: {', '.join(parts) or 'none (plain averaging)'}. Client weights: {method.weighting}."


def _key_table(keys: Iterable[Parameter]) -> str:
    rows = [(f"`{one.name}`", _words(one), _default(one.default), one.description) for one in keys]
    return _table(("key", "values", "default", "meaning"), rows)


def _words(parameter: Parameter) -> str:
    legal = parameter.legal
    for python, toml in WORDS.items():
        legal = legal.replace(python, toml)
    return legal


def _default(value: Any) -> str:
    if value is REQUIRED:
        return "required"
    return "not set" if value is None else f"`{json.dumps(value)}`"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def main() -> None:
    """Write the page to the given file, or to standard output."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
    else:
        sys.stdout.write(reference())


if __name__ == "__main__":
    main()
