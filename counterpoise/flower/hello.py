"""The first message: which client a node is, how many samples it has, and what parts ask for before round 0."""

from __future__ import annotations

from flwr.app import RecordDict

from counterpoise.core.codec import digest
from counterpoise.data.federation import Federation
from counterpoise.engines.service import survey, tally
from counterpoise.engines.workplace import Workplace
from counterpoise.flower.messages import Hello
from counterpoise.flower.records import pack_facts, pack_tree, take, unpack_facts, unpack_tree
from counterpoise.flower.refusal import Refused
from counterpoise.version import __version__

REPLY = {"client": str, "version": str, "samples": int, "held_out": int, "share": str}
MOST_SAMPLES = 10**10


def write_hello() -> RecordDict:
    return RecordDict({"ask": pack_facts({"version": __version__})})


def share_digest(federation: Federation, client: int) -> str:
    """SHA-256 of which samples of the experiment's data a client has, and of their labels."""
    data = federation.client(client)
    return digest({"rows": data.rows.cpu(), "labels": data.labels})


def answer_hello(work: Workplace, name: str, client: int, own: bool) -> RecordDict:
    """A client's numbers of samples, and what the parts ask for, without tallies that are to be known as a sum only.

    `own`: it brings its own data, of which not even a digest is sent, since few guesses would find counts behind it.
    """
    federation = work.federation
    facts = {
        "client": name,
        "version": __version__,
        "samples": len(federation.clients[client]),
        "held_out": len(federation.held_out[client]) if federation.held_out else 0,
        "share": "" if own else share_digest(federation, client),
    }
    said = survey(work, client) | ({} if work.privacy.in_messages else tally(work, client))
    return RecordDict({"reply": pack_facts(facts), "surveys": pack_tree(said)})


def read_hello(content: RecordDict) -> Hello:
    """A node's hello, refused where its numbers cannot be true."""
    facts = unpack_facts(content.get("reply"), REPLY)
    _, surveys = take(content, ["reply", "surveys"])
    if facts["version"] != __version__:
        raise Refused("version")
    samples, held_out = facts["samples"], facts["held_out"]
    if not 0 <= samples <= MOST_SAMPLES or not 0 <= held_out <= MOST_SAMPLES:
        raise Refused("samples")
    return Hello(facts["client"], samples, held_out, facts["share"], unpack_tree(surveys))
