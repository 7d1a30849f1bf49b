"""Real servers and clients on loopback, with TLS and node keys, and what they come to."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from chaos import relay
from deployed import (
    SETTING,
    deployed,
    drop_out_sha,
    embedded_sha,
    experiment,
    kill,
    leftovers,
    replied,
    rounds_done,
    run_program,
    wait_until,
)

from counterpoise.core.codec import digest
from counterpoise.core.tree import Tree
from counterpoise.flower import children, commands
from counterpoise.flower.job import JobFolder
from counterpoise.flower.memory import DiskMemory
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.folder import RunFolder, read_rows
from counterpoise.system.toml import write_toml

KILLS = int(os.environ.get("COUNTERPOISE_KILLS", "1"))  # in one run, each at another moment
GONE = 75.0  # seconds in which a node that says nothing counts as gone
SLOW: dict[str, Any] = {
    "local": {"batch_size": 1, "epochs": 4}
}  # rounds long enough to be hit in their middle

METHODS: list[Any] = [
    "fedavg",
    "fedavgm",
    "scaffold",
    "feddyn",
    "fedcm",
    ["scaffold", {"sam": {}}, "balanced_softmax"],
]


def test_a_deployment_with_tls_and_node_keys_equals_one_process_bit_for_bit(tmp_path: Path) -> None:
    config = experiment("scaffold", 5, 3)
    summary = commands.up(config, tmp_path / "out")
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    assert summary["rejected_replies"] == 0
    assert summary["skipped_rounds"] == 0
    assert leftovers(tmp_path) == []


@pytest.mark.deploy
def test_300_rounds_of_three_clients_equal_one_process_bit_for_bit(tmp_path: Path) -> None:
    config = experiment("scaffold", 300, 3)
    summary = commands.up(config, tmp_path / "out")
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    assert replied(tmp_path / "out") == [3] * 300


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


JUDGED = {"partition": {**SETTING["partition"], "clients": 4, "validation": 0.2}, "cohort": {"size": 3}}


@pytest.mark.deploy
@pytest.mark.parametrize(
    ("method", "kept"),
    [
        ("fedbal", None),
        ({"fedrela": {"at": 2, "tau": 30.0, "audit": "flow"}}, "relabel"),
        ({"fedsat": {"workers": 3}}, "drift_correction"),
    ],
    ids=["fedbal", "fedrela", "fedsat"],
)
def test_balancers_new_labels_and_judging_workers_equal_one_process_bit_for_bit(
    method: Any, kept: str | None, tmp_path: Path
) -> None:
    """The model, what each client keeps on its own disk, and what parts tell of themselves."""
    config, out, alone = experiment(method, 6, **JUDGED), tmp_path / "out", tmp_path / "alone"
    summary = commands.up(config, out)
    assert summary["params_sha256"] == embedded_sha(config, alone)
    there, here = _kept_by_clients(out), _kept_in(alone)
    assert {name: digest(own) for name, own in there.items()} == {n: digest(own) for n, own in here.items()}
    assert {part for own in there.values() for part in own} == ({kept} if kept else set())
    told = [[row["diagnostics"] for row in read_rows(RunFolder(run).metrics)] for run in (out, alone)]
    assert told[0] == told[1]
    if kept == "relabel":  # labels changed, and other rounds came after it
        assert np.sum(told[0][-2]["relabel"]["flow"]) > 0


def _kept_by_clients(out: Path) -> dict[str, Tree]:
    """Client -> the newest memory in its own folder."""
    folder, found = JobFolder(out), {}
    for place in folder.clients.iterdir():
        disk = DiskMemory(place, folder.run_id(), place.name)
        if disk.folder.is_dir():
            newest = max(disk.folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            found[place.name] = disk.load(newest.name) or {}
    return found


def _kept_in(out: Path) -> dict[str, Tree]:
    """Client -> its memory at the end of a run in one process."""
    saved = CheckpointStore(RunFolder(out).checkpoints).load()
    assert saved is not None
    return {str(client): own for client, own in saved.memory.items()}


def _reach_the_middle(out: Path, moment: int) -> None:
    """Some time into the round after the next one that ends."""
    known = rounds_done(out)
    wait_until(lambda: rounds_done(out) > known, 300)
    time.sleep(random.Random(moment).uniform(0, 0.3))


def test_a_killed_server_goes_on_to_the_undisturbed_end(tmp_path: Path) -> None:
    """Its clients stay, come back by themselves, and go back to the memory of its checkpoint."""
    config, out = experiment("scaffold", 4 + 4 * KILLS, **SLOW), tmp_path / "out"
    undisturbed = embedded_sha(config, tmp_path / "alone")
    with deployed(tmp_path / "net") as net:
        server = net.start_server(config, out)
        for moment in range(KILLS):
            _reach_the_middle(out, moment)
            kill(server)
            known, expected = (
                read_rows(RunFolder(out).metrics),
                read_rows(RunFolder(tmp_path / "alone").metrics),
            )
            assert known == expected[: len(known)]
            server = net.start_server(None, out)
        summary = net.finish(out)
    assert summary["params_sha256"] == undisturbed


@pytest.mark.deploy
def test_a_client_that_is_killed_and_started_again_answers_the_same_message_again(tmp_path: Path) -> None:
    """The round waits for it, so that the run comes to the undisturbed end; its memory is found again."""
    config, out = experiment("scaffold", 4 + 4 * KILLS, **SLOW), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        net.start_server(config, out)
        for moment in range(KILLS):
            _reach_the_middle(out, moment)
            kill(net.nodes["1"])
            net.start_node("1")
        summary = net.finish(out)
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    assert set(replied(out)) == {2}


@pytest.mark.deploy
def test_a_client_that_is_gone_for_good_is_a_drop_out_until_it_is_back(tmp_path: Path) -> None:
    """Of its own time-out a round would wait ten minutes; a node that says nothing is given up sooner.

    The rounds of one client last longer than the other takes to start.
    """
    config, out = experiment("scaffold", 60, **SLOW), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        net.start_server(config, out)
        _reach_the_middle(out, 0)
        known, began = rounds_done(out), time.monotonic()
        kill(net.nodes["1"])
        wait_until(lambda: 1 in replied(out)[known:], 600)
        assert time.monotonic() - began <= GONE
        net.start_node("1")
        wait_until(lambda: replied(out)[-1] == 2, 60)
        summary = net.finish(out)
    absent = [number for number, count in enumerate(replied(out)) if count == 1]
    assert summary["params_sha256"] == drop_out_sha(config, tmp_path / "alone", 1, absent)


@pytest.mark.deploy
def test_a_client_that_is_stopped_politely_leaves_its_round_at_once(tmp_path: Path) -> None:
    config, out = experiment("fedavg", 12, **SLOW), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        net.start_server(config, out)
        _reach_the_middle(out, 0)
        known, began = rounds_done(out), time.monotonic()
        net.nodes["1"].process.terminate()
        wait_until(lambda: 1 in replied(out)[known:], 30)
        assert time.monotonic() - began < 30
        net.finish(out)


@pytest.mark.deploy
def test_up_starts_a_client_again_that_died(tmp_path: Path) -> None:
    file, out = tmp_path / "experiment.toml", tmp_path / "out"
    config = experiment("scaffold", 8, **SLOW)
    file.write_text(write_toml(config.tables()))
    words = ["flower", "up", str(file), "--out", str(out)]
    command = children.start("up", [*children.program(), *words], tmp_path / "up.log")
    try:
        wait_until(lambda: rounds_done(out) >= 1, 300)
        _end_a_client(out)
        assert command.process.wait(300) == 0
    finally:
        children.stop([command])
    assert "is restarted" in (tmp_path / "up.log").read_text()
    assert (
        f'"params_sha256": "{embedded_sha(config, tmp_path / "alone")}"' in RunFolder(out).summary.read_text()
    )


def _end_a_client(out: Path) -> None:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if str(JobFolder(out).clients / "1").encode() in words:
                os.kill(int(place.name), 9)


@pytest.mark.deploy
def test_a_command_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(write_toml(experiment("fedavg", 500).tables()))
    words = ["flower", "up", str(file), "--out", str(tmp_path / "out")]
    command = children.start("up", [*children.program(), *words], tmp_path / "up.log")
    wait_until(lambda: rounds_done(tmp_path / "out") >= 1, 300)
    command.process.kill()
    command.process.wait()
    wait_until(lambda: leftovers(tmp_path) == [], 60)


@pytest.mark.deploy
def test_up_goes_on_at_once_after_a_kill(tmp_path: Path) -> None:
    file, out = tmp_path / "experiment.toml", tmp_path / "out"
    config = experiment("scaffold", 30)
    file.write_text(write_toml(config.tables()))
    words = ["flower", "up", str(file), "--out", str(out)]
    command = children.start("up", [*children.program(), *words], tmp_path / "up.log")
    wait_until(lambda: rounds_done(out) >= 2, 300)
    command.process.kill()
    command.process.wait()
    began = time.monotonic()
    done = run_program("flower", "up", "--resume", out, "--json")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 120
    assert embedded_sha(config, tmp_path / "alone") in done.stdout


@pytest.mark.deploy
def test_a_bad_network_delays_a_run_and_changes_nothing(tmp_path: Path) -> None:
    """200 ms per packet, 5% of connections reset, one cut of 20 s; no round times out."""
    config, out = experiment("scaffold", 6), tmp_path / "out"
    with deployed(tmp_path / "net", start_nodes=False) as net, relay(net.port) as line:
        for name in net.names:
            net.start_node(name, line.port)
        net.start_server(config, out)
        wait_until(lambda: rounds_done(out) >= 1, 900)
        line.cut(20.0)
        summary = net.finish(out)
    assert line.counts["connections"] > 0
    assert line.counts["reset"] + line.counts["cut"] > 0
    assert summary["rejected_replies"] == 0
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
