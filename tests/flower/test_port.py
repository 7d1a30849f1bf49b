"""Messages through the open port: lost, repeated, late; and what the server shows of its clients."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import drop_out_sha, embedded_sha, experiment
from flwr.app import ConfigRecord, Message, RecordDict
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.errors import ConfigError
from counterpoise.flower import adapter, resident
from counterpoise.flower.adapter import PLACE_HEADER, VERSION_HEADER
from counterpoise.flower.certs import CertFolder, make_certs
from counterpoise.flower.commands import prepare
from counterpoise.flower.deployment import Endpoint
from counterpoise.flower.front import listening
from counterpoise.flower.grid import MOST_REPEATS, HubGrid
from counterpoise.flower.hub import Hub
from counterpoise.flower.job import ClientFile, JobFolder
from counterpoise.flower.resident import Resident
from counterpoise.flower.serve import Prepared, run
from counterpoise.flower.status import read_status
from counterpoise.flower.wire import Wire, read_key
from counterpoise.run.config.experiment import Experiment
from counterpoise.version import __version__


class Served:
    """An open port, and clients that are threads of the test."""

    def __init__(self, path: Path, names: list[str], told: Any) -> None:
        self.path, self.certs, self.hub = path, make_certs(path / "certs", names), Hub()
        nodes = {name: adapter.register(self.hub.link, self.certs.public_key(name), name) for name in names}
        self.nodes, self.hub.names = nodes, {node: name for name, node in nodes.items()}
        self.grid = HubGrid(self.hub, adapter.open_run(self.hub.link, told))
        self.link = Endpoint("127.0.0.1", 0, self.certs)

    def wire(self, name: str) -> Wire:
        headers = {VERSION_HEADER: __version__, PLACE_HEADER: name}
        return Wire(self.link.address, self.certs.authority, read_key(self.certs.private_key(name)), headers)

    def join(self, name: str, delay: float = 0.0) -> None:
        """A client at work, which takes so long for each training."""
        own = Resident(ClientFile(name, str(self.path / name)), lambda words: None)
        if delay:
            answer = own.answer

            def slow(message: Message, wire: Wire) -> Message:
                time.sleep(delay if message.metadata.message_type == "train" else 0)
                return answer(message, wire)

            own.answer = slow  # type: ignore[method-assign]

        def work() -> None:
            wire = self.wire(name)
            wire.activate()
            try:
                with resident._heartbeats(wire):  # a node without one is gone after a minute
                    resident._serve(own, wire)
            except Exception:  # the port is closed: the test is over
                wire.close()

        threading.Thread(target=work, daemon=True).start()


@contextmanager
def served(path: Path, names: list[str], told: Any = None) -> Iterator[Served]:
    here = Served(path, names, told or {})
    with listening(here.hub, here.link) as here.link:
        yield here


def ready_for(config: Experiment, out: Path) -> Prepared:
    return prepare(config, out, named_nodes=True)


def ask(here: Served, name: str, word: str = "hello") -> Message:
    content = RecordDict({"ask": ConfigRecord({"word": word})})
    return Message(content, here.nodes[name], "train", ttl=60.0, group_id="0")


def test_a_message_that_its_client_did_not_answer_is_sent_again_when_it_asks_for_more(tmp_path: Path) -> None:
    """As after a crash, or when the answer to its question for messages was lost on the way."""
    with served(tmp_path, ["a"]) as here:
        wire = here.wire("a")
        wire.activate()
        seen: list[str] = []

        def work() -> None:
            for turn in range(3):
                message = wire.pull()
                assert message is not None
                seen.append(str(message.content.config_records["ask"]["word"]))
                if turn == 2:
                    wire.push(
                        Message(RecordDict({"reply": ConfigRecord({"n": turn})}), reply_to=message), 0.0
                    )

        thread = threading.Thread(target=work)
        thread.start()
        (reply,) = here.grid.send_and_receive([ask(here, "a")], timeout=30.0)
        thread.join()
    assert seen == ["hello"] * 3
    assert reply.content.config_records["reply"]["n"] == 2
    assert (
        here.hub.link.num_message_ins()
        == here.hub.link.num_message_res()
        == len(here.hub.link.object_store)
        == 0
    )


def test_a_client_that_comes_again_is_never_offline_in_between(tmp_path: Path) -> None:
    """A round that looks at that moment would end without it."""
    with served(tmp_path, ["a"]) as here:
        here.wire("a").activate()
        gone: list[int] = []
        leave = here.hub.link.deactivate_node
        here.hub.link.deactivate_node = lambda node: gone.append(node) or leave(node)  # type: ignore[method-assign, func-returns-value]
        here.wire("a").activate()
        assert here.hub.online(here.nodes["a"])
    assert gone == []


def test_a_message_that_ends_its_client_each_time_is_given_up(tmp_path: Path) -> None:
    with served(tmp_path, ["a"]) as here:
        wire = here.wire("a")
        wire.activate()
        pulls: list[bool] = []

        def work() -> None:
            while len(pulls) <= MOST_REPEATS + 1:
                pulls.append(wire.pull() is not None)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert here.grid.send_and_receive([ask(here, "a")], timeout=30.0) == []
    assert sum(pulls) == MOST_REPEATS + 1


def test_a_reply_that_is_no_message_counts_as_an_error_and_stops_nobody(tmp_path: Path) -> None:
    with served(tmp_path, ["a"]) as here:
        wire = here.wire("a")
        wire.activate()
        message_id = adapter.post(here.hub.link, here.grid.run, ask(here, "a"))
        message = wire.pull()
        assert message is not None
        reply = Message(RecordDict({"reply": ConfigRecord({"n": 1})}), reply_to=message)
        wire.push(reply, 0.0)
        head = adapter.begun_reply(here.hub.link, here.grid.run, message_id)
        assert head is not None
        store = here.hub.link.object_store.store  # type: ignore[attr-defined]
        store[head.metadata.message_id].content = b"nonsense"
        whole = adapter.whole_reply(here.hub.link, here.grid.run, head, here.nodes["a"])
    assert whole is not None
    assert whole.has_error()


@pytest.mark.parametrize("end", ["its node is gone", "its time is over"])
def test_a_reply_that_broke_off_counts_as_an_error_once_no_more_of_it_can_come(
    end: str, tmp_path: Path
) -> None:
    """Its head is here, so that Flower no longer says that the node is gone; the rest will not follow."""
    with served(tmp_path, ["a"]) as here:
        wire, link = here.wire("a"), here.hub.link
        wire.activate()
        message_id = adapter.post(link, here.grid.run, ask(here, "a"))
        message = wire.pull()
        assert message is not None
        wire.push(Message(RecordDict({"reply": ConfigRecord({"n": 1})}), reply_to=message), 0.0)
        head = adapter.begun_reply(link, here.grid.run, message_id)
        assert head is not None
        link.object_store.store[head.metadata.message_id].content = b""  # type: ignore[attr-defined]
        assert adapter.whole_reply(link, here.grid.run, head, here.nodes["a"]) is None
        if end == "its node is gone":
            link.deactivate_node(here.nodes["a"])
        else:
            link.object_store.delete(head.metadata.message_id)
            link.object_store.store.pop(head.metadata.message_id, None)  # type: ignore[attr-defined]
        whole = adapter.whole_reply(link, here.grid.run, head, here.nodes["a"])
        assert whole is not None
        assert whole.error.code == adapter.BROKEN_OFF
        adapter.withdraw(link, message_id, head.metadata.message_id)


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.deploy)])
def test_a_straggler_is_a_drop_out_and_its_late_answers_are_counted(rounds: int, tmp_path: Path) -> None:
    """T12: a round ends at its time-out, and equals one in which the straggler did not answer."""
    flower = {"timeout": 1.0, "wait": 60.0}
    config = experiment("scaffold", rounds, 2, flower=flower)
    ready = ready_for(config, tmp_path / "out")
    with served(tmp_path, ["0", "1"], ready.settings) as here:
        here.join("0")
        here.join("1", delay=1.2)
        summary = run(here.grid, ready)
        status = read_status(JobFolder(tmp_path / "out").status)
    rows = [json.loads(line) for line in (tmp_path / "out" / "timing.jsonl").read_text().splitlines()]
    assert all(1.0 <= row["seconds"] <= 2.0 for row in rows)
    assert summary["params_sha256"] == drop_out_sha(config, tmp_path / "alone", 1, range(rounds))
    assert status["clients"]["1"].missed == rounds
    assert status["clients"]["1"].late >= (rounds - 1) // 2


def test_status_tells_who_is_there_who_answered_and_what_it_cost(tmp_path: Path) -> None:
    config = experiment("scaffold", 4, 2)
    ready = ready_for(config, tmp_path / "out")
    with served(tmp_path, ["0", "1"], ready.settings) as here:
        here.join("0")
        here.join("1")
        summary = run(here.grid, ready)
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    found = read_status(JobFolder(tmp_path / "out").status)
    assert (found["state"], found["round"], found["rounds"]) == ("done", 3, 4)
    for client in found["clients"].values():
        assert (client.state, client.answered, client.missed, client.refused) == ("here", 4, 0, 0)
        assert client.bytes_up > client.bytes_down / 2 > 100_000
        assert 0 < client.seconds < 60
    shown = CliRunner().invoke(app, ["flower", "status", str(tmp_path / "out")]).output
    assert "round 4 of 4, done; 2 of 2 clients here" in shown


def test_status_of_a_folder_without_such_a_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run over Flower"):
        app(["flower", "status", str(tmp_path)], standalone_mode=False)


def test_a_refused_client_is_named_with_the_reason_when_the_run_cannot_start(tmp_path: Path) -> None:
    config = experiment("fedavg", 2, 2, flower={"wait": 3.0})
    ready = ready_for(config, tmp_path / "out")
    with served(tmp_path, ["0", "1"], ready.settings) as here:
        here.join("0")
        old = Wire(
            here.link.address,
            CertFolder(tmp_path / "certs").authority,
            read_key(here.certs.private_key("1")),
            {VERSION_HEADER: "0.0.9"},
        )
        with pytest.raises(Exception, match=r"version 0\.0\.9"):
            old.activate()
        with pytest.raises(
            Exception, match=r"1 of 2 clients did not connect: 1 \(refused: it has version 0\.0\.9"
        ):
            run(here.grid, ready)
        status = read_status(JobFolder(tmp_path / "out").status)
    assert status["state"].startswith("stopped")
    assert status["clients"]["1"].state == "refused"
