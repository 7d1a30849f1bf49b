"""A run in which no client can be used any more stops, says why, and can be resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import assert_refused, call, read_summary, result, tiny, write_tiny

from counterpoise.errors import RunError
from counterpoise.experiment.folder import read_rows
from counterpoise.experiment.runner import resume, start

EXPLODING = ("rounds=12", "local.lr=1e30")


def skipped_rounds(folder: Path) -> int:
    return sum(row["skipped"] for row in read_rows(folder / "metrics.jsonl"))


def test_a_run_without_a_usable_reply_ends_after_five_rounds(tmp_path: Path) -> None:
    command = ("run", write_tiny(tmp_path, *EXPLODING), "--out", tmp_path / "run")
    words = (
        "5 rounds in a row were skipped: of 2 clients asked 2 replied",
        "no reply could be used (",
        "resume",
    )
    assert_refused(call(*command), 4, *words)
    assert skipped_rounds(tmp_path / "run") == 5
    assert len(list((tmp_path / "run" / "checkpoints").glob("round-*.json"))) == 3
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize("most", [1, 3])
def test_the_number_of_rounds_is_the_users(tmp_path: Path, most: int) -> None:
    with pytest.raises(RunError, match=f"{most} rounds in a row"):
        start(tiny(*EXPLODING, f"engine.max_skipped={most}"), tmp_path / "run")
    assert skipped_rounds(tmp_path / "run") == most


def test_a_run_goes_on_with_another_number_to_the_same_end(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        start(tiny(*EXPLODING), tmp_path / "run")
    with pytest.raises(RunError, match="5 rounds in a row"):  # it tries again as long
        resume(tmp_path / "run")
    assert skipped_rounds(tmp_path / "run") == 10
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("max_skipped = 5", "max_skipped = 100"))
    resume(tmp_path / "run")
    assert read_summary(tmp_path / "run")["skipped_rounds"] == 12
    whole = start(tiny(*EXPLODING, "engine.max_skipped=100"), tmp_path / "whole")
    assert result(read_summary(tmp_path / "run")) == result(whole)
