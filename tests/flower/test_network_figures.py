"""The figures of the reliability promises that need many runs: privacy, one model for all, bad networks, a soak."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from chaos import relay
from deployed import deployed, embedded_sha, experiment, kill, replied, rounds_done, wait_until
from local_grid import over_flower
from local_net import Net
from own_files import KINDS, ROWS, SECRET, client_files, server_config

from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.tree import tmap
from counterpoise.errors import CounterpoiseError
from counterpoise.flower import client

NETWORKS = int(os.environ.get("COUNTERPOISE_NETWORKS", "20"))
SOAK_ROUNDS = int(os.environ.get("COUNTERPOISE_SOAK_ROUNDS", "1000"))
KILL_EVERY = 60.0  # seconds of a soak


@pytest.mark.parametrize("runs", [4, pytest.param(100, marks=pytest.mark.faults)])
def test_nothing_of_a_clients_data_or_paths_reaches_the_server(
    runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """T31: canaries in paths, words of columns and the text of exceptions, raised in every third run."""
    real, found, rng = client._train_tasks, 0, random.Random(0)
    for number in range(runs):
        path, kind = tmp_path / str(number), KINDS[list(KINDS)[number % len(KINDS)]]
        path.mkdir()
        config, files = server_config(path, kind, list(ROWS), rounds=2), client_files(path, kind)

        def failing(*given: Any, path: Path = path, number: int = number) -> Any:
            if number % 3 == 0 and rng.random() < 0.5:
                raise ValueError(f"{SECRET} in row 7 of {path}")
            return real(*given)

        monkeypatch.setattr(client, "_train_tasks", failing)
        net, out = Net(path, files, label="risk"), path / "out"
        try:
            net.run(config, out)
        except CounterpoiseError as error:  # a run whose every round failed
            found += SECRET in str(error)
        written = [p for p in out.rglob("*") if p.is_file()]
        found += sum(SECRET.encode() in p.read_bytes() for p in written)
        found += sum(SECRET in str(reply) for reply in net.grid.sent)
        shutil.rmtree(path)
    assert found == 0
    assert SECRET in caplog.text  # on the client itself the log says what happened


@pytest.mark.parametrize("trials", [5, pytest.param(100, marks=pytest.mark.faults)])
def test_a_server_that_sends_one_client_another_model_is_found_out(trials: int, tmp_path: Path) -> None:
    """T34: clients that compare what they noted of a round find two digests, each time."""
    remote, _ = over_flower("fedavg", tmp_path, cohort=None)
    state, engine, rng = remote.open(), remote.engine, random.Random(0)
    for trial in range(trials):
        cheated, where = rng.sample(range(6), 2), rng.random() * 10 ** rng.randint(-6, 0)
        for who in range(6):
            shift = where if who == cheated[0] else 0.0
            other = tmap(lambda leaf, shift=shift: leaf + shift, state.params)
            engine.train([Task(who)], Broadcast(trial, 0.1, other, {}, {}))
        assert len(_noted(tmp_path, trial)) == 2


def _noted(path: Path, round: int) -> set[str]:
    rows = [json.loads(line) for p in path.rglob("received.jsonl") for line in p.read_text().splitlines()]
    return {row["sha256"] for row in rows if row["round"] == round}


def _over_a_bad_network(path: Path, seed: int) -> tuple[str, dict[str, int], int]:
    config, out = experiment("scaffold", 6, seed=seed), path / "out"
    with deployed(path / "net", start_nodes=False) as net, relay(net.port) as line:
        line.rng.seed(seed)
        for name in net.names:
            net.start_node(name, line.port)
        net.start_server(config, out)
        wait_until(lambda: rounds_done(out) >= 1 + seed % 4, 600)
        line.cut(20.0)
        summary = net.finish(out)
    same = summary["params_sha256"] == embedded_sha(config, path / "alone")
    return "identical" if same else "different", line.counts, min(replied(out))


@pytest.mark.deploy
def test_bad_networks_delay_runs_and_change_nothing(tmp_path: Path) -> None:
    """T24: 5 % of connections reset, 200 ms each way, 1 Mbit/s, one cut of 20 s; four at a time, for they mostly wait."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: _over_a_bad_network(tmp_path / str(seed), seed), range(NETWORKS)))
    resets = sum(counts["reset"] + counts["cut"] for _, counts, _ in found)
    print(
        f"{sum(end == 'identical' for end, _, _ in found)} of {NETWORKS} identical, {resets} connections broken"
    )
    assert [end for end, _, _ in found] == ["identical"] * NETWORKS
    assert {least for _, _, least in found} == {2}
    assert resets > NETWORKS


def _resident_bytes(pid: int) -> int:
    line = next(
        row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS")
    )
    return int(line.split()[1]) * 1024


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.deploy
def test_a_soak_with_a_kill_a_minute_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """T25: memory and open files of the server, which is never killed, stay as they were when the run had settled."""
    config, out = experiment("scaffold", SOAK_ROUNDS, 4, checkpoint={"every": 10}), tmp_path / "out"
    rng, kills = random.Random(0), 0
    with deployed(tmp_path / "net", 4) as net:
        server = net.start_server(config, out).process
        wait_until(lambda: rounds_done(out) >= SOAK_ROUNDS // 10, 3600)
        early = _resident_bytes(server.pid), _open_files(server.pid)
        late, last = early, time.monotonic()
        while server.poll() is None:
            time.sleep(1)
            if rounds_done(out) < SOAK_ROUNDS - 5:
                late = _resident_bytes(server.pid), _open_files(server.pid)
            if time.monotonic() - last > KILL_EVERY:
                name = rng.choice(net.names)
                kill(net.nodes[name])
                net.start_node(name)
                kills, last = kills + 1, time.monotonic()
        summary = net.finish(out)
    print(
        f"{kills} kills; server RSS {early[0] >> 20} to {late[0] >> 20} MiB, open files {early[1]} to {late[1]}"
    )
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    assert set(replied(out)) == {4}
    assert late[0] <= 1.05 * early[0] + (8 << 20)
    assert abs(late[1] - early[1]) <= 5
