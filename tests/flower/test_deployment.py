"""A real superlink and real supernodes on loopback, with TLS and node authentication."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from chaos import relay
from deployed import (
    SETTING,
    Deployed,
    deployed,
    drop_out_sha,
    embedded_sha,
    experiment,
    leftovers,
    replied,
    rounds_done,
    wait_until,
)

from counterpoise.engines.flower import processes
from counterpoise.engines.flower.certs import make_certs
from counterpoise.engines.flower.deployment import Link, register, start_superlink, start_supernode
from counterpoise.engines.flower.job import ClientFile, JobFolder, write_client_file
from counterpoise.errors import RunError
from counterpoise.experiment.config import make_experiment
from counterpoise.experiment.folder import RunFolder, read_rows
from counterpoise.experiment.toml import write_toml

KILLS = int(os.environ.get("COUNTERPOISE_KILLS", "1"))  # in one run, each at another moment
NODE_LOST = 70.0  # seconds in which Flower tells that a node is gone
UPLOAD_LOST = 200.0  # and where it was sending its reply: Flower waits 180 s for the rest

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
def test_group_momentum_and_two_trainings_in_one_message_equal_one_process_bit_for_bit(
    tmp_path: Path,
) -> None:
    """FedCGNM at a rate, and FedHOO scored on the server's samples and on what clients hold out."""
    held = {"partition": {**SETTING["partition"], "validation": 0.2}}
    kept = {"data": {**SETTING["data"], "validation": 0.2}}
    rated = ["fedcgnm", {"resample": {"rate": 0.6}}]
    runs = [(rated, kept), (["fedcgnm", "fedhoo"], kept), (["fedavg", {"fedhoo": {"warmup": 0}}], held)]
    found, expected = [], []
    with deployed(tmp_path / "net") as net:
        for method, tables in runs:
            config = make_experiment({**SETTING, "method": method, "rounds": 4, **tables})
            found.append(net.run(config, tmp_path / f"out-{len(found)}"))
            expected.append(embedded_sha(config, tmp_path / f"alone-{len(found)}"))
    assert [summary["params_sha256"] for summary in found] == expected
    assert [summary["skipped_rounds"] for summary in found] == [0, 0, 0]


def _reach_the_middle(out: Path, moment: int) -> None:
    """Some time into the round after the next one that ends."""
    _await_row(out)
    time.sleep(random.Random(moment).uniform(0, 12))


def _await_row(out: Path) -> None:
    known = rounds_done(out)
    wait_until(lambda: rounds_done(out) > known, 600)


def _check_rows(out: Path, alone: Path) -> None:
    """Rounds so far are those of the undisturbed run."""
    rows = read_rows(RunFolder(out).metrics)
    assert rows == read_rows(RunFolder(alone).metrics)[: len(rows)]


@pytest.mark.deploy
def test_a_run_whose_server_app_is_killed_resumes_to_the_undisturbed_run(tmp_path: Path) -> None:
    config, out = experiment("scaffold", 2 + 2 * KILLS), tmp_path / "out"
    undisturbed = embedded_sha(config, tmp_path / "alone")
    with deployed(tmp_path / "net") as net:
        ready = net.launch(config, out)
        for moment in range(KILLS):
            _reach_the_middle(out, moment)
            os.kill(int(JobFolder(out).process.read_text()), signal.SIGKILL)
            with pytest.raises(RunError, match="server app ended"):
                net.finish(ready)
            _check_rows(out, tmp_path / "alone")
            ready = net.launch(None, out)
        summary = net.finish(ready)
    assert summary["params_sha256"] == undisturbed


@pytest.mark.deploy
def test_a_run_whose_superlink_is_killed_resumes_to_the_undisturbed_run(tmp_path: Path) -> None:
    config, out = experiment("scaffold", 2 + 2 * KILLS), tmp_path / "out"
    undisturbed = embedded_sha(config, tmp_path / "alone")
    with deployed(tmp_path / "net") as net:
        ready = net.launch(config, out)
        for moment in range(KILLS):
            _reach_the_middle(out, moment)
            net.kill_superlink()
            with pytest.raises(RunError, match=r"superlink ended|server app ended"):
                net.finish(ready)
            _check_rows(out, tmp_path / "alone")
            net.restart_superlink()
            ready = net.launch(None, out)
        summary = net.finish(ready)
    assert summary["params_sha256"] == undisturbed


