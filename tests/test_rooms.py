"""Every door leads down: rooms import only rooms that stand below them, as the picture in docs/concepts.md shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import counterpoise

PACKAGE = Path(counterpoise.__file__).parent
CONCEPTS = PACKAGE.parent / "docs" / "concepts.md"

Doors = dict[str, set[str]]  # room -> rooms that it imports


def room_of(module: str) -> str:
    """The package below ours, or the module that stands alone."""
    return module.split(".")[1] if "." in module else ""


def imported(source: str) -> Iterator[str]:
    """Modules that a text imports, inside functions and for type checkers too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            # `from counterpoise import x` may name a room.
            yield from (
                (f"{node.module}.{name.name}" for name in node.names)
                if node.module == "counterpoise"
                else (node.module,)
            )
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def doors_of(package: Path) -> Doors:
    found: Doors = {}
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if room != "__init__":
            modules = [name for name in imported(path.read_text()) if name.startswith("counterpoise.")]
            found.setdefault(room, set()).update({room_of(name) for name in modules} - {room})
    return found


def beyond(doors: Doors, room: str, way: tuple[str, ...] = ()) -> set[str]:
    """All rooms that can be reached from a room; a way that comes back is told by its rooms."""
    assert room not in way, f"a cycle of rooms: {' -> '.join([*way, room])}"
    reached = {further for next_ in doors[room] for further in beyond(doors, next_, (*way, room))}
    return doors[room] | reached


def picture(doors: Doors) -> str:
    """The rooms as Mermaid draws them: only doors that no other way replaces."""
    lines = []
    for room in sorted(doors):
        longer = {far for near in doors[room] for far in beyond(doors, near)}
        lines += [f"  {room} --> {near}" for near in sorted(doors[room] - longer)]
    return "\n".join(["```mermaid", "graph TD", *lines, "```"])


def levels() -> list[list[str]]:
    """Rooms from the top to the bottom as the table in docs/concepts.md has them."""
    text = CONCEPTS.read_text().partition("## Rooms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    return [re.findall(r"`(\w+)`", row) for row in rows]


def test_no_door_leads_up_or_to_the_side() -> None:
    height = {room: -place for place, row in enumerate(levels()) for room in row}
    doors = doors_of(PACKAGE)
    assert height.keys() == doors.keys()
    assert [(a, b) for a, through in doors.items() for b in through if height[b] >= height[a]] == []


def test_the_picture_shows_the_doors() -> None:
    wanted = picture(doors_of(PACKAGE))
    assert wanted in CONCEPTS.read_text(), f"docs/concepts.md must show:\n{wanted}"


def test_a_door_that_leads_up_is_seen(tmp_path: Path) -> None:
    for room, text in {
        "low": "def f():\n    from counterpoise.high import x\n",
        "high": "import counterpoise.low\n",
    }.items():
        (tmp_path / room).mkdir()
        (tmp_path / room / "module.py").write_text(text)
    doors = doors_of(tmp_path)
    assert doors == {"low": {"high"}, "high": {"low"}}
    with pytest.raises(AssertionError, match="a cycle of rooms: low -> high -> low"):
        picture(doors)


def test_no_two_test_files_share_a_name() -> None:
    """Tests lie in no packages: of two files with one name only the first would run."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert len(names) > 100
    assert sorted(names) == sorted(set(names))
