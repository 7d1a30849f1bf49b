"""A run at the server, from config to summary, with clients asked by messages in this process."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import experiment
from flwr.app import Message
from flwr.serverapp import Grid
from local_grid import FIRST_NODE, LocalGrid

from counterpoise.engines.flower import client
from counterpoise.engines.flower.commands import prepare
from counterpoise.engines.flower.job import NODE_FILE, ClientFile, write_client_file
from counterpoise.engines.flower.refusal import CLIENT_FAILED
from counterpoise.engines.flower.serve import run
from counterpoise.engines.flower.workplaces import take_seat
from counterpoise.errors import ConfigError, RunError
from counterpoise.experiment.config import Experiment, make_experiment
from counterpoise.experiment.folder import RunFolder, read_rows
from counterpoise.experiment.runner import start
from counterpoise.experiment.toml import read_toml

SECRET = "canary-7f3a"


class Net:
    """Clients with files of their own, and a server's run among them."""

    def __init__(self, path: Path, clients: dict[str, Path | None], **reading: Any) -> None:
        self.path, self.before = path, cast(Callable[[Message], None], lambda ask: None)
        self.files = {}
        for name, data in clients.items():
            self.files[name] = path / "clients" / name / "client.json"
            own = None if data is None else str(data)
            write_client_file(self.files[name], ClientFile(name, str(path / "clients" / name), own, reading))
        self.grid: LocalGrid | None = None

    def run(self, config: Experiment | None, out: Path) -> dict[str, Any]:
        ready = prepare(config, out, named_nodes=False)
        run_config = read_toml(ready.folder.app / "pyproject.toml")["tool"]["flwr"]["app"]["config"]
        run(cast(Grid, self._grid(run_config)), run_config, ready.job, ready.folder)
        return cast(dict[str, Any], json.loads(RunFolder(out).summary.read_text()))

    def _grid(self, run_config: dict[str, Any]) -> LocalGrid:
        seats = {
            FIRST_NODE - k: _Lazy(run_config, {NODE_FILE: str(path)})
            for k, path in enumerate(self.files.values())
        }
        self.grid = LocalGrid(cast(Any, seats), before=self.before)
        return self.grid


class _Lazy:
    """A seat that is taken when a message comes, as in a process of its own."""

    def __init__(self, run_config: dict[str, Any], node_config: dict[str, Any]) -> None:
        self.configs = run_config, node_config


@pytest.fixture(autouse=True)
def _take_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = client.answer

    def answer(message: Message, seat: Callable[[], Any], handler: client.Handler) -> Message:
        lazy = seat()
        taken = (lambda: take_seat(*lazy.configs)) if isinstance(lazy, _Lazy) else seat
        return whole(message, taken, handler)

    monkeypatch.setattr(client, "answer", answer)


def numbered(path: Path, count: int) -> Net:
    return Net(path, {str(k): None for k in range(count)})


def test_a_run_over_messages_leaves_the_same_rows_and_model_as_one_in_this_process(tmp_path: Path) -> None:
    config = experiment("scaffold", 3, 3)
    alone = start(config, tmp_path / "alone")
    summary = numbered(tmp_path, 3).run(config, tmp_path / "out")
    assert summary["params_sha256"] == alone["params_sha256"]
    assert (
        RunFolder(tmp_path / "out").metrics.read_bytes() == RunFolder(tmp_path / "alone").metrics.read_bytes()
    )
    assert summary["engine"] == "flower"


@pytest.mark.parametrize(
    "message", [1, 8, 12, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 4, 6, 7, 10, 15))]
)
def test_a_run_stopped_at_any_message_resumes_to_the_same_state(message: int, tmp_path: Path) -> None:
    """Five rounds of three clients: a checkpoint every second round, so that clients must go back too."""
    config = experiment("scaffold", 5, 3, checkpoint={"every": 2, "keep": 2})
    whole = numbered(tmp_path / "whole", 3).run(config, tmp_path / "whole" / "out")
    net, seen = numbered(tmp_path, 3), 0

    def stop(ask: Message) -> None:
        nonlocal seen
        seen += ask.metadata.message_type == "train"
        if seen == message:
            raise KeyboardInterrupt

    net.before = stop
    with pytest.raises(KeyboardInterrupt):
        net.run(config, tmp_path / "out")
    net.before = lambda ask: None
    resumed = net.run(None, tmp_path / "out")
    assert resumed["state_sha256"] == whole["state_sha256"]


