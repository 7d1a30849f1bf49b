"""The commands of the guide as a server and two clients on machines of their own would give them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import free_port, leftovers
from own_files import KINDS, ROWS, SECRET, client_files, server_config

from counterpoise.flower import children
from counterpoise.system.toml import write_toml

STOPPED = 4  # exit status of a client that was told to stop
END = 60.0  # seconds in which it must have ended


@contextmanager
def at_work(*words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    command = subprocess.Popen([*children.program(), "flower", *map(str, words)])
    try:
        yield command
    finally:
        command.terminate()
        command.wait(END)


@pytest.mark.deploy
def test_clients_with_files_of_different_kinds_take_part_in_run_after_run(tmp_path: Path) -> None:
    """Client a has an npz file, client b a pack; what the server keeps shows nothing of either."""
    flower = {"clients": list(ROWS), "wait": 600.0}
    config = server_config(tmp_path, KINDS["arrays"], list(ROWS), flower=flower)
    (tmp_path / "experiment.toml").write_text(write_toml(config.tables()))
    port = free_port()
    names = [word for name in ROWS for word in ("--client", name)]
    subprocess.run([*children.program(), "flower", "certs", str(tmp_path / "certs"), *names], check=True)
    a, b = (_client(tmp_path, name, kind, port) for name, kind in zip(ROWS, ("arrays", "pack"), strict=True))
    server: list[str | Path] = [
        "server",
        tmp_path / "experiment.toml",
        "--port",
        str(port),
        "--certs",
        tmp_path / "certs",
    ]
    with at_work(*a) as first, at_work(*b) as second:
        for number in range(2):
            with at_work(*server, "--out", tmp_path / f"out-{number}") as run:
                assert run.wait(900) == 0
            _check_run(tmp_path / f"out-{number}")
    assert (first.returncode, second.returncode) == (STOPPED, STOPPED)
    assert leftovers(tmp_path) == []


def _client(path: Path, name: str, kind: str, port: int) -> list[str | Path]:
    data, state = client_files(path / kind, KINDS[kind])[name], path / SECRET / name
    given: list[str | Path] = ["--client", name, "--data", str(data), "--state", state]
    return ["client", *given, "--certs", path / "certs", "--server", f"127.0.0.1:{port}"]


def _check_run(out: Path) -> None:
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rejected_replies"] == summary["skipped_rounds"] == 0
    record = json.loads((out / "record.json").read_text())
    assert (record["samples"][0], record["clients"]) == (48, None)
    assert not [path for path in out.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
