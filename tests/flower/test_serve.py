"""A run at the server, from config to summary, with clients asked by messages in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import experiment
from flwr.app import Message
from local_grid import FIRST_NODE, LocalGrid
from local_net import numbered

from counterpoise.errors import RunError
from counterpoise.flower import client
from counterpoise.flower.commands import prepare
from counterpoise.flower.job import JobFolder
from counterpoise.flower.refusal import CLIENT_FAILED
from counterpoise.flower.serve import run
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder, read_rows

SECRET = "canary-7f3a"


def test_a_run_over_messages_leaves_the_same_rows_and_model_as_one_in_this_process(tmp_path: Path) -> None:
    config = experiment("scaffold", 3, 3)
    alone = start(config, tmp_path / "alone")
    summary = numbered(tmp_path, 3).run(config, tmp_path / "out")
    assert summary["params_sha256"] == alone["params_sha256"]
    assert (
        RunFolder(tmp_path / "out").metrics.read_bytes() == RunFolder(tmp_path / "alone").metrics.read_bytes()
    )
    assert summary["engine"] == "flower"
    traffic = read_rows(JobFolder(tmp_path / "out").traffic)
    assert [row["round"] for row in traffic] == [0, 1, 2]
    assert 0 < traffic[0]["sent_bytes"] < traffic[-1]["sent_bytes"]
    assert 0 < traffic[0]["received_bytes"] < traffic[-1]["received_bytes"]


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


def test_clients_whose_share_is_empty_take_part_and_are_never_asked(tmp_path: Path) -> None:
    partition = {"name": "dirichlet", "clients": 12, "alpha": 0.01, "minimum": 0}
    tables = experiment("fedwcm", 2, 12).tables() | {"partition": partition}
    config = make_experiment(tables)
    assert 0 in load_federation(config).samples()
    alone = start(config, tmp_path / "alone")
    found = numbered(tmp_path, 12).run(config, tmp_path / "out")
    assert found["params_sha256"] == alone["params_sha256"]


def test_a_run_does_not_start_without_its_clients(tmp_path: Path) -> None:
    config = experiment("fedavg", 2, 3, flower={"wait": 0.5})
    with pytest.raises(RunError, match="1 of 3 clients did not connect: 2"):
        numbered(tmp_path, 2).run(config, tmp_path / "out")


def test_a_client_with_other_data_than_the_server_knows_is_refused(tmp_path: Path) -> None:
    config = experiment("fedavg", 2, 3, flower={"wait": 0.5})
    net = numbered(tmp_path, 3)
    ready = prepare(config, tmp_path / "out", named_nodes=False)
    told = ready.settings
    other = {**told, "experiment": str(told["experiment"]).replace("seed = 0", "seed = 1", 1)}
    grid = LocalGrid({FIRST_NODE - k: net.context(str(k), told if k else other) for k in range(3)})
    with pytest.raises(RunError, match="1 of 3 clients did not connect: 0"):
        run(grid, ready)


def test_rounds_without_replies_stop_the_run_in_the_end(tmp_path: Path) -> None:
    net = numbered(tmp_path, 2)

    def lose(ask: Message) -> None:
        if ask.metadata.message_type == "train":
            net.grid.alter = lambda replies: []  # from the second round on

    net.before = lose
    with pytest.raises(RunError, match="5 rounds in a row were skipped: of 2 clients asked 0 replied"):
        net.run(experiment("fedavg", 9, 2), tmp_path / "out")
    assert [row["skipped"] for row in read_rows(RunFolder(tmp_path / "out").metrics)] == [False] + [True] * 5


def test_a_last_round_that_nobody_answers_is_asked_again_when_the_run_goes_on(tmp_path: Path) -> None:
    config, net = experiment("scaffold", 3, 2), numbered(tmp_path, 2)
    whole = numbered(tmp_path / "whole", 2).run(config, tmp_path / "whole" / "out")

    def lose_the_last(ask: Message) -> None:
        if ask.metadata.group_id == "1":  # what is set now holds from the next round on
            net.grid.alter = lambda replies: []

    net.before = lose_the_last
    with pytest.raises(
        RunError, match="nobody answered in the last round, of 2 clients asked; continue with"
    ):
        net.run(config, tmp_path / "out")
    net.before = lambda ask: None
    assert net.run(None, tmp_path / "out")["state_sha256"] == whole["state_sha256"]


def test_where_scores_go_is_not_in_what_clients_are_sent(tmp_path: Path) -> None:
    config = experiment("fedavg", 2, track={"uri": f"https://user:{SECRET}@example.org"})
    ready = prepare(config, tmp_path / "out", named_nodes=True)
    assert SECRET in ready.folder.experiment.read_text()
    assert SECRET not in str(ready.settings)


def test_a_crash_in_a_client_says_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = numbered(tmp_path, 2)
    config = experiment("fedavg", 2, 2, flower={"wait": 0.5})

    def crash(*given: object) -> None:
        raise ZeroDivisionError(f"{SECRET} at {tmp_path}")

    monkeypatch.setattr(client, "answer_hello", crash)
    with pytest.raises(RunError, match="2 of 2 clients did not connect"):
        net.run(config, tmp_path / "out")
    replies = [net.grid.deliver(ask) for ask in net.grid.sent]
    assert {(r.error.code, r.error.reason) for r in replies} == {(CLIENT_FAILED, "error")}


def test_paths_of_the_server_are_not_in_what_clients_are_sent(tmp_path: Path) -> None:
    """Neither the folder of its run nor that of its data, which clients have elsewhere."""
    data = {"name": "digits", "imbalance": 20.0, "root": str(tmp_path / "data")}
    config = experiment("fedavg", 2, data=data)
    ready = prepare(config, tmp_path / "out", named_nodes=True)
    assert str(tmp_path) in ready.folder.experiment.read_text()
    assert str(tmp_path) not in str(ready.settings)
