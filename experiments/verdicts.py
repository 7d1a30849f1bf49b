"""docs/verdicts.md: what the five papers print beside what came out here, cell by cell (`make verdicts`).

Printed numbers and the words for each paper are in docs/papers.toml, ours in the CSV files of experiments/results.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results"
PAPERS, PAGE, PICTURE = (
    ROOT / "docs" / name for name in ("papers.toml", "verdicts.md", "images/verdicts.png")
)
CLOSE = 1.0  # points by which a gain may differ from the paper's and still count as the same
LEVEL = 2.0  # points by which a baseline may
COLOURS = {
    "reproduced": "#1b7837",
    "direction only": "#e08214",
    "not reproduced": "#b2182b",
    "open": "#878787",
}

RULE = f"""A cell is a method on a problem, its gain the difference to the table's baseline. **Reproduced**: our gain is within {CLOSE:g} point of the paper's, and not of the other sign unless both are at most {CLOSE:g} point;
or the paper's is within two standard errors of ours, and none is not. **Open**: both the paper's gain and none are within two standard errors of ours, so that these seeds cannot tell. **Direction only**: the same sign, by more than one standard error,
but another size. **Not reproduced**: none of these. For a baseline itself the level counts: reproduced within {LEVEL:g} points or two deviations, else "other level". Standard errors are over
paired seeds where the file has them, and of two means otherwise; of a single seed, which has none, {CLOSE:g} point is taken. A verdict is about our setting, which stands above each table; it is no proof that a paper is wrong."""


class Ours(NamedTuple):
    """A score in percent: seed -> value, or only mean and deviation where single runs were not kept."""

    values: Mapping[int, float]
    mean: float
    deviation: float
    seeds: int


class Cell(NamedTuple):
    """A method on a problem, printed and measured, in percent."""

    problem: str
    method: str
    printed: float
    ours: Ours
    printed_gain: float | None  # over the baseline; None for the baseline itself
    gain: float | None
    error: float  # standard error of the gain

    @property
    def verdict(self) -> str:
        if self.gain is None or self.printed_gain is None:
            near = abs(self.ours.mean - self.printed) <= max(LEVEL, 2 * self.ours.deviation)
            return "reproduced" if near else "other level"
        return judge(self.printed_gain, self.gain, self.error)


def judge(printed: float, ours: float, error: float) -> str:
    """What is left of a printed gain."""
    opposed = printed * ours < 0
    if abs(ours - printed) <= CLOSE and not (opposed and max(abs(printed), abs(ours)) > CLOSE):
        return "reproduced"
    if abs(ours - printed) <= 2 * error:
        return "open" if abs(ours) <= 2 * error else "reproduced"
    return "direction only" if not opposed and abs(ours) > error else "not reproduced"


def read_results(path: Path, score: str) -> dict[str, Ours]:
    """Run's name -> its score, from single runs or from means."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    found: dict[str, dict[int, float]] = {}
    means: dict[str, Ours] = {}
    for row in csv.DictReader(lines):
        value = 100 * float(row[score])
        if f"{score}_deviation" in row:
            means[row["run"]] = Ours({}, value, 100 * float(row[f"{score}_deviation"]), int(row["seeds"]))
        else:
            found.setdefault(row["run"], {})[int(row["seed"])] = value
    return means | {name: _summed_up(values) for name, values in found.items()}


def _summed_up(values: Mapping[int, float]) -> Ours:
    numbers = list(values.values())
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    return Ours(values, statistics.fmean(numbers), deviation, len(numbers))


def gain_of(ours: Ours, baseline: Ours) -> tuple[float, float]:
    """The mean gain and its standard error: over pairs of seeds where both have them; of one seed it is not known, so CLOSE."""
    pairs = [value - baseline.values[seed] for seed, value in ours.values.items() if seed in baseline.values]
    if len(pairs) > 1:
        return statistics.fmean(pairs), statistics.stdev(pairs) / math.sqrt(len(pairs))
    if min(ours.seeds, baseline.seeds) == 1:
        return ours.mean - baseline.mean, CLOSE
    error = math.hypot(*(one.deviation / math.sqrt(max(one.seeds, 1)) for one in (ours, baseline)))
    return ours.mean - baseline.mean, error


def cells_of(table: Mapping[str, Any], folder: Path = RESULTS) -> Iterator[Cell]:
    """The cells of a table that were measured; a printed NaN has no number to compare with."""
    results, base = read_results(folder / table["file"], table["score"]), table["baseline"]
    for place, problem in enumerate(table["problems"]):
        for method, printed in table["printed"].items():
            ours = results.get(_run(method, problem))
            if ours is None or math.isnan(printed[place]):
                continue
            first = results[_run(base, problem)]
            gain, error = gain_of(ours, first) if method != base else (None, 0.0)
            printed_gain = printed[place] - table["printed"][base][place] if method != base else None
            yield Cell(problem["name"], method, printed[place], ours, printed_gain, gain, error)