def test_clients_held_out_samples_are_scored(tmp_path: Path) -> None:
    partition = {"name": "dirichlet", "clients": 3, "alpha": 0.5, "validation": 0.2}
    tables = experiment("fedavg", 2, 3).tables() | {"partition": partition, "evaluate": {"clients": True}}
    config = make_experiment(tables)
    alone = start(config, tmp_path / "alone")
    assert numbered(tmp_path, 3).run(config, tmp_path / "out")["clients"] == alone["clients"]


def test_a_run_does_not_start_without_its_clients(tmp_path: Path) -> None:
    config = experiment("fedavg", 2, 3, flower={"wait": 0.5})
    with pytest.raises(RunError, match="1 of 3 clients did not come: 2"):
        numbered(tmp_path, 2).run(config, tmp_path / "out")


def test_a_client_with_other_data_than_the_server_knows_is_refused(tmp_path: Path) -> None:
    config = experiment("fedavg", 2, 3, flower={"wait": 0.5})
    net = numbered(tmp_path, 3)
    ready = prepare(config, tmp_path / "out", named_nodes=False)
    run_config = read_toml(ready.folder.app / "pyproject.toml")["tool"]["flwr"]["app"]["config"]
    grid = net._grid(run_config)
    other = {**run_config, "experiment": run_config["experiment"].replace("seed = 0", "seed = 1", 1)}
    grid.seats[FIRST_NODE] = cast(Any, _Lazy(other, {NODE_FILE: str(net.files["0"])}))
    with pytest.raises(RunError, match="1 of 3 clients did not come: 0"):
        run(cast(Grid, grid), run_config, ready.job, ready.folder)


def _write_table(path: Path, rows: int, classes: list[str], cities: list[str], mark: str = "") -> Path:
    rng = random.Random(str(path.name))
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "dose", "city", "risk"])
        for number in range(rows):
            name = classes[number % len(classes)]
            centre = {"low": 0.0, "mid": 2.0, "high": 4.0}[name]
            dose = "" if rng.random() < 0.1 else f"{rng.gauss(2 * centre, 1):.3f}"
            city = mark if mark and number == 0 else rng.choice(cities)
            writer.writerow([f"{rng.gauss(centre, 1):.3f}", dose, city, name])
    return path


def _own_config(path: Path, names: list[str], **tables: Any) -> Experiment:
    settings: dict[str, Any] = {
        "rounds": 2,
        "method": "scaffold",
        "data": {"name": "table", "path": str(path / "server.csv"), "label": "risk"},
        "local": {"batch_size": 16},
        "evaluate": {"clients": True},
        "flower": {"clients": names, "wait": 1.0},
    }
    return make_experiment({**settings, **tables})


def _own_net(path: Path) -> tuple[Net, Experiment]:
    _write_table(path / "server.csv", 60, ["low", "mid", "high"], ["rome", "oslo"])
    folder = path / SECRET
    folder.mkdir()
    a = _write_table(folder / "a.csv", 80, ["low", "low", "mid"], ["rome", "paris"], SECRET)
    b = _write_table(folder / "b.csv", 50, ["high"], ["oslo"], SECRET)  # one class, as clients have it
    return Net(path, {"a": a, "b": b}, test_share=0.2), _own_config(path, ["a", "b"])


def test_clients_train_on_their_own_tables(tmp_path: Path) -> None:
    net, config = _own_net(tmp_path)
    summary = net.run(config, tmp_path / "out")
    record = json.loads(RunFolder(tmp_path / "out").record.read_text())
    counts = np.array(record["clients"])
    assert counts.sum(1).tolist() == [64, 40]  # 80 and 50 less a fifth of each class
    assert (counts > 0).tolist() == [[False, True, True], [True, False, False]]  # high, low, mid
    assert summary["accuracy"] > 0.4
    assert summary["clients"]["mean_client_balanced_accuracy"] is not None
    assert summary["rejected_replies"] == 0


