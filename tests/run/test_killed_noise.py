"""Noise on class counts after kill -9: the sum that was kept is used again, or another one is asked for and its epsilon counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kill_noisy_runs import EPSILON

pytest.importorskip("cryptography", reason="pip install 'counterpoise[privacy]'")

SCRIPT = Path(__file__).with_name("kill_noisy_runs.py")
HELPERS = [SCRIPT.parent, SCRIPT.parents[1], SCRIPT.parents[1] / "flower"]


def kill_runs(kind: str, base: Path, *names: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    paths = os.pathsep.join([*map(str, HELPERS), *sys.path])
    said = subprocess.run(
        [sys.executable, SCRIPT, kind, base, *names],
        capture_output=True, text=True, timeout=1200, check=True, env={**os.environ, "PYTHONPATH": paths},
    ).stdout  # fmt: skip
    whole, *killed = [json.loads(line) for line in said.splitlines()]
    assert whole["finished"]
    assert [one["number"] for one in killed if one["finished"]] == []
    return whole, killed


def check_noise(whole: dict[str, Any], killed: list[dict[str, Any]]) -> None:
    """No noise comes twice, what was kept is used, and what was not is asked for again with other noise and counted."""
    every = [tuple(noise) for one in (whole, *killed) for noise in one["noise"]]
    assert len(set(every)) == len(every) >= len(killed)
    assert spent(whole) == 1
    for one in killed:
        sums = [[max(number, 0) for number in sent] for sent in one["sent"]]
        assert one["used"] == sums[-1], one
        if one["kept"] is not None:
            assert one["kept"] == one["used"], one
            assert len(one["noise"]) == one["before"], one  # nobody was asked again


def spent(one: dict[str, Any]) -> int:
    """How many sums the record says were paid for."""
    return round(one["tallied"]["epsilon_spent"] / EPSILON)


def check_alone(whole: dict[str, Any], killed: list[dict[str, Any]]) -> None:
    """A sum of a process that dies before it writes a config is nobody's."""
    check_noise(whole, killed)
    for one in killed:
        assert spent(one) == (len(one["noise"]) if one["began"] else 1), one


def test_a_killed_run_uses_the_sum_that_it_kept_or_counts_another(tmp_path: Path) -> None:
    whole, killed = kill_runs("alone", tmp_path, "round-00000000.json")
    check_alone(whole, killed)
    assert [one["kept"] is None for one in killed] == [True, False]
    assert [spent(one) for one in killed] == [2, 1]


@pytest.mark.faults
def test_a_run_killed_at_every_call_that_writes_reuses_no_noise(tmp_path: Path) -> None:
    whole, killed = kill_runs("alone", tmp_path, "all")
    check_alone(whole, killed)
    assert len(killed) > 50
    assert {spent(one) for one in killed} == {1, 2}


def check_over_flower(whole: dict[str, Any], killed: list[dict[str, Any]]) -> None:
    """A server counts a sum before it asks, also in a start that never became a run."""
    check_noise(whole, killed)
    for one in killed:
        assert len(one["noise"]) <= spent(one) <= len(one["noise"]) + 1, one


@pytest.mark.parametrize(
    ("kind", "name"),
    [("own", "roster.json"), pytest.param("shares", "config.toml", marks=pytest.mark.faults)],
)
def test_a_killed_server_counts_every_sum_that_clients_answered(kind: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")
    whole, killed = kill_runs(kind, tmp_path, name)
    check_over_flower(whole, killed)
    assert [spent(one) for one in killed] == [2, 2]


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["shares", "own"])
def test_a_server_killed_at_every_call_until_the_sum_is_kept_reuses_no_noise(
    kind: str, tmp_path: Path
) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")
    whole, killed = kill_runs(kind, tmp_path, "start")
    check_over_flower(whole, killed)
    assert len(killed) > 30
    assert {spent(one) for one in killed} == {1, 2}
