"""Free memory, checked before anything large is allocated."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from counterpoise.errors import ConfigError, CounterpoiseError

MEMINFO, OWN_PAGES = Path("/proc/meminfo"), Path("/proc/self/statm")
OWN_GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
SMALL = 64 << 20  # bytes; what needs less is not checked
RECLAIMABLE = ("inactive_file", "active_file")  # the page cache counts as used, but is freed on demand
UNKNOWN = sys.maxsize


def available_bytes() -> int:
    """Memory that this process may still allocate: the least of machine, control groups and address space limit."""
    return max(0, min(_free_of_machine(), _free_of_address_space(), *_free_of_groups(), UNKNOWN))


def check_fits(needed: float, what: str, error: type[CounterpoiseError] = ConfigError) -> None:
    """Refuse what needs more memory than is free; `what` begins the error line."""
    if needed <= SMALL:
        return
    free = available_bytes()
    if needed > free:
        raise error(f"{what} needs {in_words(needed)} of memory; at most {in_words(free)} here")


def in_words(size: float) -> str:
    """1,234,567,890 bytes as 1.2 GB."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= length:
            return f"{size / length:,.1f} {unit}"
    return f"{size:.0f} bytes"


def _free_of_machine() -> int:
    table = _read_table(MEMINFO)
    if "MemAvailable" in table:
        return table["MemAvailable"] << 10
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # not Linux: all of its memory
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def _free_of_address_space() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return UNKNOWN
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return UNKNOWN
    pages = _read(OWN_PAGES).split()
    return limit - (int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0)


def _free_of_groups() -> Iterator[int]:
    """Of each control group of this process: version 2 has one tree, version 1 one for memory."""
    for line in _read(OWN_GROUP).splitlines():
        _, controllers, place = line.split(":", 2)
        if not controllers:
            root, names = GROUPS, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root, names = GROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        own = root / place.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                yield _free_of_group(folder, *names)


def _free_of_group(folder: Path, limit: str, used: str) -> int:
    most, taken = _read(folder / limit).strip(), _read(folder / used).strip()
    if not (most.isdecimal() and taken.isdecimal()):  # none, or "max"
        return UNKNOWN
    table = _read_table(folder / "memory.stat")
    return int(most) - int(taken) + sum(table.get(name, 0) for name in RECLAIMABLE)


def _read_table(path: Path) -> dict[str, int]:
    """Name -> number of each line."""
    lines = (line.replace(":", " ").split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
