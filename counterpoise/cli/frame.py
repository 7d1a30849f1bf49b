"""Progress of runs, fitted to a terminal: a heading, one line per run, and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from counterpoise.cli.runs import percent
from counterpoise.errors import shorten as without_middle

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table

    from counterpoise.results.progress import Progress

WIDTH = 20  # characters of a curve
BAR = 12  # and of a bar
GAP = 2  # between columns
CUT = ".."  # in the middle of a name that is too long
NAME = 24  # characters of a name for which other columns are dropped
STEPS, PLAIN_STEPS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
BEFORE = {"name": "run", "state": "state", "round": "round", "bar": ""}  # columns before the scores
AFTER = {"loss": "loss", "pace": "rounds/s", "left": "left"}  # columns after the scores
LESSER = ("bar", "pace", "curve", "left", "loss")  # dropped in this order, then scores from the last on
COLOURS = {"running": "cyan", "failed": "red", "stopped": "yellow", "unreadable": "red", "done": "green"}

Cells = Mapping[str, str]  # by column


class TableLayout(NamedTuple):
    """The columns that fit, and the characters of a name."""

    columns: list[str]
    name: int


def headers() -> dict[str, str]:
    """Titles of all columns; the first score is followed by its curve, then the others."""
    from counterpoise.metrics.catalogue import find, shown_in

    first, *others = ((key, find(key).short) for key in shown_in("line"))
    return {**BEFORE, **dict([first]), "curve": "", **dict(others), **AFTER}


def frame(
    folder: Path,
    found: Sequence[Progress],
    console: Console,
    most: int | None = None,
    tuning: Sequence[str] = (),
    to_come: tuple[int, int] = (0, 0),
) -> Group:
    """All runs of a folder, at most `most` of them, how far tuning is, and runs and rounds that are still to come."""
    from rich.console import Group
    from rich.text import Text

    shown = found[:most]
    rest = [Text(f"and {len(found) - len(shown)} more")] if len(found) > len(shown) else []
    troubles = [Text(f"{run.path}: {run.trouble}", style="red") for run in shown if run.trouble]
    table = [_table(folder, shown, console)] if shown else []
    told = [Text(line) for line in tuning]
    return Group(Text(_heading(folder, found, *to_come), style="bold"), *told, *table, *rest, *troubles)


def _heading(folder: Path, found: Sequence[Progress], runs_to_come: int, rounds_to_come: int) -> str:
    counts = Counter(run.state for run in found)
    words = [f"{counts[state]} {state}" for state in counts] or ["no run yet"]
    words += [f"{runs_to_come} to come"] if runs_to_come else []
    done, rounds = sum(run.round for run in found), sum(run.rounds for run in found) + rounds_to_come
    share = f"; {done} of {rounds} rounds" if rounds else ""
    return f"{folder}: {', '.join(words)}{share}"


def _table(folder: Path, runs: Sequence[Progress], console: Console) -> Table:
    from rich.table import Table

    steps = STEPS if console.encoding.startswith("utf") else PLAIN_STEPS
    titles = headers()
    lines = [_cells(run, folder, steps) for run in runs]
    layout = arrange(lines, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP // 2), header_style="bold")
    for key in layout.columns:
        left = key in ("name", "state", "bar", "curve")
        table.add_column(titles[key], no_wrap=True, justify="left" if left else "right")
    for run, cells in zip(runs, lines, strict=True):
        table.add_row(*(_drawn(key, cells[key], run, layout) for key in layout.columns))
    return table


def _cells(run: Progress, folder: Path, steps: str) -> Cells:
    from counterpoise.metrics.catalogue import shown_in

    loss, running, scores = run.last("loss"), run.state == "running", shown_in("line")
    return {
        "name": run.path.name if run.path == folder else str(run.path.relative_to(folder)),
        "state": run.state,
        "round": f"{run.round}/{run.rounds}",
        "bar": " " * BAR,
        **{key: percent(run.last(key)) for key in scores},
        "curve": sparkline(run.curve(scores[0]), steps),
        "loss": "" if loss is None else f"{loss:.3f}",
        "pace": "" if run.pace is None else f"{run.pace:.3g}",
        "left": clock(run.left) if running and run.left is not None else "",
    }


def arrange(lines: Sequence[Cells], width: int) -> TableLayout:
    """Drop less important columns until names fit; state and round are never dropped."""
    titles = headers()
    widths = {
        key: max(len(word) for word in (titles[key], *(cells[key] for cells in lines))) for key in titles
    }
    columns = list(titles)
    scores = [key for key in titles if key not in (*BEFORE, *AFTER, "curve")]
    for dropped in (*LESSER, *reversed(scores)):
        if _room(columns, widths, width) >= min(widths["name"], NAME):
            break
        columns.remove(dropped)
    return TableLayout(columns, max(_room(columns, widths, width), 1))


def _room(columns: Sequence[str], widths: Mapping[str, int], width: int) -> int:
    """Characters that these columns leave for the name."""
    return width - sum(GAP + widths[key] for key in columns if key != "name")


def _drawn(key: str, cell: str, run: Progress, layout: TableLayout) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    match key:
        case "bar":
            return ProgressBar(max(run.rounds, 1), run.round, width=BAR)
        case "name":
            return Text(shorten(cell, layout.name))
        case "state":
            return Text(cell, style=COLOURS[run.state])
    return cell


def shorten(text: str, width: int) -> str:
    return without_middle(text, width, CUT)


def sparkline(values: Sequence[float], steps: str = STEPS, width: int = WIDTH) -> str:
    """A curve as one line of characters, scaled from its minimum to its maximum; long ones are thinned evenly."""
    count = min(len(values), width)
    picked = [values[round(k * (len(values) - 1) / max(count - 1, 1))] for k in range(count)]
    low, high = min(picked, default=0.0), max(picked, default=0.0)
    scale = (len(steps) - 1) / (high - low) if high > low else 0.0
    return "".join(steps[round((value - low) * scale)] for value in picked)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
