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
    """A client's number of samples, class counts, and the surveys of the parts; nothing else.

    Where class counts are to be known as a sum only, neither they nor tallies are said here.
    """
    federation = work.federation
    data, classes = federation.client(client), len(federation.classes)
    hidden = work.privacy.in_messages
    counts = [] if hidden else data.labels.bincount(minlength=classes).tolist()
    held_out = len(federation.held_out[client]) if federation.held_out else 0
    facts = {
        "client": name,
        "version": __version__,
        "samples": len(data.labels),
        "counts": counts,
        "held_out": held_out,
    }
    said = survey(work, client) | ({} if hidden else tally(work, client))
    return RecordDict({"reply": pack_facts(facts), "surveys": pack_tree(said)})


def read_hello(content: RecordDict, classes: int, hidden: bool = False) -> Hello:
    """A node's hello, refused where its numbers cannot be true, or tell what is to be `hidden`."""
    facts = unpack_facts(content.get("reply"), REPLY)
    _, surveys = take(content, ["reply", "surveys"])
    if facts["version"] != __version__:
        raise Refused("version")
    counts, samples, held_out = facts["counts"], facts["samples"], facts["held_out"]
    if not 1 <= samples <= MOST_SAMPLES or not 0 <= held_out <= MOST_SAMPLES:
        raise Refused("samples")
    whole = all(type(number) is int and number >= 0 for number in counts)
    fits = not counts if hidden else len(counts) == classes and sum(counts) == samples
    if not whole or not fits:
        raise Refused("counts")
    return Hello(facts["client"], samples, counts, held_out, unpack_tree(surveys))
