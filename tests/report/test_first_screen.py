"""Tail and Worst class stand within the first 1280 pixels: columns laid out by the style's numbers and a wide font."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import pytest
from made_runs import made_run
from PIL import ImageFont

from counterpoise.report.html import tables as html_tables
from counterpoise.report.html.study import study
from counterpoise.report.html.tables import tables
from counterpoise.results.labels import Labels
from counterpoise.results.results import RunResult

REM = 16
SCREEN = 1280
STYLE = (Path(html_tables.__file__).parent / "assets" / "report.css").read_text()
# Wider than every font of the page's list: Segoe UI, Roboto, Helvetica, Liberation Sans, Arial.
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"


def rems(pattern: str) -> float:
    """A length of the style in pixels."""
    found = re.search(pattern, STYLE)
    assert found, pattern
    return float(found[1]) * REM


class Cells(HTMLParser):
    """Rows of the first table; a cell is its lines, each of pieces of text with whether they are small."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[list[tuple[str, bool]]]] = []
        self._small = 0
        self.feed(text[: text.index("</table>")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append([])
        if tag == "span":
            self._small = 1 + ("never" in classes) if "dev" in classes else 0

    def handle_endtag(self, tag: str) -> None:
        self._small = 0

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and data.strip():
            kind = "\n" if self._small == 2 else ""
            self.rows[-1][-1].append((kind + data, self._small > 0))


def width_of(text: str, size: float) -> float:
    return float(ImageFont.truetype(str(FONT), 100).getlength(text)) * size / 100


def cell_width(pieces: list[tuple[str, bool]]) -> float:
    lines = [0.0]
    for text, small in pieces:
        if text.startswith("\n"):
            lines.append(0.0)
        lines[-1] += width_of(text.strip("\n"), 13 if small else 15)
    return max(lines)


def right_edges(results: list[RunResult], labels: dict[Path, Labels]) -> dict[str, float]:
    """The right edge on the screen of each column of the scores."""
    head, *rows = Cells(tables(study(results, labels))).rows
    padding, arrow = 2 * rems(r"\nth, td \{ padding: \.6rem (\.\d+)rem"), 20
    most = rems(r"\.sortable tbody th \{[^}]*max-width: (\d+)rem")
    named = rems(r"td\.words\.narrow \{ min-width: (\d+)rem")
    titles = ["".join(text for text, _ in cell) for cell in head]
    edge = (SCREEN - min(rems(r"main[^{]*\{ max-width: (\d+)rem"), SCREEN)) / 2 + 2.5 * REM + 1
    edges = {}
    for place, title in enumerate(titles):
        wide = max(cell_width(row[place]) for row in rows) + padding
        heading = max(width_of(word, 13) for word in title.split()) + arrow + padding
        column = max(wide, heading, rems(r"thead th \{ min-width: ([\d.]+)rem"))
        column = min(column, most) if place == 0 else named if title == "Problem" else column
        edge += column
        edges[title] = edge
    return edges


@pytest.mark.parametrize("problems", [1, 3])
def test_tail_and_worst_class_are_on_the_first_screen(problems: int) -> None:
    names = [
        "fedavg",
        "fedavgm+balanced_softmax(counts=global)",
        "fedcgnm(beta=0.5, groups=3)+resample(to=mean)",
    ]
    results, labels = [], {}
    for problem in range(problems):
        for method, name in zip(("fedavg", "fedavgm", "fedcm"), names, strict=True):
            for seed in range(3 if method == "fedcm" else 4):  # uneven seeds have a column of their own
                score = 0.1 + 0.8 * (seed % 2)  # wide deviations
                run = made_run(method, seed, score, folder=f"{problem}-{method}-{seed}")
                results.append(run)
                words = f"partition.alpha=0.{problem}, imbalance=100" if problems > 1 else ""
                labels[run.path] = Labels(words, name)
    edges = right_edges(results, labels)
    assert edges["Tail"] < edges["Worst class"] <= SCREEN - 2.5 * REM
    assert list(edges)[-1] == "Medium"


def test_the_chosen_score_comes_first_and_then_the_rare_classes() -> None:
    results = [made_run(method, 0, 0.5) for method in ("fedavg", "fedcm")]
    text = tables(study(results, score="macro_f1"))
    titles = re.findall(r'<th scope="col">([^<]*)</th>', text[: text.index("</table>")])
    assert titles[-7:] == ["Macro-F1", "Balanced", "Tail", "Worst class", "Accuracy", "Head", "Medium"]
    assert titles[:2] == ["Method", "Against fedavg"]


def test_the_first_column_stays_in_sight() -> None:
    assert re.search(r"th:first-child \{ position: sticky; left: 0;", STYLE)
