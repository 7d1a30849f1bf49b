"""Tiny runs on the digits, in this process and in others, for tests of runs, resume and the command line."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from counterpoise.cli import main
from counterpoise.run.config.experiment import Experiment, binding, make_experiment
from counterpoise.run.listener import Listener
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.seal import SEAL, digest_of, seal
from counterpoise.system.toml import override, read_toml, write_toml

TINY: dict[str, Any] = {
    "rounds": 4,
    "method": "fedavg",
    "data": {"name": "digits", "imbalance": 10.0},
    "partition": {"clients": 4, "alpha": 0.5},
    "cohort": {"size": 2},
    "model": {"name": "mlp", "hidden": [8]},
    "local": {"batch_size": 64},
}

COMMAND = (sys.executable, "-c", "from counterpoise.cli import main; main()")
PATIENCE = 120.0  # seconds after which something that must happen is said not to


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def tiny(*assignments: str) -> Experiment:
    """The tiny experiment with values put in as on the command line."""
    tables = TINY
    for assignment in assignments:
        tables = override(tables, assignment)
    return make_experiment(tables)


def write_tiny(folder: Path, *assignments: str) -> Path:
    """The tiny experiment as a file."""
    path = folder / "tiny.toml"
    tables = TINY
    for assignment in assignments:
        tables = override(tables, assignment)
    path.write_text(write_toml(tables))
    return path


def call(*arguments: object) -> Finished:
    """A command in this process."""
    out, err = io.StringIO(), io.StringIO()
    given = mock.patch.object(sys, "argv", ["counterpoise", *map(str, arguments)])
    with given, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Finished(code, out.getvalue(), err.getvalue())


def spawn(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A command in a process of its own; `env` adds to the environment."""
    env = {**os.environ, **options.pop("env", {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*COMMAND, *map(str, arguments)], text=True, env=env, **pipes)


def finish(process: subprocess.Popen[str]) -> Finished:
    out, err = process.communicate(timeout=PATIENCE)
    return Finished(process.returncode, out, err)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a run; numbers that JSON does not have are refused."""
    return dict(read_strictly((folder / "summary.json").read_text()))


def reseal(path: Path, summary: Mapping[str, Any] | None = None) -> None:
    """Make the files of a run, which a test has changed, pass for what it wrote; with a summary it is finished."""
    folder = RunFolder(path)
    record, summary = _unsealed(folder.record), summary or _unsealed(folder.summary)
    folder.write_json(folder.record, seal(record))
    if not summary:
        return
    logs = (folder.metrics, folder.timing)
    files = {log.name: hashlib.sha256(log.read_bytes()).hexdigest() for log in logs}
    files |= {"config.toml": digest_of(binding(read_toml(folder.config))), "record.json": digest_of(record)}
    folder.write_json(folder.summary, seal({**summary, "files_sha256": files}))


def _unsealed(file: Path) -> dict[str, Any]:
    content = json.loads(file.read_bytes()) if file.exists() else {}
    return {key: value for key, value in content.items() if key != SEAL}


def read_strictly(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def result(summary: Mapping[str, Any]) -> tuple[str, str]:
    """What two runs that came to the same end share: the model, and all that was kept beside it."""
    return summary["params_sha256"], summary["state_sha256"]


def rounds_done(folder: Path) -> int:
    log = folder / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_until(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {PATIENCE:g} s")
        time.sleep(0.01)


def assert_refused(finished: Finished, code: int, *words: str) -> None:
    """One line that names what is wrong, and the exit code for it."""
    assert finished.code == code, finished
    lines = finished.err.splitlines()
    assert len(lines) == 1, finished.err
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in finished.err
    assert "should not happen" not in finished.err


class Hearing(Listener):
    """Calls a function after each round."""

    def __init__(self, hear: Callable[[Mapping[str, Any], int], None]) -> None:
        self._hear = hear

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        self._hear(row, rounds)
