"""Logs of what clients received: honest servers give equal ones, and every altered model is found by comparing them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from federations import simulate, small_model, unequal_federation
from flwr.app import Message
from local_grid import RUN, over_flower
from local_net import numbered
from runs import TINY, Finished, assert_refused, call
from torch import Tensor

from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, tmap
from counterpoise.errors import SecurityError
from counterpoise.flower import client, messages
from counterpoise.flower.client import ClientContext
from counterpoise.flower.messages import TRAIN, TrainAsk, broadcast_digest
from counterpoise.flower.received import LOG_NAME, Received, compare_received, log_received, read_received
from counterpoise.run.config.experiment import make_experiment
from counterpoise.server.round import announce

TRIALS = 100
SHA = "a" * 64


def compare(*paths: Path) -> Finished:
    return call("flower", "compare-received", *paths)


def visit(context: ClientContext, broadcast: Broadcast, run: str = RUN) -> None:
    """One message to a client, with the digest that fits it; a model that does not fit fails after it is logged."""
    ask = TrainAsk(run, context.name, broadcast, [Task(context.number)], "", 0)
    frozen = context.work.model.frozen_sha256
    [content] = messages.write_train([ask], broadcast_digest(broadcast), frozen)
    client.answer(Message(content, 1, TRAIN), lambda: context, client.train)


# Alterations


def flip(leaf: Tensor, draw: random.Random) -> Tensor:
    """The tensor with one bit changed."""
    found = leaf.clone()
    raw = found.view(-1).view(torch.uint8)
    raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    return found


def flip_bit(params: Params, draw: random.Random) -> Params:
    name = draw.choice(sorted(params))
    return {**params, name: flip(params[name], draw)}


def swap(params: Params, draw: random.Random) -> Params:
    """Two tensors under each other's names."""
    one, other = draw.sample(sorted(params), 2)
    return {**params, one: params[other], other: params[one]}


def rename(params: Params, draw: random.Random) -> Params:
    name = draw.choice(sorted(params))
    return {(key + "_" if key == name else key): leaf for key, leaf in params.items()}


def retype(params: Params, draw: random.Random) -> Params:
    """The same bytes as numbers of another type."""
    name = draw.choice(sorted(params))
    other = torch.int64 if params[name].is_floating_point() else torch.float64
    return {**params, name: params[name].view(other)}


def reshape(params: Params, draw: random.Random) -> Params:
    name = draw.choice(sorted(params))
    return {**params, name: params[name].unsqueeze(0)}


def leave_out(params: Params, draw: random.Random) -> Params:
    name = draw.choice(sorted(params))
    return {key: leaf for key, leaf in params.items() if key != name}


ALTERATIONS = (flip_bit, swap, rename, retype, reshape, leave_out)


def altered(sent: Broadcast, draw: random.Random) -> Broadcast:
    """Another model, other buffers, or another control variate."""
    alter: Callable[[Params, random.Random], Params] = draw.choice(ALTERATIONS)
    match draw.randrange(3):
        case 0:
            return sent._replace(params=alter(sent.params, draw))
        case 1:
            return sent._replace(buffers=alter(sent.buffers, draw))
        case _:
            slots = {name: _altered(slot, alter, draw) for name, slot in sent.shared.items() if slot}
            return sent._replace(shared=slots)


def _altered(slot: Any, alter: Callable[[Params, random.Random], Params], draw: random.Random) -> Any:
    nested = next((name for name, leaf in slot.items() if isinstance(leaf, dict)), None)
    return alter(slot, draw) if nested is None else {**slot, nested: alter(slot[nested], draw)}


@pytest.fixture(scope="module")
def opened() -> tuple[list[ClientContext], Broadcast]:
    """Two clients of a method that sends a slot too, and a model with buffers."""
    model = small_model("mlp", (5,), hidden=[6], norm="batch")
    sim = simulate("scaffold", model=model, federation=unequal_federation(sizes=(24, 24)), cohort=None)
    stream = generator(0, "test received")

    def drawn(leaf: Tensor) -> Tensor:
        """Nothing is 0 as in a first round: two tensors of zeros may be swapped by anybody."""
        return torch.randint(1, 10**6, leaf.shape, generator=stream).to(leaf.dtype)

    sent = Broadcast.from_tree(0, 0.1, tmap(drawn, announce(sim.method, sim.open(), 0.1).to_tree()))
    assert sent.buffers
    assert any(sent.shared.values())
    return [ClientContext(name, k, sim.work, Path(), run=RUN) for k, name in enumerate("ab")], sent


def test_a_hundred_altered_models_are_found_by_clients_that_compare(
    opened: tuple[list[ClientContext], Broadcast], tmp_path: Path
) -> None:
    (first, second), sent = opened
    for trial in range(TRIALS):
        draw, folder = random.Random(trial), tmp_path / str(trial)
        visit(first._replace(state=folder / "a"), sent)
        visit(second._replace(state=folder / "b"), altered(sent, draw))
        with pytest.raises(
            SecurityError, match=r"run 0{12}, round 1: .*: [ab] received \w{12}; [ab] received"
        ):
            compare_received([folder / name / LOG_NAME for name in "ab"])


