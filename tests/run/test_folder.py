"""A run's folder: who may write it, names it gets, and logs that are cut back to a checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import ConfigError, DataError
from counterpoise.run.store.folder import RunFolder, next_folder, read_rows

LOCK = """
import pathlib, sys
from counterpoise.errors import ConfigError
from counterpoise.run.store.folder import RunFolder
try:
    with RunFolder(pathlib.Path(sys.argv[1])).locked():
        print("locked")
except ConfigError as error:
    print(error)
"""


def try_to_lock(folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", LOCK, folder], capture_output=True, text=True, check=True
    ).stdout


def test_a_second_process_is_refused_while_the_first_holds_the_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.locked():
        assert f"{tmp_path} is being written by another process" in try_to_lock(tmp_path)
    assert try_to_lock(tmp_path) == "locked\n"


def test_a_second_run_in_this_process_is_refused_too(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.locked(), pytest.raises(ConfigError, match="another process"), RunFolder(tmp_path).locked():
        pass


def test_a_folder_that_holds_a_run_is_not_free(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "my run")
    folder.create()
    folder.create()
    folder.config.touch()
    with pytest.raises(
        ConfigError, match=r"holds a run already; continue with `counterpoise resume '.*my run'`"
    ):
        folder.create()


@pytest.mark.parametrize("name", ["file", "file/inside", "x" * 5000, "a\0b"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    folder = RunFolder(tmp_path / name)
    assert not folder.holds_run()
    with pytest.raises(ConfigError, match="cannot be created"):
        folder.create()


def test_a_lock_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"), RunFolder(tmp_path).locked():
        pass


def test_the_way_on_depends_on_what_is_there(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert "run it again" in folder.resume_hint()
    folder.config.touch()
    assert folder.resume_hint() == f"continue with `counterpoise resume {tmp_path}`"


def test_rows_are_appended_and_read_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    rows: list[dict[str, Any]] = [{"round": 0, "loss": 0.5}, {"round": 1, "loss": None}]
    assert read_rows(folder.metrics) == []
    for row in rows:
        folder.append(folder.metrics, row)
    assert read_rows(folder.metrics) == rows


@pytest.mark.parametrize("line", [b"{", b"3", b"\xff", b"[" * 100_000, b""])
def test_a_damaged_row_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"round": 0}\n' + line + b"\n")
    with pytest.raises(DataError, match=r"metrics\.jsonl, row 2: damaged"):
        read_rows(path)


def test_logs_are_cut_to_a_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append(folder.metrics, {"round": 0})
    folder.append(folder.timing, {"round": 0, "seconds": 0.1})
    marks, before = folder.mark_logs(), (folder.metrics.read_bytes(), folder.timing.read_bytes())
    folder.append(folder.metrics, {"round": 1})
    folder.timing.write_bytes(before[1] + b'{"torn')
    folder.check_logs(marks)
    folder.cut_logs(marks)
    assert (folder.metrics.read_bytes(), folder.timing.read_bytes()) == before


@pytest.mark.parametrize("log", ["metrics.jsonl", "timing.jsonl"])
def test_a_log_shorter_than_the_checkpoint_is_seen(tmp_path: Path, log: str) -> None:
    folder = RunFolder(tmp_path)
    folder.append(folder.metrics, {"round": 0})
    folder.append(folder.timing, {"round": 0})
    marks = folder.mark_logs()
    (tmp_path / log).write_bytes(b"")
    with pytest.raises(DataError, match=f"{log} is shorter"):
        folder.check_logs(marks)


def test_a_log_of_somebody_elses_is_no_part_of_what_a_checkpoint_knows(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append(tmp_path / "traffic.jsonl", {"round": 0})
    assert read_rows(tmp_path / "traffic.jsonl") == [{"round": 0}]
    assert folder.mark_logs().keys() == {"metrics.jsonl", "timing.jsonl"}


@pytest.mark.parametrize("log", ["metrics.jsonl", "timing.jsonl"])
def test_a_log_with_another_digit_than_at_the_checkpoint_is_seen(tmp_path: Path, log: str) -> None:
    folder = RunFolder(tmp_path)
    for path in (folder.metrics, folder.timing):
        folder.append(path, {"round": 0})
    marks = folder.mark_logs()
    folder.append(tmp_path / log, {"round": 1})
    folder.check_logs(marks)
    (tmp_path / log).write_text('{"round": 3}\n{"round": 1}\n')
    with pytest.raises(DataError, match=f"{log} has changed"):
        folder.check_logs(marks)


def test_a_log_goes_on_from_where_it_was_cut(tmp_path: Path) -> None:
    folder, again = RunFolder(tmp_path), RunFolder(tmp_path)
    for path in (folder.metrics, folder.timing):
        folder.append(path, {"round": 0})
    marks = folder.mark_logs()
    folder.append(folder.metrics, {"round": 1})
    again.cut_logs(marks)
    again.append(again.metrics, {"round": 1})
    assert again.mark_logs() == folder.mark_logs()
    assert again.read_log(again.metrics) == folder.metrics.read_bytes()


def test_numbers_go_up_and_labels_are_tame(tmp_path: Path) -> None:
    base = tmp_path / "runs"
    assert next_folder(base, "fedavg-digits") == base / "001-fedavg-digits"
    for name in ("001-a", "009-b", "x-3", "12", "notes-old"):
        (base / name).mkdir(parents=True)
    assert next_folder(base, "fedavg+focal-x") == base / "010-fedavg+focal-x"


@pytest.mark.parametrize(
    "label",
    ["../../up", "/etc/passwd", "a\0b", "a b", "~", "$(rm)", "\u202egnp", "x" * 5000, "C:\\x", "a\nb"],
)
def test_no_label_leads_out_of_the_folder(tmp_path: Path, label: str) -> None:
    folder = next_folder(tmp_path, label)
    assert folder.parent == tmp_path
    assert folder.resolve().parent == tmp_path.resolve()
    folder.mkdir()
