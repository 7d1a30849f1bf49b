"""A client's class counts leave it only where somebody asked: looked for in the bytes and trees of every message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import numpy as np
import torch
from deployed import experiment
from federations import unequal_federation
from flwr.app import Message, RecordDict
from flwr.common.serde import recorddict_to_proto
from local_grid import FIRST_NODE, LocalGrid, over_flower
from local_net import Net, numbered
from own_files import KINDS, ROWS, client_files, server_config

from counterpoise.core.codec import encode
from counterpoise.core.tree import flatten
from counterpoise.errors import RunError
from counterpoise.flower.commands import prepare
from counterpoise.flower.messages import HELLO
from counterpoise.flower.own_data import describe_form, own_federation
from counterpoise.flower.records import pack_facts, pack_tree, unpack_tree
from counterpoise.flower.serve import run
from counterpoise.report.figures import draw_recall
from counterpoise.report.html import write_report
from counterpoise.report.html.study import study
from counterpoise.report.pictures import Pictures
from counterpoise.results.results import read_results
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.learned import CLASS_COUNTS, CLIENT_COUNTS
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder

ARRAYS = KINDS["arrays"]
PECULIAR = ("low",) * 47 + ("mid",) * 23 + ("high",) * 11
GIVEN = {"shots": {"head": [1], "medium": [2], "tail": [0]}}  # groups that need no counts


# What a message holds


def holds(content: RecordDict, counts: list[int]) -> bool:
    """Whether the counts are in a message: as any type of number in its bytes, as a list, or in a tree's tensors."""
    wire = recorddict_to_proto(content).SerializeToString()
    as_bytes = [np.array(counts, dtype).tobytes() for dtype in ("<i8", "<i4", "<f8", "<f4")]
    values = [value for record in content.config_records.values() for value in record.values()]
    trees = [leaf.flatten().tolist() for leaf in _leaves(content)]
    return any(found in wire for found in as_bytes) or counts in [*values, *trees]


def _leaves(content: RecordDict) -> Iterator[torch.Tensor]:
    for name, record in content.config_records.items():
        if list(record) == ["tree"] or name in ("surveys", "sums"):
            yield from flatten(unpack_tree(record)).values()


def test_the_search_finds_counts_wherever_they_are() -> None:
    counts = torch.tensor([38, 18, 9])
    assert holds(RecordDict({"reply": pack_facts({"counts": [38, 18, 9]})}), counts.tolist())
    assert holds(RecordDict({"reply": pack_facts({"trees": encode({"a": counts.float()})})}), counts.tolist())
    assert holds(RecordDict({"surveys": pack_tree({"part": {"counts": counts}})}), counts.tolist())
    assert not holds(RecordDict({"surveys": pack_tree({"part": {"counts": counts + 1}})}), counts.tolist())


# Shares of the experiment's data


@pytest.mark.parametrize(
    ("spec", "leave"),
    [
        ("fedavg", False),
        ("scaffold", False),
        (["fedavg", "balanced_softmax"], False),
        (["fedavg", {"balanced_softmax": {"counts": "global"}}], True),  # tallies are added up by the server
        ({"fedhoo": {"clusters": 2}}, True),
    ],
    ids=["fedavg", "scaffold", "local counts", "tally", "survey"],
)
def test_only_a_method_that_asks_for_class_counts_gets_them(spec: Any, leave: bool, tmp_path: Path) -> None:
    remote, grid = over_flower(spec, tmp_path)
    counts = unequal_federation().counts().tolist()
    remote.advance(remote.open())
    replies = [(ask, grid.deliver(ask)) for ask in grid.sent]
    assert {ask.metadata.message_type for ask, _ in replies} >= {HELLO, "train"}
    found = {holds(reply.content, counts[FIRST_NODE - ask.metadata.dst_node_id]) for ask, reply in replies}
    assert (True in found) == leave


def test_the_server_of_a_run_on_shares_records_counts_of_its_own_copy(tmp_path: Path) -> None:
    config, net = experiment("fedavg", 1, 3), numbered(tmp_path, 3)
    start(config, tmp_path / "alone")
    net.run(config, tmp_path / "out")
    here, there = (_record(tmp_path / name)["clients"] for name in ("alone", "out"))
    assert here == there
    assert not any(holds(net.grid.deliver(ask).content, counts) for ask in net.grid.sent for counts in there)


