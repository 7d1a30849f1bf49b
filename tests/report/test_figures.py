"""Figures for a paper: each point is the mean that the runs recorded, each band the deviation over seeds."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from counterpoise.report.figures import draw_recall, draw_scores, write_figures
from counterpoise.report.html.study import Study, study
from counterpoise.results.results import RunResult, read_results

SCORE = "macro_f1"


@pytest.fixture(scope="module")
def known(runs: Path) -> Study:
    return study(read_results([runs]), score=SCORE)


def _group(known: Study, method: str) -> list[RunResult]:
    return next(group for (_, name), group in known.groups.items() if name == method)


def test_a_curve_goes_through_the_means_over_seeds(known: Study) -> None:
    (axes,) = draw_scores(known).axes
    assert [line.get_label() for line in axes.lines] == known.methods
    for line in axes.lines:
        group = _group(known, line.get_label())
        rows = zip(*(run.scored for run in group), strict=True)
        means = [100 * statistics.fmean(row[SCORE] for row in at_once) for at_once in rows]
        assert list(line.get_xdata()) == [2, 4, 6]
        assert list(line.get_ydata()) == pytest.approx(means, abs=0.01)
    assert axes.get_ylabel() == "macro F1 in percent"


def test_the_band_of_a_curve_is_the_deviation_over_seeds(known: Study) -> None:
    (axes,) = draw_scores(known).axes
    for line, band in zip(axes.lines, axes.collections, strict=True):
        last = [100 * run.scored[-1][SCORE] for run in _group(known, line.get_label())]
        edge = [y for x, y in band.get_paths()[0].vertices if x == 6]
        assert max(edge) - min(edge) == pytest.approx(2 * statistics.stdev(last), abs=0.02)


def test_recall_is_drawn_from_the_most_frequent_class_to_the_rarest(known: Study) -> None:
    (axes,) = draw_recall(known).axes
    names = [text.get_text() for text in axes.get_xticklabels()]
    counts = [int(name.rsplit("(", 1)[1].rstrip(")")) for name in names]
    assert counts == sorted(counts, reverse=True)
    data = known.results[0].record["data"]
    for line in axes.lines:
        for place, name in enumerate(names):
            c = data["classes"].index(name.rsplit(" (", 1)[0])
            recalls = [run.scored[-1]["per_class_recall"][c] for run in _group(known, line.get_label())]
            assert line.get_ydata()[place] == pytest.approx(100 * statistics.fmean(recalls), abs=0.01)


def test_both_are_written_as_pictures_and_as_drawings_and_always_alike(known: Study, tmp_path: Path) -> None:
    written = write_figures(known, tmp_path / "new folder")
    assert [path.name for path in written] == ["curves.png", "curves.svg", "recall.png", "recall.svg"]
    for path, again in zip(written, write_figures(known, tmp_path / "again"), strict=True):
        assert path.read_bytes() == again.read_bytes()
    for path in written[::2]:
        shown = np.asarray(Image.open(path).convert("L"))
        assert 300 < shown.shape[0] < 1000
        assert (shown < 128).any()
    assert "<script>" not in written[3].read_text()  # a class is called so


def test_without_a_finished_run_nothing_is_drawn(known: Study, tmp_path: Path) -> None:
    assert write_figures(known._replace(groups={}), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("problems", [1, 2, 5])
def test_each_problem_has_a_panel(known: Study, problems: int) -> None:
    several = {
        key._replace(problem=f"problem {n}"): runs
        for n in range(problems)
        for key, runs in known.groups.items()
    }
    figure = draw_scores(known._replace(groups=several))
    titles = [axes.get_title() for axes in figure.axes if axes.axison]
    assert titles == [f"problem {n}" for n in range(problems)]
    assert len(figure.legends[0].get_texts()) == len(known.methods)
