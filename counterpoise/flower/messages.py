"""Requests and replies as Flower records, which one side writes and the other reads and checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, RecordDict

from counterpoise.core.codec import digest, encode
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.part import Measurement
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import ConfigError
from counterpoise.flower.records import (
    pack_facts,
    pack_tree,
    read_tree,
    take,
    unpack_facts,
    unpack_tree,
)
from counterpoise.flower.refusal import Refused
from counterpoise.flower.specs import TreeSpec, check_spec
from counterpoise.metrics.scoring import count, count_all

TRAIN, MEASURE, HELLO = "train", "evaluate.measure", "query.hello"
# Measurements that a client can be asked for, by name.
MEASUREMENTS: dict[str, Measurement] = {"count": count, "count_all": count_all}

MOST_TASKS = 10_000  # per message

ASK = {"run": str, "client": str, "round": int, "lr": float, "sha256": str, "memory": str, "since": int, "tasks": str, "frozen": str}  # fmt: skip
REPLY = {"client": str, "round": int, "sha256": str, "samples": int, "token": str, "trees": bytes}
MEASURE_ASK = {"client": str, "sha256": str, "models": int, "measurement": str, "frozen": str}
MEASURE_REPLY = {"client": str, "sha256": str}


class TrainAsk(NamedTuple):
    """One client's work of one round."""

    run: str
    client: str
    broadcast: Broadcast
    tasks: Sequence[Task]
    memory: str  # token of the memory to start from; naming it commits it
    since: int  # the oldest checkpoint that the server may resume from


class TrainReply(NamedTuple):
    """One client's reply: a tree per task."""

    samples: int
    trees: Sequence[Tree]
    token: str  # of the client's new memory; empty where it has none


class Hello(NamedTuple):
    """What a client reports before round 0."""

    client: str
    samples: int
    held_out: int
    share: str  # digest of its share of the experiment's data; empty where the data is its own
    surveys: Tree  # part name -> its survey


def broadcast_digest(broadcast: Broadcast) -> str:
    """SHA-256 of a round's broadcast: the same for every client, and checked by each."""
    facts = json.dumps([broadcast.round, float(broadcast.lr)]).encode()
    return hashlib.sha256(facts + digest(broadcast.to_tree()).encode()).hexdigest()


def write_train(asks: Sequence[TrainAsk], sha256: str, frozen: str) -> list[RecordDict]:
    """One message per client; the model is packed once. `frozen`: digest of the part of it that is never sent."""
    if not asks:
        return []
    model = pack_tree(asks[0].broadcast.to_tree())
    return [_train_content(ask, sha256, model, frozen) for ask in asks]


def _train_content(ask: TrainAsk, sha256: str, model: ConfigRecord, frozen: str) -> RecordDict:
    facts = {
        "run": ask.run,
        "client": ask.client,
        "round": ask.broadcast.round,
        "lr": float(ask.broadcast.lr),
        "sha256": sha256,
        "memory": ask.memory,
        "since": ask.since,
        "tasks": json.dumps([{n: float(v) for n, v in task.knobs.items()} for task in ask.tasks]),
        "frozen": frozen,
    }
    return RecordDict({"ask": pack_facts(facts), "model": model})


def read_train(content: RecordDict, client: int, frozen: str) -> tuple[TrainAsk, str]:
    """The request to the client of this number, and the checked digest of its broadcast; `frozen`: of its own model."""
    facts = _same_frozen(unpack_facts(content.get("ask"), ASK), frozen)
    _, model = take(content, ["ask", "model"])
    try:
        broadcast = Broadcast.from_tree(facts["round"], facts["lr"], unpack_tree(model))
    except KeyError:
        raise Refused("names") from None
    if broadcast_digest(broadcast) != facts["sha256"]:
        raise Refused("sha256")
    tasks = [Task(client, knobs) for knobs in _read_tasks(facts["tasks"])]
    ask = TrainAsk(facts["run"], facts["client"], broadcast, tasks, facts["memory"], facts["since"])
    return ask, facts["sha256"]


