"""Why a message is not used, in one word; a refused reply equals no reply."""

from __future__ import annotations

CLIENT_FAILED = 100  # the code of a client's own error; Flower's codes say that nobody answered

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
    "counts": "the class counts are not whole numbers from 0 that add up to the samples",
    "client": "another client's name",
    "round": "another round",
    "sha256": "the client received another model than the server sent",
    "token": "the name of the client's new memory is not the one agreed on",
    "memory": "the client does not have the memory that the server counts on",
    "duplicate": "the client answered already",
    "sender": "the node does not speak for this client, or was not asked",
    "data": "the client cannot read its data",
    "error": "the client failed",
    "form": "the client's data does not have the form that the server described",
    "app": "another app than this program",
    "version": "the client has another version of this program",
}


class Refused(Exception):  # noqa: N818
    """A message that is not used; carries a word of `REASONS` and nothing of what was in it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason if reason in REASONS else "records"