def test_a_client_with_as_many_but_other_samples_than_the_server_has_for_it_is_refused(
    tmp_path: Path,
) -> None:
    config = experiment("fedavg", 1, 2, partition={"name": "iid", "clients": 2}, flower={"wait": 0.5})
    ready, net = prepare(config, tmp_path / "out", named_nodes=False), numbered(tmp_path, 2)
    told = ready.settings
    other = {**told, "experiment": str(told["experiment"]).replace("seed = 0", "seed = 1", 1)}
    contexts = [net.context("0", told), net.context("1", other)]
    assert len(contexts[1]().work.federation.clients[1]) == len(contexts[0]().work.federation.clients[1])
    with pytest.raises(RunError, match=r"did not connect: 1 \(refused: .* \(share\)\)"):
        run(LocalGrid({FIRST_NODE - k: context for k, context in enumerate(contexts)}), ready)


# Clients with their own data


def _deploy(
    path: Path, client_counts: bool = False, **tables: Any
) -> tuple[Experiment, Net, list[list[int]]]:
    """An experiment, its clients, and the class counts of each of them."""
    flower = {"clients": list(ROWS), "wait": 0.3, "client_counts": client_counts}
    settings = {"method": "fedavg", "evaluate": {}, "flower": flower, **tables}
    config, files = server_config(path, ARRAYS, list(ROWS), **settings), client_files(path, ARRAYS)
    files["a"] = ARRAYS.write(path, PECULIAR, 5)
    form = describe_form(config)
    own = [own_federation(str(file), {}, form, number, 2) for number, file in enumerate(files.values())]
    return config, Net(path, files), [f.counts()[number].tolist() for number, f in enumerate(own)]


def _record(out: Path) -> Any:
    return json.loads(RunFolder(out).record.read_text())


def _seen(net: Net, counts: list[list[int]]) -> list[tuple[str, RecordDict]]:
    """The messages from clients that hold their class counts, with their kinds."""
    replies = [(ask.metadata, net.grid.deliver(ask).content) for ask in net.grid.sent]
    return [(m.message_type, c) for m, c in replies if holds(c, counts[FIRST_NODE - m.dst_node_id])]


def test_fedavg_on_clients_own_data_learns_no_class_counts_where_nothing_needs_them(tmp_path: Path) -> None:
    config, net, counts = _deploy(tmp_path, evaluate=GIVEN)
    net.run(config, tmp_path / "out")
    assert counts[0] == [9, 38, 18]  # a fifth of 11, 47 and 23 held out
    assert _seen(net, counts) == []
    record = _record(tmp_path / "out")
    assert record["samples"] == [65, 48]
    assert (record["clients"], record["skew"], record["data"]["class_counts"]) == (None, None, None)
    kept = [path.read_bytes() for path in (tmp_path / "out").rglob("*.json*") if path.is_file()]
    assert not any(json.dumps(own).encode() in content for own in counts for content in kept)


def test_groups_by_frequency_need_only_the_sum(tmp_path: Path) -> None:
    config, net, counts = _deploy(tmp_path)
    summary = net.run(config, tmp_path / "out")
    record = _record(tmp_path / "out")
    assert record["clients"] is None
    assert record["data"]["class_counts"] == np.sum(counts, axis=0).tolist()
    assert summary["head"] is not None
    found = _seen(net, counts)
    assert {kind for kind, _ in found} == {
        HELLO
    }  # on the way they are in the clear, and the server adds them up
    assert all(set(unpack_tree(content["surveys"])) == {CLASS_COUNTS} for _, content in found)


def test_who_asks_for_class_counts_of_each_client_gets_them(tmp_path: Path) -> None:
    config, net, counts = _deploy(tmp_path, client_counts=True)
    net.run(config, tmp_path / "out")
    record = _record(tmp_path / "out")
    assert record["clients"] == counts
    assert record["data"]["class_counts"] == np.sum(counts, axis=0).tolist()
    assert all(set(unpack_tree(content["surveys"])) == {CLIENT_COUNTS} for _, content in _seen(net, counts))


