"""The page of verdicts: in step with its files, and the rule by hand."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from sweeps import run_here, tiny_sweep

from counterpoise.errors import ConfigError
from counterpoise.results.results import read_results

ROOT = Path(__file__).resolve().parent.parent


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "experiments" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


verdicts, collect = _load("verdicts"), _load("collect")


def test_the_page_is_what_its_files_say() -> None:
    assert verdicts.PAGE.read_text() == verdicts.page(verdicts.load_papers()), "run `make verdicts`"


@pytest.mark.parametrize("path", sorted(verdicts.RESULTS.glob("*.csv")), ids=lambda path: path.stem)
def test_every_result_file_says_how_it_was_made(path: Path) -> None:
    head = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
    for told in ("counterpoise compare|python ", "torch", "(?m)^# commits? [0-9a-f]{7}", "seeds? [0-9]"):
        assert re.search(told, head), f"{path.name} does not tell: {told}"


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
        (5.0, -4.0, 1.0, "not reproduced"),
        (5.0, -4.0, 10.0, "open"),  # with such an error nobody can tell
        (4.0, 2.0, 1.5, "open"),  # neither the paper's gain nor none is two standard errors away
        (0.1, 2.2, 3.0, "open"),
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


def test_a_gain_of_one_seed_must_exceed_a_point(tmp_path: Path) -> None:
    rows = ["A,0,0.500", "B,0,0.509", "C,0,0.530"]
    (tmp_path / "x.csv").write_text("\n".join(["run,seed,accuracy", *rows]) + "\n")
    results = verdicts.read_results(tmp_path / "x.csv", "accuracy")

    found = [verdicts.judge(10.0, *verdicts.gain_of(results[name], results["A"])) for name in "BC"]

    assert found == ["not reproduced", "direction only"]


def test_a_result_file_is_made_from_a_sweep_and_read_back(tmp_path: Path) -> None:
    named = [
        {"name": "Plain", "method": "fedavg"},
        {"name": "FedAvg, b", "method": ["fedavg", "balanced_softmax"]},
    ]
    run_here(tiny_sweep(methods=named, base={"evaluate": {"every": 1}}), tmp_path / "out")
    runs = read_results([tmp_path / "out"])
    text = collect.result_file(runs, "counterpoise compare tiny.toml", "abc1234")
    (tmp_path / "tiny.csv").write_text(text)

    head = text.splitlines()[:4]
    assert head[0] == "# counterpoise compare tiny.toml"
    assert "torch" in head[1]
    assert head[2:] == [
        "# commit abc1234",
        "# seeds 0 to 1; scores after the last round; the best of 2 evaluations",
    ]
    for score, pick in (("accuracy", lambda seen: seen[-1]), ("best_accuracy", max)):
        read = verdicts.read_results(tmp_path / "tiny.csv", score)
        assert set(read) == {"Plain", verdicts._run("FedAvg, b", {})}
        for run in (run for run in runs if run.config["method"] == "fedavg"):
            expected = pick([row["accuracy"] for row in run.scored])
            assert read["Plain"].values[run.seed] == pytest.approx(100 * expected, abs=0.006)  # four digits


def test_a_result_file_may_stop_at_a_round_that_was_scored(tmp_path: Path) -> None:
    run_here(tiny_sweep(methods=["fedavg"], base={"rounds": 3, "evaluate": {"every": 2}}), tmp_path / "out")
    runs = read_results([tmp_path / "out"])
    text = collect.result_file(runs, "counterpoise compare tiny.toml", "abc1234", rounds=2)
    assert "# seeds 0 to 1; scores after the first 2 rounds; the best of 1 evaluations" in text
    (tmp_path / "tiny.csv").write_text(text)
    [read] = verdicts.read_results(tmp_path / "tiny.csv", "accuracy").values()
    for run in runs:
        assert read.values[run.seed] == pytest.approx(100 * run.rows[1]["accuracy"], abs=0.006)
    for rounds in (1, 4):  # not scored, not reached
        with pytest.raises(ConfigError, match=f"no run that was scored after {rounds} rounds"):
            collect.result_file(runs, "", "", rounds)


def test_a_result_file_needs_a_finished_run() -> None:
    with pytest.raises(ConfigError, match="no finished run"):
        collect.result_file([], "", "")
