"""`counterpoise report` of a sweep is the sweep's page again; of other folders it shows what can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import assert_refused, call, reseal
from sweeps import run_here, tiny_sweep

METHODS = [
    {"name": "strong", "method": {"fedprox": {"mu": 1.0}}},
    {"name": "slow", "method": "fedavg", "local": {"lr": 0.01}},
]
TABLE = {"score": "macro_f1", "at": "best", "baseline": "slow"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept") / "out"
    run_here(tiny_sweep(methods=METHODS, seeds=3, table=TABLE), out)
    return out


def test_the_page_of_a_sweep_is_written_again_as_it_was(swept: Path) -> None:
    before = (swept / "report.html").read_bytes()
    (swept / "report.html").unlink()
    assert call("report", swept).code == 0
    assert (swept / "report.html").read_bytes() == before


def test_seeds_that_the_sweep_no_longer_has_are_left_out(swept: Path, tmp_path: Path) -> None:
    run_here(tiny_sweep(methods=METHODS, seeds=2, table=TABLE), swept)
    before = (swept / "report.html").read_bytes()
    assert call("report", swept).code == 0
    assert (swept / "report.html").read_bytes() == before


def test_options_come_before_those_of_the_sweep(swept: Path, tmp_path: Path) -> None:
    given = ("--score", "tail", "--baseline", "strong", "--at", "last", "--out", tmp_path / "other.html")
    assert call("report", swept, *given).code == 0
    page = (tmp_path / "other.html").read_text()
    assert "strong" in page
    assert page != (swept / "report.html").read_text()


def test_a_sweep_is_read_by_a_score_that_only_one_problem_has(tmp_path: Path) -> None:
    """It was refused as if runs were to begin, with a key that nobody had written."""
    rows = "".join(f"{k % 7},{'yes' if k % 3 else 'no'}\n" for k in range(60))
    (tmp_path / "own.csv").write_text(f"age,sick\n{rows}")
    own = {"name": "table", "path": str(tmp_path / "own.csv"), "label": "sick", "positive": "no"}
    run_here(
        tiny_sweep(problems=[{"name": "own", "data": own}, {"name": "digits"}], seeds=1), tmp_path / "out"
    )
    assert call("report", tmp_path / "out", "--score", "positive_f1").code == 0
    assert_refused(call("report", tmp_path / "out", "--score", "threshold_f1"), 2, "no run has the score")


def test_a_folder_that_cannot_be_read_is_left_out_of_a_report(
    swept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for path in (good, bad):
        path.mkdir()
        for file in (swept / "runs" / "slow-seed0").rglob("*"):
            target = path / file.relative_to(swept / "runs" / "slow-seed0")
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_file():
                target.write_bytes(file.read_bytes())
    config = (bad / "config.toml").read_text()
    (bad / "config.toml").write_text(config.replace('method = "fedavg"', 'method = "of_mine"'))
    reseal(bad)
    assert call("report", tmp_path).code == 0
    assert "bad: method: no method or part 'of_mine'" in caplog.text
    assert_refused(call("report", bad), 2, "no method or part 'of_mine'")


def test_a_page_is_written_to_an_html_file_alone(swept: Path, tmp_path: Path) -> None:
    """`report --out sweep.toml` took the place of the sweep, without a word."""
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "notes.md").write_text("mine")
    for out in (swept / "sweep.toml", tmp_path / "notes.md", tmp_path / "report"):
        assert_refused(call("report", swept, "--out", out), 2, f"ends in .html, not {out}")
    assert_refused(call("report", swept, "--out", tmp_path / "folder.html"), 2, "which is a folder")
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert call("report", swept, "--out", tmp_path / "new" / "page.html").code == 0


def test_a_sweep_that_has_not_begun_is_refused(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_bytes((swept / "sweep.toml").read_bytes())
    assert_refused(call("report", tmp_path), 2, "has not begun")