def test_what_the_server_asks_for_does_not_change_the_model(tmp_path: Path) -> None:
    models = set()
    for name, tables in {"sum": {}, "each": {"client_counts": True}, "none": {"evaluate": GIVEN}}.items():
        (tmp_path / name).mkdir()
        config, net, _ = _deploy(tmp_path / name, method="scaffold", **tables)
        models.add(net.run(config, tmp_path / name / "out")["params_sha256"])
    assert len(models) == 1


@pytest.mark.parametrize("client_counts", [False, True])
def test_counts_that_do_not_fit_the_samples_stop_the_run(client_counts: bool, tmp_path: Path) -> None:
    config, net, _ = _deploy(tmp_path, client_counts)
    ready = prepare(config, tmp_path / "out", named_nodes=False)
    grid = LocalGrid({FIRST_NODE - k: net.context(name, ready.settings) for k, name in enumerate(ROWS)})

    def lie(replies: list[Message]) -> list[Message]:
        tree = unpack_tree(replies[0].content["surveys"])
        [asked] = tree
        replies[0].content["surveys"] = pack_tree({asked: {"counts": tree[asked]["counts"] + 1}})
        return replies

    grid.alter = lie
    with pytest.raises(RunError, match="class counts that clients gave must be 0 or more and add up"):
        run(grid, ready)


@pytest.mark.parametrize(
    "tables", [{}, {"client_counts": True}, {"evaluate": GIVEN}], ids=["sum", "each", "none"]
)
def test_a_resumed_run_knows_what_clients_said_at_its_start(tables: dict[str, Any], tmp_path: Path) -> None:
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    config, net, _ = _deploy(tmp_path / "whole", **tables)
    whole = net.run(config, tmp_path / "whole" / "out")
    config, net, _ = _deploy(tmp_path / "cut", **tables)

    def stop(ask: Message) -> None:
        if ask.metadata.group_id == "1":
            raise KeyboardInterrupt

    net.before = stop
    with pytest.raises(KeyboardInterrupt):
        net.run(config, tmp_path / "out")
    net.before = lambda ask: None
    gone = net.clients.pop("b")  # a resumed run does not need every client, so it cannot ask again
    assert net.run(None, tmp_path / "out")["head"] is not None
    net.clients["b"] = gone
    assert _record(tmp_path / "out")["data"] == _record(tmp_path / "whole" / "out")["data"]
    assert whole["skipped_rounds"] == 0


def test_a_client_that_comes_back_with_another_number_of_samples_is_refused(tmp_path: Path) -> None:
    config, net, _ = _deploy(tmp_path)

    def stop(ask: Message) -> None:
        if ask.metadata.group_id == "1":
            raise KeyboardInterrupt

    net.before = stop
    with pytest.raises(KeyboardInterrupt):
        net.run(config, tmp_path / "out")
    net.before = lambda ask: None
    ARRAYS.write(tmp_path, PECULIAR[:-7], 5)
    net.run(None, tmp_path / "out")
    status = json.loads((tmp_path / "out" / "flower" / "status.json").read_text())
    assert status["clients"]["a"]["state"] == "refused"


@pytest.mark.parametrize("tables", [{}, {"evaluate": GIVEN}], ids=["sum", "nothing"])
def test_pictures_and_report_of_a_run_without_counts_say_so(tables: dict[str, Any], tmp_path: Path) -> None:
    config, net, _ = _deploy(tmp_path, **tables)
    ready = prepare(config, tmp_path / "out", named_nodes=False)
    grid = LocalGrid({FIRST_NODE - k: net.context(name, ready.settings) for k, name in enumerate(ROWS)})
    run(grid, ready, [Pictures()])
    folder, found = RunFolder(tmp_path / "out"), study(read_results([tmp_path / "out"]))
    assert folder.curves_picture.exists()
    assert not folder.partition_picture.exists()
    write_report(found, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "the server did not ask for their class counts" in page
    assert 'data-chart="partition"' not in page
    draw_recall(found)


def test_a_run_that_asked_for_counts_has_its_heat_map(tmp_path: Path) -> None:
    config, net, _ = _deploy(tmp_path, client_counts=True)
    net.run(config, tmp_path / "out")
    write_report(study(read_results([tmp_path / "out"])), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert 'data-chart="partition"' in page
    assert "did not ask for their class counts" not in page