def _same_frozen(facts: dict[str, Any], frozen: str) -> dict[str, Any]:
    """The frozen part of a model is not sent: a client that has another one would train another model."""
    if facts["frozen"] != frozen:
        raise Refused("frozen")
    return facts


def _read_tasks(text: str) -> list[dict[str, float]]:
    """The knobs of each task: numbers by name."""
    try:
        tasks = json.loads(text)
        sound = 1 <= len(tasks) <= MOST_TASKS and all(
            type(value) is float for knobs in tasks for value in knobs.values()
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise Refused("tasks")
    return list(tasks)


def write_train_reply(ask: TrainAsk, sha256: str, reply: TrainReply) -> RecordDict:
    facts = {
        "client": ask.client,
        "round": ask.broadcast.round,
        "sha256": sha256,
        "samples": reply.samples,
        "token": reply.token,
        "trees": encode({str(k): tree for k, tree in enumerate(reply.trees)}),
    }
    return RecordDict({"reply": pack_facts(facts)})


def read_train_reply(
    content: RecordDict, ask: TrainAsk, sha256: str, samples: int, token: str, spec: TreeSpec
) -> TrainReply:
    """One client's reply, after every name, shape, type and number in it is checked."""
    facts = unpack_facts(content.get("reply"), REPLY)
    take(content, ["reply"])
    known = {"client": ask.client, "round": ask.broadcast.round, "sha256": sha256, "samples": samples}
    for name, value in known.items():
        if facts[name] != value:
            raise Refused(name)
    if facts["token"] not in ("", token):
        raise Refused("token")
    found = read_tree(facts["trees"])
    if set(found) != {str(k) for k in range(len(ask.tasks))}:
        raise Refused("names")
    trees = [found[str(k)] for k in range(len(ask.tasks))]
    for tree in trees:
        check_spec(tree, spec)
    return TrainReply(samples, trees, str(facts["token"]))


def measurement_name(measurement: Measurement) -> str:
    """The name of a measurement, since a function cannot be sent."""
    for name, known in MEASUREMENTS.items():
        if known is measurement:
            return name
    raise ConfigError(f"clients cannot be asked for this over Flower; needs one of {', '.join(MEASUREMENTS)}")


def write_measure(
    clients: Sequence[str], models: Params, buffers: Params, name: str, frozen: str
) -> list[RecordDict]:
    """Ask each client for a measurement of stacked models on its held-out samples."""
    tree = {"params": models, "buffers": buffers}
    sha256, record, number = digest(tree), pack_tree(tree), len(next(iter(models.values())))
    facts = {"sha256": sha256, "models": number, "measurement": name, "frozen": frozen}
    return [RecordDict({"ask": pack_facts({"client": c, **facts}), "models": record}) for c in clients]


def read_measure(content: RecordDict, frozen: str) -> tuple[Mapping[str, Any], Params, Params, Measurement]:
    facts = _same_frozen(unpack_facts(content.get("ask"), MEASURE_ASK), frozen)
    _, models = take(content, ["ask", "models"])
    tree = unpack_tree(models)
    if digest(tree) != facts["sha256"]:
        raise Refused("sha256")
    if facts["measurement"] not in MEASUREMENTS:
        raise Refused("records")
    return facts, tree["params"], tree.get("buffers", {}), MEASUREMENTS[str(facts["measurement"])]


def write_measure_reply(facts: Mapping[str, Any], sums: Tree) -> RecordDict:
    known = {"client": str(facts["client"]), "sha256": str(facts["sha256"])}
    return RecordDict({"reply": pack_facts(known), "sums": pack_tree(sums)})


def read_measure_reply(content: RecordDict, client: str, sha256: str, spec: TreeSpec) -> Tree:
    facts = unpack_facts(content.get("reply"), MEASURE_REPLY)
    if facts["client"] != client or facts["sha256"] != sha256:
        raise Refused("client" if facts["client"] != client else "sha256")
    _, sums = take(content, ["reply", "sums"])
    tree = unpack_tree(sums)
    check_spec(tree, spec)
    return tree