def test_what_is_personal_and_how_it_is_laid_out_do_not_count(
    opened: tuple[list[ClientContext], Broadcast], tmp_path: Path
) -> None:
    """Knobs differ, names come in another order, and memory is laid out otherwise."""
    (first, second), sent = opened
    other = {
        name: leaf.t().contiguous().t() if leaf.dim() == 2 else leaf
        for name, leaf in reversed(sent.params.items())
    }
    assert any(not leaf.is_contiguous() for leaf in other.values())
    visit(first._replace(state=tmp_path / "a"), sent)
    visit(second._replace(state=tmp_path / "b"), sent._replace(params=other))
    assert compare_received([tmp_path / name / LOG_NAME for name in "ab"]).common == 1
    remote, _ = over_flower("fedavg", tmp_path / "knobs", cohort=None)
    state = remote.open()
    tasks = [Task(k, {"rate": 0.1 * k}) for k in range(6)]
    remote.engine.train(tasks, announce(remote.method, state, 0.1))
    found = compare_received(sorted((tmp_path / "knobs").glob(f"*/{LOG_NAME}")))
    assert (len(found.clients), found.common) == (6, 1)


def test_clients_of_an_honest_run_received_the_same_also_after_a_resume(tmp_path: Path) -> None:
    tables = {"method": "scaffold", "rounds": 3, "cohort": {"size": 2}, "flower": {"wait": 0.3}}
    out, net = tmp_path / "out", numbered(tmp_path, 3)
    net.run(make_experiment({**TINY, **tables, "partition": {"clients": 3}}), out)
    for manifest in sorted((out / "checkpoints").glob("round-*.json"))[1:]:
        manifest.unlink()
    net.run(None, out)
    logs = sorted((tmp_path / "clients").glob(f"*/{LOG_NAME}"))
    rows = [row for log in logs for row in read_received(log)]
    assert len(rows) == 3 * 2 + 2 * 2  # rounds after the checkpoint were asked for twice
    done = compare(*logs)
    assert (done.code, done.out) == (0, "3 of 3 rounds in common of 3 clients, all alike\n")
    told = json.loads(call("flower", "compare-received", *logs, "--json").out)
    assert told == {"clients": ["0", "1", "2"], "rounds": 3, "common": 3}


# The command


def write_log(folder: Path, name: str, *shas: str, run: str = RUN, first: int = 0) -> Path:
    for number, sha in enumerate(shas, first):
        log_received(folder / name, Received(run, name, number, sha * 64))
    return folder / name / LOG_NAME


def test_different_models_are_one_line_and_exit_code_5(tmp_path: Path) -> None:
    logs = (
        write_log(tmp_path, "a", *"1234"),
        write_log(tmp_path, "b", *"1254"),
        write_log(tmp_path, "c", *"1634"),
    )
    assert_refused(
        compare(*logs), 5, "run 000000000000, round 2", "a, b received 222222222222; c received 666666666666", "1 more of 4 rounds"
    )  # fmt: skip
    assert compare(logs[0], write_log(tmp_path / "more", "d", *"1234")).code == 0


def test_a_client_that_received_two_models_in_a_round_is_found(tmp_path: Path) -> None:
    logs = write_log(tmp_path, "a", "1"), write_log(tmp_path, "b", "1")
    assert compare(*logs).code == 0
    write_log(tmp_path, "b", "2")
    assert_refused(compare(*logs), 5, "a, b received 111111111111; b received 222222222222")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not a log\n", "row 1: damaged"),
        (b"[" * 5000 + b"\n", "row 1: damaged"),
        (b"\xff\xfe\x00\n", "row 1: damaged"),
        (b'{"round": 1, "accuracy": 0.5}\n', "row 1: not a row that a client logs"),
        (json.dumps({"run": SHA, "client": "a\x1b[2J", "round": 1, "sha256": SHA}).encode() + b"\n", "row 1: not"),
        (json.dumps({"run": SHA, "client": "a", "round": True, "sha256": SHA}).encode() + b"\n", "row 1: not"),
        (b"", "the logs are of a; needs those of two or more clients"),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_log_is_one_line(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    assert_refused(compare(write_log(tmp_path, "a", "1"), tmp_path / "other"), 3, words)


def test_logs_that_cannot_be_compared_are_one_line(tmp_path: Path) -> None:
    log = write_log(tmp_path, "a", "1")
    assert_refused(compare(log, tmp_path / "none"), 2, "is no file", LOG_NAME)
    assert_refused(compare(log, log), 3, "needs those of two or more clients")
    assert_refused(
        compare(log, write_log(tmp_path, "b", "1", first=7)), 3, "a, b have no round of a run in common"
    )
    assert_refused(compare(log, write_log(tmp_path, "c", "1", run=SHA)), 3, "no round of a run in common")


def test_a_row_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    logs = write_log(tmp_path, "a", "1", "2"), write_log(tmp_path, "b", "1", "2")
    logs[1].write_bytes(logs[1].read_bytes()[:-9])
    assert compare(*logs).out == "1 of 2 rounds in common of 2 clients, all alike\n"


def test_a_message_without_a_proper_run_leaves_no_row(
    opened: tuple[list[ClientContext], Broadcast], tmp_path: Path
) -> None:
    """A server that could write into a log could make it unreadable."""
    (first, _), sent = opened
    for run in ("", "x", '"}\n', "A" * 64):
        visit(first._replace(state=tmp_path / "a"), sent, run)
    assert not (tmp_path / "a" / LOG_NAME).exists()
    visit(first._replace(state=tmp_path / "a"), sent)
    assert len(read_received(tmp_path / "a" / LOG_NAME)) == 1
