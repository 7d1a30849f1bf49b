"""The first message: which client a node is, how much data it has, and the surveys of the parts before round 0."""

from __future__ import annotations

from flwr.app import RecordDict

from counterpoise.engines.service import survey, tally
from counterpoise.engines.workplace import Workplace
from counterpoise.flower.messages import Hello
from counterpoise.flower.records import pack_facts, pack_tree, take, unpack_facts, unpack_tree
from counterpoise.flower.refusal import Refused
from counterpoise.version import __version__

REPLY = {"client": str, "version": str, "samples": int, "counts": list, "held_out": int}
MOST_SAMPLES = 10**10


def write_hello() -> RecordDict:
    return RecordDict({"ask": pack_facts({"version": __version__})})


def answer_hello(work: Workplace, name: str, client: int) -> RecordDict:
    """A client's number of samples, class counts, and the surveys of the parts; nothing else."""
    federation = work.federation
    data, classes = federation.client(client), len(federation.classes)
    counts = data.labels.bincount(minlength=classes).tolist()
    held_out = len(federation.held_out[client]) if federation.held_out else 0
    facts = {
        "client": name,
        "version": __version__,
        "samples": len(data.labels),
        "counts": counts,
        "held_out": held_out,
    }
    return RecordDict(
        {"reply": pack_facts(facts), "surveys": pack_tree(survey(work, client) | tally(work, client))}
    )


def read_hello(content: RecordDict, classes: int) -> Hello:
    """A node's hello, refused where its numbers cannot be true."""
    facts = unpack_facts(content.get("reply"), REPLY)
    _, surveys = take(content, ["reply", "surveys"])
    if facts["version"] != __version__:
        raise Refused("version")
    counts, samples, held_out = facts["counts"], facts["samples"], facts["held_out"]
    if not 1 <= samples <= MOST_SAMPLES or not 0 <= held_out <= MOST_SAMPLES:
        raise Refused("samples")
    whole = all(type(number) is int and number >= 0 for number in counts)
    if not whole or len(counts) != classes or sum(counts) != samples:
        raise Refused("counts")
    return Hello(facts["client"], samples, counts, held_out, unpack_tree(surveys))
