"""What is known of a comparison before it starts, and what its tuning and its code leave open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.errors import plural
from counterpoise.registry.plugins import plugin_versions
from counterpoise.results.results import RunResult
from counterpoise.results.statistics import ALPHA, fewest_pairs, problems_are_blocks
from counterpoise.results.words import on_problem
from counterpoise.run.store.seal import read_object
from counterpoise.sweep.grids import grid_of
from counterpoise.sweep.jobs import problems_of
from counterpoise.sweep.sweep import Sweep
from counterpoise.sweep.tune import TUNING_FILE

FEWEST_SPLITS = 2  # splits and folds are compared by Student's test, which takes two pairs


def foreseen(sweep: Sweep) -> list[str]:
    """Whether the seeds can pass the tests at all: the smallest p of n pairs is ``2 ** (1 - n)``, times the tests by Holm."""
    tests, seeds, names = len(sweep.methods) - 1, len(sweep.seeds), [p.name for p in problems_of(sweep)]
    if not tests:
        return []
    needed = fewest_pairs(tests) if sweep.repeats == "runs" else FEWEST_SPLITS
    if seeds >= needed:
        return []
    least = min(1.0, tests * 2.0 ** (1 - seeds))
    after = " after Holm's correction" if tests > 1 else ""
    line = (
        f"{plural(seeds, 'seed')} cannot show that a method differs from the baseline on a problem: the smallest possible p is {least:.2g}{after},"
        f" and {ALPHA:g} is needed; it takes {needed} seeds"
    )
    blocks = len(names) if problems_are_blocks(names) else len(names) * seeds
    enough = len(names) > 1 and blocks >= needed
    return [f"{line}. Over all {len(names)} problems together the test can pass." if enough else f"{line}."]


def edge_notes(sweep: Sweep, out: Path) -> list[str]:
    """Numbers that tuning chose at the edge of their grid, where better ones may lie beyond it."""
    tuned = None if sweep.tune is None else read_object(out / TUNING_FILE)
    if sweep.tune is None or tuned is None:
        return []
    grids = {entry.name: grid_of(entry, sweep.tune) for entry in sweep.methods}
    return [
        note
        for one in tuned["searches"]
        if one["method"] in grids
        for note in _edges(one, grids[one["method"]])
    ]


def changed_notes(results: Sequence[RunResult]) -> Iterator[str]:
    """Runs made by another version of somebody's own code than is there now: a table of them tells nothing of the change."""
    for name, version in plugin_versions().items():
        old = [run for run in results if run.record.get("versions", {}).get(name, version) != version]
        if old:
            yield (
                f"{name} has changed since {len(old)} of {plural(len(results), 'run')} were made, which stay as they are;"
                " remove their folders to run them anew."
            )


def _edges(search: Mapping[str, Any], grid: Mapping[str, Any]) -> Iterator[str]:
    for key, value in (search["chosen"] or {}).items():
        known = _numbers(grid.get(key, ()))
        tried = _numbers(trial["setting"].get(key) for trial in search.get("trials", ())) or known
        if len(known) < 2 or not _is_number(value) or tried[0] < value < tried[-1]:
            continue
        end, more, last = ("smallest", "smaller", 0) if value == tried[0] else ("largest", "larger", -1)
        said = f"{search['method']}{on_problem(search['problem'])}: the tuned {key} = {value:g} is the {end}"
        if value == known[last]:
            yield f"{said} of its grid ({known[0]:g} to {known[-1]:g}); a {more} one may be better."
        else:
            yield f"{said} that was tried; its grid goes on to {known[last]:g}, which a larger tune.budget would try."


def _numbers(values: Iterable[Any]) -> list[float]:
    return sorted({value for value in values if _is_number(value)})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
