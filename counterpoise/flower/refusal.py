"""Why a message is refused, in one word; and the first usable answer of each client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from flwr.app import Message, RecordDict

CLIENT_FAILED = 100  # error code of a client that failed; Flower's own codes mean no answer

REASONS = {
    "records": "records are missing, too many or of another kind",
    "names": "tensors are missing, too many or named otherwise",
    "shape": "a tensor has another shape",
    "dtype": "a tensor has another type",
    "tensors": "what should be tensors is not readable as such",
    "tasks": "the trainings that are asked for are not readable",
    "finite": "a number is not finite",
    "range": "a number is too large to be the result of training",
    "samples": "the number of samples is not what the client said at the start",
    "counts": "what the client counted cannot be of the samples that it holds out",
    "share": "the client's share of the data is not the one that the server has for it",
    "client": "another client's name",
    "round": "another round",
    "sha256": "the client received another model than the server sent",
    "frozen": "the frozen part of the client's model is not the server's",
    "weights": "the client was not given the file of the frozen part of the model (--weights)",
    "model": "the model's name is code of a package, which a server must not choose",
    "token": "the name of the client's new memory is not the one agreed on",
    "memory": "the client does not have the memory that the server counts on",
    "duplicate": "the client answered already",
    "sender": "the node does not speak for this client, or was not asked",
    "data": "the client cannot read its data",
    "error": "the client failed",
    "app": "another app than this program",
    "sum": "the client does not take part in this sum, since it would tell too much; its log says why",
    "private": "the client takes part only where class counts are hidden (privacy.histogram)",
    "key": "the client has no key of this sum: it was started anew",
    "version": "the client has another version of this program",
}


class Refused(Exception):  # noqa: N818
    """A refused message: carries a word of `REASONS` and nothing of its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason if reason in REASONS else "records"


Answer = TypeVar("Answer")


def first_answers(
    replies: Iterable[Message],
    nodes: Mapping[str, int],
    asked: Collection[str],
    read: Callable[[str, RecordDict], Answer],
) -> tuple[dict[str, Answer], list[tuple[str, str]]]:
    """The first usable answer of each client that was asked, and who was refused for which reason.

    A client is identified by the node that sent the message; `read` checks the content. Flower's own errors, such as for
    a node that is gone, are not replies.
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
    """The reason that a failed client gave, where it is a known one."""
    reason = reply.error.reason or ""
    return reason if reason in REASONS else "error"
