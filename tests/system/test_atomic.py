"""Files are whole or not there, whatever fails while they are written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from counterpoise.system.atomic import clear_temporaries, write_atomically

FAULTS = [errno.ENOSPC, errno.EIO, errno.EDQUOT]


def failing(fault: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(fault, os.strerror(fault))

    return fail


def test_what_is_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"new"}


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("fault", FAULTS, ids=os.strerror)
def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, fault: int
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(fault))
        with pytest.raises(OSError, match=os.strerror(fault)):
            write_atomically(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_disk_that_is_full_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / f".partial-{os.getpid()}-a").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("x")
    for path in (tmp_path / "no" / "a", tmp_path / "folder", tmp_path / "text" / "a"):
        with pytest.raises(OSError, match=r"Errno") as caught:
            write_atomically(path, b"new")
        assert caught.value.filename == str(path)
        assert ".partial" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "text"]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_atomically(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_content_is_durable_before_it_is_in_place_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(handle: int) -> None:
        calls.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        sync(handle)

    def note_replace(source: Path, target: Path) -> None:
        assert source.read_bytes() == b"new"
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(tmp_path / "a", b"new")
    assert calls == ["file", "replace", "folder"]


def test_no_handle_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    write_atomically(tmp_path / "a", b"x")
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    for _ in range(5):
        with pytest.raises(OSError, match="Input/output"):
            write_atomically(tmp_path / "a", b"x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_temporaries_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in (".partial-1-a", ".partial-99-b.json", "partial-1-a", "a", ".lock"):
        (tmp_path / name).touch()
    clear_temporaries(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "a", "partial-1-a"]


def test_there_may_be_no_folder_to_clear(tmp_path: Path) -> None:
    clear_temporaries(tmp_path / "nothing")
