"""Runs as tasks of a small local Ray."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
from runs import assert_refused, call, finish, spawn
from sweeps import ends_of, run_here, tiny_sweep, write_tiny_sweep

FAILING = {"name": "too many", "partition": {"name": "dirichlet", "clients": 100_000}}


@pytest.mark.slow
def test_a_sweep_on_ray_comes_to_the_same_end(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    run_here(tiny_sweep(seeds=1), tmp_path / "here")
    sweep = write_tiny_sweep(tmp_path, seeds=1, problems=[{"name": ""}, FAILING])
    done = finish(spawn("compare", sweep, "--on", "ray", "--processes", 2, "--out", tmp_path / "ray"))
    assert done.code == 4
    assert len(done.err.splitlines()) == 1
    assert "error: failed: 2 runs, the first" in done.err
    assert ends_of(tmp_path / "ray") == ends_of(tmp_path / "here")
    failure = tmp_path / "ray" / "runs" / "fedavg-too-many-seed0" / "failure.json"
    assert "100000 clients" in json.loads(failure.read_text())["error"]


def test_without_ray_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def no_ray(name: str, *given: Any, **options: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return plain(name, *given, **options)

    monkeypatch.setattr(builtins, "__import__", no_ray)
    refused = call("compare", write_tiny_sweep(tmp_path), "--on", "ray", "--out", tmp_path / "out")
    assert_refused(refused, 2, "pip install 'counterpoise[ray]'")