def _lose_node(net: Deployed, out: Path) -> float:
    """Kill node 1; seconds until a round has ended without it."""
    known, began = rounds_done(out), time.monotonic()
    net.kill_node("1")
    wait_until(lambda: 1 in replied(out)[known:], 600)
    return time.monotonic() - began


@pytest.mark.deploy
def test_a_killed_node_is_a_drop_out_and_finds_its_memory_when_it_is_back(tmp_path: Path) -> None:
    """Of our own time-out a round would wait ten minutes; the lost node is reported sooner."""
    config, out = experiment("scaffold", 2 + 8 * KILLS), tmp_path / "out"
    waited = []
    with deployed(tmp_path / "net") as net:
        ready = net.launch(config, out)
        for moment in range(KILLS):
            # The first as a round begins, when no reply can be on its way.
            _reach_the_middle(out, moment) if moment else _await_row(out)
            waited.append(_lose_node(net, out))
            net.start_node("1")
            wait_until(lambda: replied(out)[-1] == 2, 600)
        summary = net.finish(ready)
    print("seconds from each kill to the end of its round:", [round(seconds) for seconds in waited])
    assert waited[0] <= NODE_LOST
    assert max(waited) <= UPLOAD_LOST
    assert summary["skipped_rounds"] == summary["rejected_replies"] == 0
    absent = [number for number, count in enumerate(replied(out)) if count == 1]
    assert summary["params_sha256"] == drop_out_sha(config, tmp_path / "alone", 1, absent)


@pytest.mark.deploy
def test_a_command_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(write_toml(experiment("fedavg", 50).tables()))
    words = ["flower", "up", str(file), "--out", str(tmp_path / "out")]
    command = subprocess.Popen([processes.program("counterpoise"), *words])
    wait_until(lambda: rounds_done(tmp_path / "out") >= 1, 600)
    command.kill()
    command.wait()
    wait_until(lambda: leftovers(tmp_path) == [], 120)


@pytest.mark.deploy
def test_intruders_are_refused_and_receive_no_byte_of_the_model(tmp_path: Path) -> None:
    """An unregistered key, another authority, and plain text, each in the name of client 0."""
    config = experiment("fedavg", 1)
    with deployed(tmp_path / "net") as net:
        stranger = make_certs(tmp_path / "other", ["0"])
        assert net.link.certs is not None
        links = {
            "unregistered": (net.link, stranger.private_key("0")),
            "authority": (net.link._replace(certs=stranger), None),
            "plain": (net.link._replace(certs=None), None),
        }
        for name, (link, key) in links.items():
            place = tmp_path / name
            write_client_file(place / "client.json", ClientFile("0", str(place)))
            net.nodes[name] = start_supernode("0", link, place / "client.json", place / "home", tmp_path / f"{name}.log", key)  # fmt: skip
        summary = net.run(config, tmp_path / "out")
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    for name in links:
        log = (tmp_path / f"{name}.log").read_text()
        assert "Starting Flower SuperNode" in log
        assert "Receiving" not in log


@pytest.mark.deploy
def test_a_server_whose_certificate_has_expired_is_refused(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "net")
    folder.open()
    certs = make_certs(tmp_path / "certs", ["0"], days=0)
    link = Link("127.0.0.1", processes.free_port(), certs)
    superlink = start_superlink(folder, link)
    write_client_file(tmp_path / "0" / "client.json", ClientFile("0", str(tmp_path / "0")))
    node = start_supernode("0", link, tmp_path / "0" / "client.json", tmp_path / "home", tmp_path / "0.log")
    try:
        time.sleep(15)
        with pytest.raises(RunError):
            register(folder, certs, "0")
    finally:
        processes.stop([superlink, node])
    assert "SuperNode ID" not in (tmp_path / "0.log").read_text()


@pytest.mark.deploy
def test_a_bad_network_delays_a_run_and_changes_nothing(tmp_path: Path) -> None:
    """200 ms a packet, 5% of connections reset, one cut of 20 s; no round times out."""
    config, out = experiment("scaffold", 2), tmp_path / "out"
    with deployed(tmp_path / "net", start_nodes=False) as net, relay(net.link.port) as line:
        for name in net.names:
            net.start_node(name, net.link._replace(port=line.port))
        ready = net.launch(config, out)
        wait_until(lambda: rounds_done(out) >= 1, 900)
        line.cut(20.0)
        summary = net.finish(ready)
    assert line.counts["connections"] > 0
    assert line.counts["reset"] + line.counts["cut"] > 0
    assert summary["rejected_replies"] == 0
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
