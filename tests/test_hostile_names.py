"""Names that want out: as a run, a client, a data set or a piece of a checkpoint, none reads or writes outside its folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from runs import assert_refused, call, tiny, write_tiny

from counterpoise.data.download import download
from counterpoise.errors import ConfigError
from counterpoise.flower.job import check_name
from counterpoise.run import runner
from counterpoise.run.store.folder import next_folder
from counterpoise.sweep.jobs import expand
from counterpoise.sweep.specs import as_name
from counterpoise.sweep.sweep import make_sweep

NAMES = [
    "..", ".", "../x", "../../x", "../../../../../../../../etc/passwd", "a/../../x", "a/../../../x", "./../x", "x/..", "..//..//x", "....//x",
    "/", "/etc/passwd", "/etc/shadow", "//etc/passwd", "/proc/self/environ", "/dev/null", "/tmp/x", "file:///etc/passwd", "~", "~root", "~/x",
    "$HOME", "${HOME}/x", "$(touch x)", "`touch x`", "; touch x", "| touch x", "&& touch x", "x\0y", "\0", "../x\0.toml", "x" * 255, "x" * 256,
    "x" * 4096, "../" * 1365, "C:\\x", "C:/x", "C:x", "\\\\server\\share", "..\\..\\x", "CON", "nul.txt", "x.", " x ", "-rf", "--out=x", "*", "?",
    "\u202egnp.exe", "\u2066../x\u2069", "x\ny", "x\ry", "\x1b[31m", "%2e%2e%2fx", "%s%n", "{0.__class__}", "．．／x", "‥/x", "outside", "link/x", "",
]  # fmt: skip


def identify(name: str) -> str:
    return ascii(name)[:24]


# Python tells of every file that is opened, made, moved or removed; the hook cannot be taken away, so it is switched.
SEEN: list[str] = []
LISTENING: list[bool] = []
FOREIGN = ["/etc/passwd", "/etc/shadow", "/proc/self/environ"]
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.listdir", "os.scandir")  # fmt: skip


def hear(event: str, arguments: tuple[Any, ...]) -> None:
    if LISTENING and event in EVENTS:
        SEEN.extend(os.fsdecode(word) for word in arguments if isinstance(word, str | bytes | os.PathLike))


sys.addaudithook(hear)


@contextmanager
def guarded(folder: Path) -> Iterator[Path]:
    """A place to work in, beside files that nobody may touch."""
    inside, outside = folder / "a" / "b" / "inside", folder / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    secrets = [outside / "secret", folder / "x", folder / "a" / "x", folder / "a" / "b" / "x"]
    for secret in secrets:
        secret.write_text("secret")
    (inside / "link").symlink_to(outside)
    before = times_beside(folder, inside)
    SEEN.clear()
    LISTENING.append(True)
    try:
        yield inside
    finally:
        LISTENING.clear()
    assert times_beside(folder, inside) == before
    touched = {os.path.realpath(os.path.join(inside, path)) for path in SEEN if "\0" not in path}
    assert not touched & {os.path.realpath(path) for path in (*secrets, outside, *FOREIGN)}


def times_beside(folder: Path, inside: Path) -> dict[Path, int]:
    """When whatever does not lie inside was changed last."""
    found = (path for path in folder.rglob("*") if inside not in (path, *path.parents))
    return {path: path.stat().st_mtime_ns for path in found}


def test_the_guard_sees_a_read_and_a_write(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), guarded(tmp_path / "1") as inside:
        (inside / "link" / "secret").read_text()
    with pytest.raises(AssertionError), guarded(tmp_path / "2") as inside:
        (inside / ".." / "new").mkdir()
    with pytest.raises(AssertionError), guarded(tmp_path / "3"):
        Path("/etc/passwd").read_bytes()
    with guarded(tmp_path / "4") as inside:
        (inside / "own").write_text("x")


@pytest.mark.parametrize("name", NAMES, ids=identify)
def test_a_run_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    with guarded(tmp_path) as inside:
        folder = next_folder(inside, name)
        folder.mkdir()
        assert folder.resolve().parent == inside.resolve()


@pytest.mark.parametrize("name", [name for name in NAMES if name], ids=identify)
def test_runs_of_a_sweep_stay_in_its_folder(name: str, tmp_path: Path) -> None:
    tables = {
        "methods": [{"name": name, "method": "fedavg"}, {"name": name + "2", "method": "fedprox"}],
        "base": {"data": {"name": "digits"}, "rounds": 1},
    }
    with guarded(tmp_path) as inside:
        for job in expand(make_sweep(tables)):
            job.path(inside).mkdir(parents=True)
            assert job.path(inside).resolve().parent == (inside / "runs").resolve()
    assert "/" not in as_name(name)


@pytest.mark.parametrize("name", NAMES, ids=identify)
def test_a_data_set_a_model_or_a_method_is_none_of_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(tmp_path) as inside:
        monkeypatch.chdir(inside)
        experiment = write_tiny(inside)
        for key in ("data.name", "model.name", "method"):
            table, _, inner = key.partition(".")
            given = json.dumps(name, ensure_ascii=False)
            assert_refused(
                call("run", experiment, f"{table}={{{inner}={given}}}" if inner else f"{key}={given}"), 2
            )
        with pytest.raises(ConfigError):
            download(name, inside)
        assert {path.name for path in inside.iterdir()} == {"tiny.toml", "link"}


@pytest.mark.parametrize("name", NAMES, ids=identify)
def test_a_client_has_a_plain_name_or_none(name: str) -> None:
    try:
        check_name(name)
    except ConfigError:
        return
    assert Path("states", name).parent == Path("states")
    assert name not in (".", "..")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    runner.start(tiny("rounds=1", "method=scaffold"), folder)
    return folder


@pytest.mark.parametrize("place", ["server", "memory"])
@pytest.mark.parametrize("name", NAMES, ids=identify)
def test_a_checkpoint_reads_no_file_but_its_own(
    name: str, place: str, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment in ("began", "ended"):
        monkeypatch.setattr(f"counterpoise.report.pictures.Pictures.{moment}", lambda *_: None)
    with guarded(tmp_path) as inside:
        shutil.copytree(finished, inside / "run")
        (path,) = (inside / "run" / "checkpoints").glob("round-*.json")
        body = json.loads(path.read_text())["body"]
        body[place] = name if place == "server" else dict.fromkeys(body["memory"], name)
        seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({"body": body, "sha256": seal}))
        assert call("resume", inside / "run").code == 0  # which starts again


def test_there_are_enough_of_them() -> None:
    assert len({*NAMES}) >= 50
