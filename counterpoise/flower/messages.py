"""Requests and replies as Flower records, which one side writes and the other reads and checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from flwr.app import ConfigRecord, RecordDict

from counterpoise.core.codec import digest, encode
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.part import Measurement
from counterpoise.core.tree import Params, Tree, leaves
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
from counterpoise.metrics.scoring import count, count_all, samples_counted

TRAIN, MEASURE, HELLO = "train", "evaluate.measure", "query.hello"
# Measurements that a client can be asked for, by name.
MEASUREMENTS: dict[str, Measurement] = {"count": count, "count_all": count_all}

MOST_TASKS = 10_000  # per message

ASK = {"run": str, "client": str, "round": int, "lr": float, "sha256": str, "memory": str, "since": int, "tasks": str, "frozen": str}  # fmt: skip
REPLY = {"client": str, "round": int, "sha256": str, "samples": int, "token": str, "trees": bytes}
MEASURE_ASK = {"run": str, "client": str, "sha256": str, "models": int, "measurement": str, "own": bool, "memory": str, "frozen": str}  # fmt: skip
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


class Judged(NamedTuple):
    """Stacked models, packed once for all clients that judge the same ones."""

    sha256: str
    number: int
    record: ConfigRecord

    @classmethod
    def pack(cls, models: Params, buffers: Params) -> Judged:
        tree = {"params": models, "buffers": buffers}
        return cls(digest(tree), len(next(iter(models.values()))), pack_tree(tree))


class MeasureAsk(NamedTuple):
    """What one client is asked to measure on its held-out samples."""

    run: str
    client: str
    measurement: str
    own: bool = False  # the model that the client would use, by its memory
    memory: str = ""  # token of that memory


def write_measure(ask: MeasureAsk, judged: Judged, frozen: str) -> RecordDict:
    facts = {**ask._asdict(), "sha256": judged.sha256, "models": judged.number, "frozen": frozen}
    return RecordDict({"ask": pack_facts(facts), "models": judged.record})


def read_measure(content: RecordDict, frozen: str) -> tuple[MeasureAsk, str, Params, Params]:
    """The request, the checked digest of its models, and the models."""
    facts = _same_frozen(unpack_facts(content.get("ask"), MEASURE_ASK), frozen)
    _, models = take(content, ["ask", "models"])
    tree = unpack_tree(models)
    if digest(tree) != facts["sha256"]:
        raise Refused("sha256")
    if facts["measurement"] not in MEASUREMENTS or (facts["own"] and facts["models"] != 1):
        raise Refused("records")
    ask = MeasureAsk(**{name: facts[name] for name in MeasureAsk._fields})
    return ask, facts["sha256"], tree["params"], tree.get("buffers", {})


def write_measure_reply(ask: MeasureAsk, sha256: str, sums: Tree) -> RecordDict:
    return RecordDict(
        {"reply": pack_facts({"client": ask.client, "sha256": sha256}), "sums": pack_tree(sums)}
    )


def read_measure_reply(content: RecordDict, client: str, sha256: str, spec: TreeSpec, held_out: int) -> Tree:
    """Sums of K models, refused where they cannot be counts of the samples that the client said it has."""
    facts = unpack_facts(content.get("reply"), MEASURE_REPLY)
    if facts["client"] != client or facts["sha256"] != sha256:
        raise Refused("client" if facts["client"] != client else "sha256")
    _, sums = take(content, ["reply", "sums"])
    tree = unpack_tree(sums)
    check_spec(tree, spec)
    _check_counts(tree, held_out)
    return tree


def _check_counts(sums: Tree, held_out: int) -> None:
    """Counts that are possible may still be invented: only the client sees its samples."""
    support = sums["confusion"].sum(-1)  # [K, C] true classes, which are the same for every model
    possible = (
        all(bool((leaf >= 0).all()) for leaf in leaves(sums))
        and all(bool((found == held_out).all()) for found in samples_counted(sums))
        and torch.equal(support, support[:1].expand_as(support))
    )
    if not possible:
        raise Refused("counts")
