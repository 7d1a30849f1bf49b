"""A real superlink and real supernodes on loopback, with TLS and node authentication."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import deployed, embedded_sha, experiment, rounds_done, wait_until

from counterpoise.engines.flower.job import JobFolder
from counterpoise.errors import RunError

METHODS: list[Any] = [
    "fedavg",
    "fedavgm",
    "scaffold",
    "feddyn",
    "fedcm",
    ["scaffold", {"sam": {}}, "balanced_softmax"],
]


def test_a_deployment_with_tls_and_node_keys_equals_one_process_bit_for_bit(tmp_path: Path) -> None:
    config = experiment("scaffold", 2)
    with deployed(tmp_path / "net") as net:
        summary = net.run(config, tmp_path / "out")
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    assert summary["rejected_replies"] == 0
    assert summary["skipped_rounds"] == 0


@pytest.mark.deploy
def test_every_kind_of_method_equals_one_process_bit_for_bit(tmp_path: Path) -> None:
    found, expected = {}, {}
    with deployed(tmp_path / "net", 4) as net:
        for method in METHODS:
            config = experiment(method, 3, 4)
            found[str(method)] = net.run(config, tmp_path / f"out-{len(found)}")["params_sha256"]
            expected[str(method)] = embedded_sha(config, tmp_path / f"alone-{len(found)}")
    assert found == expected


@pytest.mark.deploy
def test_a_killed_server_app_resumes_to_the_undisturbed_run(tmp_path: Path) -> None:
    config, out = experiment("scaffold", 3), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        ready = net.launch(config, out)
        wait_until(lambda: rounds_done(out) >= 1, 180)
        os.kill(int(JobFolder(out).process.read_text()), signal.SIGKILL)
        with pytest.raises(RunError, match="server app ended"):
            net.finish(ready)
        assert rounds_done(out) < 3
        summary = net.run(None, out)
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")


@pytest.mark.deploy
def test_a_killed_superlink_resumes_to_the_undisturbed_run(tmp_path: Path) -> None:
    config, out = experiment("scaffold", 3), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        ready = net.launch(config, out)
        wait_until(lambda: rounds_done(out) >= 1, 180)
        net.kill_superlink()
        with pytest.raises(RunError, match=r"superlink ended|server app ended"):
            net.finish(ready)
        net.restart_superlink()
        summary = net.run(None, out)
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")


@pytest.mark.deploy
def test_a_killed_node_is_a_drop_out_and_finds_its_memory_when_it_is_back(tmp_path: Path) -> None:
    config, out = experiment("scaffold", 6), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        ready = net.launch(config, out)
        wait_until(lambda: rounds_done(out) >= 1, 180)
        net.kill_node("1")
        wait_until(lambda: rounds_done(out) >= 3, 300)
        net.start_node("1")
        summary = net.finish(ready)
        from counterpoise.experiment.folder import RunFolder, read_rows

        rows = read_rows(RunFolder(out).metrics)
    assert summary["skipped_rounds"] == 0
    assert any(row["loss"] is not None and row["replied"] - len(row["rejected"]) == 1 for row in rows)
    assert rows[-1]["replied"] == 2
    assert rows[-1]["rejected"] == []
