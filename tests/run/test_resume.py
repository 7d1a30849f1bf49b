"""Resume: to the same end from any checkpoint, never with anything that would lead to another one."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import (
    Hearing,
    assert_refused,
    call,
    read_summary,
    result,
    rounds_done,
    spawn,
    tiny,
    wait_until,
    write_tiny,
)

from counterpoise.errors import RunError
from counterpoise.results.results import read_result
from counterpoise.run.runner import resume, start
from counterpoise.run.store import checkpoint, facts
from counterpoise.run.store import folder as run_folder
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.record import versions
from counterpoise.system.toml import override, read_toml, write_toml

ROUNDS = 5
SETTING = ("method=scaffold", "engine.name=stacked", f"rounds={ROUNDS}")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run of SCAFFOLD, which has a state on the server and on each client."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    start(tiny(*SETTING), folder)
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def forget_rounds(folder: Path, left: int) -> None:
    """Take the folder back to where only the first `left` checkpoints of those kept had been written."""
    for manifest in sorted((folder / "checkpoints").glob("round-*.json"))[left:]:
        manifest.unlink()


def temporaries(folder: Path) -> list[Path]:
    return list(folder.rglob(".partial-*"))


def test_resuming_a_finished_run_changes_nothing(copy: Path) -> None:
    kept = ["metrics.jsonl", "timing.jsonl", "config.toml", "record.json", "model.safetensors"]
    before = {name: (copy / name).read_bytes() for name in kept}
    summary = read_summary(copy)
    assert resume(copy) == summary
    assert read_summary(copy) == summary
    assert {name: (copy / name).read_bytes() for name in kept} == before


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_run_goes_on_from_any_checkpoint_to_the_same_end(copy: Path, left: int) -> None:
    forget_rounds(copy, left)
    log = (copy / "metrics.jsonl").read_bytes()
    assert result(resume(copy)) == result(read_summary(copy))
    assert (copy / "metrics.jsonl").read_bytes() == log
    assert (copy / "timing.jsonl").read_bytes().count(b"\n") == ROUNDS


def test_without_checkpoints_it_starts_again(copy: Path, finished: Path) -> None:
    shutil.rmtree(copy / "checkpoints")
    assert result(resume(copy)) == result(read_summary(finished))


def test_rows_written_after_the_checkpoint_are_written_once(copy: Path, finished: Path) -> None:
    forget_rounds(copy, 1)
    with (copy / "metrics.jsonl").open("ab") as log:
        log.write(b'{"round": 5, "torn')
    assert result(resume(copy)) == result(read_summary(finished))
    assert (copy / "metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("log", ["metrics.jsonl", "timing.jsonl"])
@pytest.mark.parametrize("rows", [0, 4])
def test_a_log_that_lost_rows_sends_the_run_back_to_where_it_has_them(
    copy: Path, finished: Path, log: str, rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (copy / log).read_bytes().splitlines(keepends=True)
    (copy / log).write_bytes(b"".join(lines[:rows]))
    assert result(resume(copy)) == result(read_summary(finished))
    assert rounds_done(copy) == ROUNDS
    assert f"{log} is shorter" in caplog.text
    assert ("going on from round 4" if rows else "starting again") in caplog.text


def flip(log: Path, row: int) -> None:
    """Another digit in a row."""
    lines = log.read_bytes().splitlines(keepends=True)
    place = lines[row].rfind(next(digit for digit in (b"1", b"3", b"5", b"7") if digit in lines[row]))
    lines[row] = lines[row][:place] + b"9" + lines[row][place + 1 :]
    log.write_bytes(b"".join(lines))


def content_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("log", ["metrics.jsonl", "timing.jsonl"])
@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_a_changed_digit_in_the_last_row_sends_the_run_back_behind_it(
    copy: Path, finished: Path, log: str, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    flip(copy / log, -1)
    if state == "stopped":
        (copy / "summary.json").unlink()
    assert result(resume(copy)) == result(read_summary(copy)) == result(read_summary(finished))
    assert (copy / "metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()
    assert f"{log} has changed since the checkpoint was written; going on from round 4" in caplog.text


@pytest.mark.parametrize("log", ["metrics.jsonl", "timing.jsonl"])
@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_a_digit_changed_before_every_checkpoint_is_refused_and_nothing_is_lost(
    copy: Path, finished: Path, log: str, state: str
) -> None:
    flip(copy / log, 0)
    if state == "stopped":
        (copy / "summary.json").unlink()
    before = content_of(copy)
    assert_refused(call("resume", copy), 3, f"{log} has changed", "put it back, or start a new run")
    assert content_of(copy) == before
    shutil.copy(finished / log, copy / log)
    assert result(resume(copy)) == result(read_summary(finished))


def test_a_log_that_is_changed_while_the_run_is_at_work_is_not_sealed(tmp_path: Path, finished: Path) -> None:
    folder = tmp_path / "run"

    def meddle(row: Any, rounds: int) -> None:
        if row["round"] == rounds - 1:
            flip(folder / "metrics.jsonl", -1)

    with pytest.raises(
        RunError, match=r"metrics.jsonl was changed while the run was writing it; continue with"
    ):
        start(tiny(*SETTING), folder, [Hearing(meddle)])
    assert not (folder / "summary.json").exists()
    assert result(resume(folder)) == result(read_summary(finished))


def test_a_run_that_goes_back_is_not_finished_until_it_is_again(copy: Path) -> None:
    forget_rounds(copy, 1)
    there: list[bool] = []
    resume(copy, [Hearing(lambda row, rounds: there.append((copy / "summary.json").exists()))])
    assert there == [False, False]
    assert (copy / "summary.json").exists()


def test_a_run_that_starts_again_forgets_what_it_had(copy: Path) -> None:
    (copy / "metrics.jsonl").write_bytes(b"")
    there: list[list[str]] = []

    def look(*_: Any) -> None:
        there.append(sorted(path.name for path in copy.glob("checkpoints/round-*")))

    resume(copy, [Hearing(look)])
    assert there[0] == ["round-00000001.json"]


@pytest.mark.parametrize("spoil", [b"", b"{}", b'{"data": 3}', b"[", b"null", b"flip"])
def test_a_damaged_record_is_written_again(
    copy: Path, spoil: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = (copy / "record.json").read_bytes()
    (copy / "record.json").write_bytes(before.replace(b"digits", b"digjts") if spoil == b"flip" else spoil)
    resume(copy)
    assert (copy / "record.json").read_bytes() == before
    assert "record.json is damaged" in caplog.text
    assert read_result(copy).has_result


def test_checkpoints_of_a_long_run_do_not_read_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    hash_up_to = run_folder.hash_up_to
    monkeypatch.setattr(
        run_folder, "hash_up_to", lambda path, size: [read.append(size), hash_up_to(path, size)][1]
    )
    start(tiny("rounds=6"), tmp_path / "run")
    assert read == []
    forget_rounds(tmp_path / "run", 1)
    resume(tmp_path / "run")
    assert len(read) == 4  # each log once to be checked and once to go on, however many rounds follow


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(
    copy: Path, finished: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = copy / "checkpoints" / "round-00000005.json"
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        assert result(resume(copy)) == result(read_summary(finished))
    assert "round-00000005.json is damaged" in caplog.text
    assert "going on from round 4" in caplog.text


def test_what_was_left_half_written_is_cleared(copy: Path) -> None:
    for place in (copy, copy / "checkpoints", copy / "checkpoints" / "blobs"):
        (place / ".partial-77-x").write_bytes(b"half")
    resume(copy)
    assert temporaries(copy) == []


def test_a_new_run_clears_what_a_killed_one_left(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / ".partial-77-config.toml").write_bytes(b"half")
    start(tiny("rounds=1"), folder)
    assert temporaries(folder) == []


CHANGES = [
    ("seed=1", "seed was 0 and is 1"),
    ("rounds=9", "rounds was 5 and is 9"),
    ("method=fedavg", "method was 'scaffold' and is 'fedavg'"),
    ("method={scaffold={server_lr=0.5}}", "method was 'scaffold' and is"),
    ("data.imbalance=20.0", "data.imbalance was 10.0 and is 20.0"),
    ("data.seed=1", "data.seed was 0 and is 1"),
    ("data.validation=0.1", "data.validation was 0.0 and is 0.1"),
    ("partition.clients=5", "partition.clients was 4 and is 5"),
    ("partition.alpha=0.6", "partition.alpha was 0.5 and is 0.6"),
    ("partition.name=dirichlet_capped", "partition.name was 'dirichlet' and is 'dirichlet_capped'"),
    ("partition.seed=7", "partition.seed was None and is 7"),
    ("cohort.size=3", "cohort.size was 2 and is 3"),
    ("cohort.sampling=bernoulli", "cohort.sampling was 'exact' and is 'bernoulli'"),
    ("model.hidden=[9]", "model.hidden was [8] and is [9]"),
    ("local.lr=0.2", "local.lr was 0.1 and is 0.2"),
    ("local.schedule=cosine", "local.schedule was 'constant' and is 'cosine'"),
    ("local.batch_size=32", "local.batch_size was 64 and is 32"),
    ("local.epochs=2", "local.epochs was 1 and is 2"),
    ("local.clip=1.0", "local.clip was None and is 1.0"),
    ("engine.name=loop", "engine.name was 'stacked' and is 'loop'"),
    ("engine.chunk=1", "engine.chunk was 2 and is 1"),
    ("engine.dtype=float64", "engine.dtype was 'float32' and is 'float64'"),
    ("evaluate.every=2", "evaluate.every was 1 and is 2"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES, ids=[change for change, _ in CHANGES])
def test_a_changed_field_is_refused_by_its_name(copy: Path, change: str, words: str) -> None:
    config = copy / "config.toml"
    config.write_text(write_toml(override(read_toml(config), change)))
    before = {path.name for path in (copy / "checkpoints").iterdir()}
    assert_refused(call("resume", copy), 2, str(copy), words)
    assert {path.name for path in (copy / "checkpoints").iterdir()} == before


def test_a_run_of_a_config_with_an_old_argument_name_goes_on(tmp_path: Path) -> None:
    old, new = (tiny("rounds=3", f"method={{scaffold={{{name}=0.5}}}}") for name in ("server", "server_lr"))
    folder = tmp_path / "old"
    start(old, folder)
    written = (folder / "config.toml").read_bytes()
    assert b"server = 0.5" in written
    forget_rounds(folder, 1)
    assert result(resume(folder)) == result(start(new, tmp_path / "new"))
    assert (folder / "config.toml").read_bytes() == written


def test_put_back_it_goes_on(copy: Path, finished: Path) -> None:
    forget_rounds(copy, 1)
    config = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(config.replace("lr = 0.1", "lr = 0.2"))
    assert call("resume", copy).code == 2
    (copy / "config.toml").write_text(config)
    assert result(resume(copy)) == result(read_summary(finished))


@pytest.mark.parametrize("change", ["checkpoint.every=2", "checkpoint.keep=9"])
def test_what_leaves_the_result_as_it_is_may_change(copy: Path, finished: Path, change: str) -> None:
    forget_rounds(copy, 1)
    config = copy / "config.toml"
    config.write_text(write_toml(override(read_toml(config), change)))
    assert result(resume(copy)) == result(read_summary(finished))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_other_numbers_of_processes_may_go_on_with_a_run_of_the_loop_engine(
    before: int, after: int, tmp_path: Path
) -> None:
    whole = start(tiny("method=scaffold", "engine.name=loop", f"engine.processes={before}"), tmp_path / "run")
    forget_rounds(tmp_path / "run", 1)
    config = tmp_path / "run" / "config.toml"
    config.write_text(write_toml(override(read_toml(config), f"engine.processes={after}")))
    assert result(resume(tmp_path / "run")) == result(whole)


@pytest.mark.parametrize("package", ["torch", "numpy", "counterpoise", "python"])
def test_another_version_is_refused_by_its_name(
    copy: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = versions() | {package: "0.0.1"}
    monkeypatch.setattr(facts, "versions", lambda model: other)
    assert_refused(call("resume", copy), 2, f"{package} was", "0.0.1")


def test_another_form_of_checkpoint_is_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SCHEMA", 3)
    assert_refused(call("resume", copy), 2, "has schema 2; this version reads 3")


@pytest.mark.parametrize("spoil", ["", "rounds = 0", "nonsense = 1", "\x00", "[", "seed = 1\nseed = 2"])
def test_a_spoilt_config_is_refused(copy: Path, spoil: str) -> None:
    (copy / "config.toml").write_text(spoil)
    assert_refused(call("resume", copy), 2)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in (".", "missing", "file", "x" * 5000, "../.."):
        assert_refused(call("resume", tmp_path / name), 2, "holds no run: there is no config.toml in it")


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    assert_refused(call("resume", tmp_path), 2, "Is a directory")


def test_a_run_at_work_cannot_be_resumed_beside_it(tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, "rounds=100000")
    process = spawn("run", experiment, "--out", tmp_path / "run")
    try:
        wait_until(lambda: rounds_done(tmp_path / "run") > 0, "the first round")
        assert_refused(call("resume", tmp_path / "run"), 2, "is being written by another process")
        assert_refused(call("run", experiment, "--out", tmp_path / "run"), 2, "holds a run already")
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


# Disks that fail


class Failing:
    """A system call that fails from the n-th time on, as a full disk does."""

    def __init__(self, call: Callable[..., Any], after: int, fault: int) -> None:
        self.call, self.left, self.fault = call, after, fault

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.fault, os.strerror(self.fault), "some file")
        return self.call(*arguments, **named)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
@pytest.mark.parametrize(
    ("name", "after"),
    [("fsync", n) for n in (0, 1, 6, 9, 13, 17, 26)] + [("replace", n) for n in (0, 1, 2, 3, 5)],
)
def test_a_failing_disk_ends_the_run_and_spoils_nothing(
    tmp_path: Path, finished: Path, name: str, after: int, fault: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, experiment = tmp_path / "run", write_tiny(tmp_path, *SETTING)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, Failing(getattr(os, name), after, fault))
        stopped = call("run", experiment, "--out", folder)
    assert_refused(stopped, 4, os.strerror(fault))
    assert temporaries(folder) == []
    if not RunFolder(folder).holds_run():
        assert "run it again" in stopped.err
        assert call("run", experiment, "--out", folder).code == 0
    else:
        assert f"continue with `counterpoise resume {folder}`" in stopped.err
        newest = CheckpointStore(folder / "checkpoints").load()
        assert (newest.round if newest else 0) >= rounds_done(folder) - 1
        resume(folder)
    assert result(read_summary(folder)) == result(read_summary(finished))
    assert temporaries(folder) == []


@pytest.mark.parametrize("log", ["metrics.jsonl", "timing.jsonl"])
def test_a_log_on_a_full_disk_ends_the_run(tmp_path: Path, log: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / log).symlink_to("/dev/full")
    with pytest.raises(RunError, match=r"No space left on device; continue with `counterpoise resume"):
        start(tiny(), folder)


@pytest.mark.parametrize("name", ["round-00000003.json", "round-00000005.json"])
def test_a_checkpoint_on_a_full_disk_leaves_the_one_before(tmp_path: Path, finished: Path, name: str) -> None:
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / f".partial-{os.getpid()}-{name}").symlink_to("/dev/full")
    with pytest.raises(RunError, match="No space left on device"):
        start(tiny(*SETTING), folder)
    newest = CheckpointStore(folder / "checkpoints").load()
    assert newest is not None
    assert newest.round == int(name[6:14]) - 1
    assert result(resume(folder)) == result(read_summary(finished))


def test_a_failing_disk_while_resuming_ends_it_too(
    copy: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_rounds(copy, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Failing(os.replace, 1, errno.ENOSPC))
        assert_refused(call("resume", copy), 4, "No space left", "counterpoise resume")
    assert result(resume(copy)) == result(read_summary(finished))


def test_checkpoints_cost_what_the_cohort_changed(tmp_path: Path) -> None:
    start(tiny("method=scaffold", "partition.clients=20", "rounds=12", "checkpoint.keep=2"), tmp_path / "run")
    blobs = list((tmp_path / "run" / "checkpoints" / "blobs").iterdir())
    names = [
        set(json.loads(path.read_text())["body"]["memory"].values())
        for path in sorted((tmp_path / "run" / "checkpoints").glob("round-*.json"))
    ]
    assert len(names[1] - names[0]) <= 2  # the cohort
    assert len(blobs) <= 2 + len(names[0]) + 2