def test_nothing_of_a_clients_file_reaches_the_server(tmp_path: Path) -> None:
    net, config = _own_net(tmp_path)
    messages: list[bytes] = []
    net.before = lambda ask: messages.append(repr(ask.content).encode())
    net.run(config, tmp_path / "out")
    assert net.grid is not None
    kept = [p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()]
    replies = [repr(net.grid.deliver(ask).content).encode() for ask in net.grid.sent[:6]]
    assert messages
    assert replies
    assert not [1 for text in [*messages, *kept, *replies] if SECRET.encode() in text]


def test_a_client_that_cannot_read_its_file_says_one_word(tmp_path: Path) -> None:
    net, config = _own_net(tmp_path)
    (tmp_path / SECRET / "b.csv").write_text(f"age,dose,city,risk\n1,2,rome,{SECRET}\n")
    replies: list[Message] = []
    with pytest.raises(RunError, match="1 of 2 clients did not come: b") as failure:
        net.run(config, tmp_path / "out")
    assert net.grid is not None
    replies = [net.grid.deliver(ask) for ask in net.grid.sent]
    errors = [(r.error.code, r.error.reason) for r in replies if r.has_error()]
    assert errors == [(CLIENT_FAILED, "data")] * len(errors)
    assert errors
    assert SECRET not in str(failure.value)


def test_a_crash_in_a_client_says_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = numbered(tmp_path, 2)
    config = experiment("fedavg", 2, 2, flower={"wait": 0.5})

    def crash(*given: object) -> None:
        raise ZeroDivisionError(f"{SECRET} at {tmp_path}")

    monkeypatch.setattr(client, "answer_hello", crash)
    with pytest.raises(RunError, match="2 of 2 clients did not come"):
        net.run(config, tmp_path / "out")
    assert net.grid is not None
    replies = [net.grid.deliver(ask) for ask in net.grid.sent]
    assert {(r.error.code, r.error.reason) for r in replies} == {(CLIENT_FAILED, "error")}


def test_clients_train_on_their_own_arrays_by_the_names_of_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def write(name: str, classes: list[int]) -> Path:
        y = np.repeat(classes, 20)
        x = (rng.normal(size=(len(y), 5)) + y[:, None]).astype(np.float32)
        np.savez(tmp_path / name, x=x, y=y)
        return tmp_path / f"{name}.npz"

    server, a, b = write("server", [0, 1, 2, 3]), write("a", [0, 3]), write("b", [1, 2, 3])
    config = _own_config(tmp_path, ["a", "b"], data={"name": "arrays", "path": str(server)})
    summary = Net(tmp_path, {"a": a, "b": b}).run(config, tmp_path / "out")
    record = json.loads(RunFolder(tmp_path / "out").record.read_text())
    assert record["clients"] == [[16, 0, 0, 16], [0, 16, 16, 16]]
    assert len(read_rows(RunFolder(tmp_path / "out").metrics)) == 2
    assert summary["rejected_replies"] == 0


def test_names_of_clients_are_checked(tmp_path: Path) -> None:
    _write_table(tmp_path / "server.csv", 30, ["low", "mid", "high"], ["rome"])
    for names in (["a", "a"], ["../a"], ["a b"], [""]):
        with pytest.raises(ConfigError, match=r"client name|twice"):
            prepare(_own_config(tmp_path, names), tmp_path / "out", named_nodes=False)


def test_paths_of_the_server_are_not_in_what_clients_are_sent(tmp_path: Path) -> None:
    _write_table(tmp_path / "server.csv", 30, ["low", "mid", "high"], ["rome"])
    for config in (experiment("fedavg", 2), _own_config(tmp_path, ["a", "b"])):
        ready = prepare(config, tmp_path / "out", named_nodes=True)
        assert str(tmp_path) not in (ready.folder.app / "pyproject.toml").read_text()
