"""How well the class that matters is found, told where a run ends and where it is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import call, read_summary, write_tiny

import counterpoise as cp
from counterpoise.report.outcome import class_lines
from counterpoise.report.pictures import Pictures
from counterpoise.run.listener import Listener


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pictures, "began", Listener.began)
    monkeypatch.setattr(Pictures, "ended", Listener.ended)


def finished(folder: Path, *assignments: str) -> tuple[str, dict[str, Any]]:
    """What a run on a table with two classes printed, and its summary."""
    rows = "\n".join(
        f"{row % 9 + 3 * (row % 5 == 0)},{'ill' if row % 5 == 0 else 'well'}" for row in range(200)
    )
    (folder / "t.csv").write_text(f"x,state\n{rows}\n")
    data = f'data={{ name = "table", path = "{folder / "t.csv"}", label = "state", validation = 0.2 }}'
    file = write_tiny(folder, "rounds=2", data)
    code, out, err = call("run", file, *assignments, "--out", folder / "run")
    assert code == 0, err
    return out, read_summary(folder / "run")


def percents(recall: float, precision: float) -> str:
    return f"recall {100 * recall:.1f} %, precision {100 * precision:.1f} %"


def test_the_rarest_class_is_named_with_its_recall_and_precision(tmp_path: Path) -> None:
    out, summary = finished(tmp_path)
    recall, precision = (summary[f"per_class_{score}"][0] for score in ("recall", "precision"))
    line = f"class ill, the rarest: {percents(recall, precision)}"
    assert out.splitlines()[-2:] == [line, str(tmp_path / "run")]
    assert line in call("show", tmp_path / "run").out.splitlines()
    assert line in str(cp.load_run(tmp_path / "run"))
    assert "positive_class" not in summary


def test_the_positive_class_has_a_second_line_at_its_threshold(tmp_path: Path) -> None:
    out, summary = finished(tmp_path, "data.positive=well", "evaluate.threshold=f1")
    lines = [
        f"class well: {percents(summary['positive_recall'], summary['positive_precision'])}",
        f"at the threshold, a probability of {summary['threshold']:.4g}: "
        + percents(summary["threshold_recall"], summary["threshold_precision"]),
    ]
    assert out.splitlines()[-3:-1] == lines
    assert "\n".join(lines) in call("show", tmp_path / "run").out
    printed = str(cp.load_run(tmp_path / "run"))
    assert lines[0] in printed.splitlines()[2]
    assert "at the threshold" not in printed  # told in the line of answers alone
    told = percents(summary["threshold_recall"], summary["threshold_precision"])
    assert printed.replace(lines[0], "").count(told) == 1


def test_what_is_unknown_is_said_or_left_out() -> None:
    positive = {
        "positive_class": "a\x1b",
        "positive_recall": 0.5,
        "positive_precision": None,
        "threshold": None,
    }
    assert class_lines(positive) == [
        r"class a\u001b: recall 50.0 %, precision unknown",
        "no threshold would do on the validation samples",
    ]
    assert class_lines({}) == []
    assert class_lines({"rarest_class": "9", "rarest_class_recall": 0.5, "tail": 0.4}) == []


def test_where_no_class_is_the_rarest_none_is_named() -> None:
    data = cp.load_data("digits")
    outcome = cp.simulate(cp.split(data, clients=2), rounds=1)
    counts = data.train.y.bincount().tolist()
    assert ("rarest_class" in outcome) == (counts.count(min(counts)) == 1)
