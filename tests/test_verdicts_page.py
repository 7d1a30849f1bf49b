"""The page of verdicts: in step with its files, and the rule by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("verdicts", ROOT / "experiments" / "verdicts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verdicts"] = module
    spec.loader.exec_module(module)
    return module


verdicts = _load()


def test_the_page_is_what_its_files_say() -> None:
    assert verdicts.PAGE.read_text() == verdicts.page(verdicts.load_papers()), "run `make verdicts`"


def test_every_cell_that_is_named_was_found() -> None:
    for paper in verdicts.load_papers():
        for table in paper.get("table", []):
            cells = list(verdicts.cells_of(table))
            assert len(cells) == len(table["problems"]) * len(table["printed"]), table["name"]


@pytest.mark.parametrize(
    ("printed", "ours", "error", "verdict"),
    [
        (5.0, 5.5, 0.1, "reproduced"),
        (5.0, 3.0, 1.2, "reproduced"),  # within two standard errors
        (5.0, 3.0, 0.5, "direction only"),
        (5.0, 0.3, 0.5, "not reproduced"),  # not above its own error
        (5.0, -4.0, 10.0, "not reproduced"),  # however large the error, the sign is the other one
        (0.3, -0.4, 0.1, "reproduced"),  # both are next to nothing
        (-40.0, 3.0, 0.5, "not reproduced"),
    ],
)
def test_the_rule_by_hand(printed: float, ours: float, error: float, verdict: str) -> None:
    assert verdicts.judge(printed, ours, error) == verdict


def test_gains_are_over_pairs_of_seeds(tmp_path: Path) -> None:
    rows = ["A,0,0.50", "A,1,0.60", "B,0,0.53", "B,1,0.65"]
    (tmp_path / "x.csv").write_text("# how\n" + "\n".join(["run,seed,accuracy", *rows]) + "\n")
    results = verdicts.read_results(tmp_path / "x.csv", "accuracy")

    gain, error = verdicts.gain_of(results["B"], results["A"])

    assert gain == pytest.approx(4.0)
    assert error == pytest.approx(1.0)  # of 3 and 5: deviation sqrt 2, over sqrt 2
    assert results["A"].mean == pytest.approx(55.0)
