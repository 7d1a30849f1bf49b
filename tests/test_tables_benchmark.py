"""The benchmark of real tables: what counts as noise, a package that is missing, and a page in step with its file."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import table_report  # noqa: E402
import table_sources  # noqa: E402

from counterpoise.errors import DataError  # noqa: E402

PAGE, RESULTS = ROOT / "docs/tables.md", ROOT / "experiments/results/tables.csv"
FACTS = 5  # columns of the page's table before the first score


def study(low: list[float], high: list[float]) -> table_report.Study:
    scores = {
        name: {seed: {"balanced_accuracy": value / 100} for seed, value in enumerate(given)}
        for name, given in (("low", low), ("high", high))
    }
    return table_report.Study("t", "Dirichlet (2)", {}, scores)


def test_a_gap_is_noise_unless_its_interval_excludes_zero() -> None:
    # Differences -1, -2, -3: deviation 1, error sqrt(1/3 + 1/4) = 0.764, times t(2) = 4.303: 3.29 around -2.
    assert table_report.below(study([69, 68, 67], [70, 70, 70]), "low", "high") is None
    # -3, -4, -5: the same 3.29 around -4.
    assert table_report.below(study([67, 66, 65], [70, 70, 70]), "low", "high") == pytest.approx(4)
    assert table_report.below(study([90, 91, 92], [70, 70, 70]), "low", "high") is None


def test_a_package_that_is_not_installed_is_one_line_with_the_command() -> None:
    with pytest.raises(
        DataError, match=r"^package no_such_tables is not installed: pip install no-such-tables$"
    ):
        table_sources.folder("no_such_tables")


def test_the_page_shows_what_the_file_says() -> None:
    lines = [line for line in RESULTS.read_text().splitlines() if not line.startswith("#")]
    known = {
        (row["table"], row["clients"], row["arm"]): float(row["balanced_accuracy"])
        for row in csv.DictReader(lines)
    }
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and " ± " in line]
    shown = [line.strip("| ").split(" | ") for line in table]
    names = (*table_report.LEARNERS, *table_report.ARMS)
    assert {row[0] for row in shown} == set(table_sources.SOURCES)
    for row in shown:
        for arm, cell in zip(names, row[FACTS : FACTS + len(names)], strict=True):
            clients = "" if arm in table_report.LEARNERS else row[4]
            assert float(cell.split(" ± ")[0]) == pytest.approx(100 * known[row[0], clients, arm], abs=0.06)
