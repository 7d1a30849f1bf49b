"""A run in which no client can be used any more stops, says why, and can be resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import assert_refused, call, read_summary, result, rounds_done, tiny, write_tiny

from counterpoise.errors import RunError
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import read_rows

EXPLODING = ("rounds=12", "local.lr=1e30")
STUNNED = ("local.lr=1e30", "local.schedule={steps={at=[3], by=1e-31}}")  # the first three rounds
FAILING = ("local.lr=0.1", "local.schedule={steps={at=[2], by=1e31}}")  # from the third round on


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


def test_a_run_that_is_resumed_counts_the_rounds_before(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="5 rounds in a row"):
        start(tiny(*EXPLODING), tmp_path / "run")
    for rounds in (6, 7):  # it tries once, in case that an outage is over
        with pytest.raises(RunError, match=f"{rounds} rounds in a row were skipped: .* continue with"):
            resume(tmp_path / "run")
        assert skipped_rounds(tmp_path / "run") == rounds


def test_a_run_that_comes_to_itself_goes_on_as_long_as_any(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="2 rounds in a row"):
        start(tiny(*STUNNED, "rounds=6", "engine.max_skipped=2"), tmp_path / "run")
    with pytest.raises(RunError, match="3 rounds in a row"):
        resume(tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("max_skipped = 2", "max_skipped = 4"))
    assert resume(tmp_path / "run")["skipped_rounds"] == 3
    whole = start(tiny(*STUNNED, "rounds=6", "engine.max_skipped=100"), tmp_path / "whole")
    assert result(read_summary(tmp_path / "run")) == result(whole)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (("rounds=3", "local.lr=1e30"), "all 3 rounds were skipped"),
        (("rounds=1", "local.lr=1e30"), "all 1 rounds were skipped"),
        (("rounds=4", *FAILING), "its last 2 rounds were skipped"),
        (("rounds=3", *FAILING), "its last round was skipped"),
    ],
)
def test_a_run_that_trained_nothing_or_ends_in_skipped_rounds_has_no_result(
    tmp_path: Path, setting: tuple[str, ...], words: str
) -> None:
    folder, why = tmp_path / "run", (words, "no reply could be used", "lower local.lr")
    ended = call("run", write_tiny(tmp_path, *setting), "--out", folder)
    assert_refused(ended, 4, f"{folder} has no result", *why)
    assert "resume" not in ended.err  # it would end so again
    for _ in range(2):
        assert_refused(call("resume", folder), 4, *why)
    assert not (folder / "summary.json").exists()
    listed = call("ls", "runs", folder)
    assert f"failed, round {rounds_done(folder)} of {rounds_done(folder)}" in listed.out
    assert words in listed.out


def test_a_run_resumed_to_its_last_round_has_no_result_either(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert call("run", write_tiny(tmp_path, *EXPLODING, "rounds=8"), "--out", folder).code == 4
    for rounds in (6, 7):
        assert_refused(call("resume", folder), 4, f"{rounds} rounds in a row were skipped")
    for _ in range(3):
        again = call("resume", folder)
        assert_refused(again, 4, "all 8 rounds were skipped")
        assert again.out == ""


def test_a_skipped_round_before_the_last_is_no_end(tmp_path: Path) -> None:
    assert start(tiny(*STUNNED, "rounds=4"), tmp_path / "run")["skipped_rounds"] == 3


def test_a_run_that_was_given_up_in_its_midst_has_no_result_at_its_end(tmp_path: Path) -> None:
    """As in a table: whoever wants it all the same asks for more patience."""
    config = tmp_path / "run" / "config.toml"
    with pytest.raises(RunError):
        start(tiny(*STUNNED, "rounds=4", "engine.max_skipped=3"), tmp_path / "run")
    with pytest.raises(RunError, match="has no result: 3 rounds in a row were skipped"):
        resume(tmp_path / "run")
    config.write_text(config.read_text().replace("max_skipped = 3", "max_skipped = 4"))
    assert resume(tmp_path / "run")["skipped_rounds"] == 3
