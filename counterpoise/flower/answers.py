"""From the messages that arrive to one usable answer a client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from flwr.app import Message, RecordDict

from counterpoise.flower.refusal import CLIENT_FAILED, REASONS, Refused

Answer = TypeVar("Answer")


def first_answers(
    replies: Iterable[Message],
    nodes: Mapping[str, int],
    asked: Collection[str],
    read: Callable[[str, RecordDict], Answer],
) -> tuple[dict[str, Answer], list[tuple[str, str]]]:
    """The first usable answer of each client that was asked, and who was refused for which reason.

    A client is told by the node that a message comes from; `read` checks what is in it. Errors of Flower's own, as for
    a node that is gone, are no replies.
    """
    names = {node: name for name, node in nodes.items()}
    answers: dict[str, Answer] = {}
    refused: list[tuple[str, str]] = []
    for reply in replies:
        if reply.has_error() and reply.error.code != CLIENT_FAILED:
            continue
        name = names.get(reply.metadata.src_node_id, "")
        try:
            if reply.has_error():
                raise Refused(error_word(reply))
            if name not in asked:
                raise Refused("sender")
            if name in answers:
                raise Refused("duplicate")
            answers[name] = read(name, reply.content)
        except Refused as refusal:
            refused.append((name, refusal.reason))
    return answers, refused


def error_word(reply: Message) -> str:
    """The word that a failed client gave, where it is one of ours."""
    reason = reply.error.reason or ""
    return reason if reason in REASONS else "error"