def _run(method: str, problem: Mapping[str, str]) -> str:
    name = re.sub(r"[,/]? ", "-", method)
    return f"{name}-{problem['key']}" if problem.get("key") else name


def page(papers: Sequence[Mapping[str, Any]], folder: Path = RESULTS) -> str:
    """The whole page as text."""
    tables = [
        (paper, table, list(cells_of(table, folder))) for paper in papers for table in paper.get("table", [])
    ]
    words = [
        "# What holds: the five papers' tables, cell by cell",
        "<!-- Made by `make verdicts` from docs/papers.toml and experiments/results; do not edit. -->",
        *(f"**[{paper['name']}]({paper['page']}).** {paper['text'].strip()}" for paper in papers),
        "![Gain over the baseline: the paper's against ours, a dot for each cell, a panel for each paper](images/verdicts.png)",
        _counts([cell for _, _, cells in tables for cell in cells]),
        RULE,
    ]
    for paper in papers:
        words.append(f"## {paper['name']}")
        for owner, table, cells in tables:
            if owner is paper:
                words += [
                    f"### {table['name']}",
                    table["setting"].strip(),
                    _rows(cells),
                    _source(table, folder),
                ]
        if left := paper.get("not_run"):
            lines = [f"| {one['name']} | {one['why']} |" for one in left]
            words.append("\n".join(["| not run | why |", "| --- | --- |", *lines]))
    return "\n\n".join(words) + "\n"


def _counts(cells: Sequence[Cell]) -> str:
    gains = [cell for cell in cells if cell.gain is not None]
    each = {name: sum(cell.verdict == name for cell in gains) for name in COLOURS}
    said = ", ".join(f"{count} {name}" for name, count in each.items())
    return f"Of {len(gains)} gains that were measured: {said}."


def _rows(cells: Sequence[Cell]) -> str:
    lines = [
        "| problem | method | paper | ours | gain, paper | gain, ours | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for cell in cells:
        gains = ["", ""]
        if cell.gain is not None and cell.printed_gain is not None:
            gains = [f"{round(gain, 1) + 0.0:+.1f}" for gain in (cell.printed_gain, cell.gain)]  # no -0.0
        spread = f" ± {cell.ours.deviation:.1f}" if cell.ours.seeds > 1 else ""
        ours = f"{cell.ours.mean:.1f}{spread} ({cell.ours.seeds})"
        lines.append(
            f"| {cell.problem} | {cell.method} | {cell.printed:.2f} | {ours} | {gains[0]} | {gains[1]} | {cell.verdict} |"
        )
    return "\n".join(lines)


def _source(table: Mapping[str, Any], folder: Path) -> str:
    head = [line[2:] for line in (folder / table["file"]).read_text().splitlines() if line.startswith("# ")]
    return f"In percent, mean ± sample deviation (seeds). [{table['file']}](../experiments/results/{table['file']}): `{head[0]}`; {'; '.join(head[1:])}."


def draw(papers: Sequence[Mapping[str, Any]], path: Path = PICTURE) -> None:
    """Paper's gain against ours, a panel for each paper; on the diagonal they are the same."""
    from matplotlib.figure import Figure

    cells = [[cell for table in paper.get("table", []) for cell in cells_of(table)] for paper in papers]
    figure = Figure(figsize=(2.6 * len(papers), 3.8), layout="constrained")
    panels = figure.subplots(1, len(papers), sharey=True, squeeze=False)[0]
    for axes, paper, found in zip(panels, papers, cells, strict=True):
        axes.set_title(paper["name"], fontsize="medium")
        axes.axline((0, 0), slope=1, color="0.6", linewidth=1)
        axes.axhline(0, color="0.85", linewidth=1, zorder=0)
        axes.axvline(0, color="0.85", linewidth=1, zorder=0)
        gains = [cell for cell in found if cell.gain is not None]
        axes.scatter(
            [cell.printed_gain for cell in gains],
            [cell.gain for cell in gains],
            color=[COLOURS[cell.verdict] for cell in gains],
        )
    verdicts = Counter(cell.verdict for found in cells for cell in found if cell.gain is not None)
    for name, colour in COLOURS.items():
        panels[0].scatter([], [], color=colour, label=f"{name} ({verdicts[name]})")
    figure.legend(loc="outside upper center", ncols=len(COLOURS), frameon=False)
    figure.supxlabel("gain over the baseline in the paper, points", fontsize="medium")
    panels[0].set_ylabel("gain here, points")
    figure.savefig(path, dpi=130, metadata={"Software": None})


def load_papers() -> list[dict[str, Any]]:
    papers: list[dict[str, Any]] = tomllib.loads(PAPERS.read_text())["paper"]
    return papers


if __name__ == "__main__":
    PAGE.write_text(page(load_papers()))
    draw(load_papers())
    print(f"wrote {PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")
