"""Messages of a sum as bytes: a head, pieces, and a checksum that finds what was damaged on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = b"CPS1"
LENGTH = 4  # bytes that give the length of the head
CHECKSUM = 32  # bytes of the SHA-256 at the end
LARGEST = 1 << 30  # bytes of a message


class Head(NamedTuple):
    """What a message belongs to; an answer repeats the head of its question."""

    mode: str
    phase: str
    run: str
    epoch: str  # drawn anew for each attempt, so that nothing of one fits into another
    what: str  # which numbers are added up
    client: str


class FrameError(Exception):
    """Bytes that are no message."""


def pack(head: Head, pieces: Sequence[bytes]) -> bytes:
    facts = json.dumps([list(head), [len(piece) for piece in pieces]]).encode()
    body = b"".join([MAGIC, len(facts).to_bytes(LENGTH, "big"), facts, *pieces])
    return body + hashlib.sha256(body).digest()


def unpack(message: bytes) -> tuple[Head, list[bytes]]:
    """The head and the pieces; sizes and the checksum are compared before anything else looks at a piece."""
    body, start = message[:-CHECKSUM], len(MAGIC) + LENGTH
    if len(message) > LARGEST or hashlib.sha256(body).digest() != message[-CHECKSUM:]:
        raise FrameError("damaged or too long")
    if len(body) < start or body[: len(MAGIC)] != MAGIC:
        raise FrameError("not a message of a sum")
    end = start + int.from_bytes(body[len(MAGIC) : start], "big")
    head, sizes = _facts(body[start:end])
    if any(type(size) is not int or size < 0 for size in sizes) or end + sum(sizes) != len(body):
        raise FrameError("pieces that do not fill the message")
    pieces = []
    for size in sizes:
        pieces.append(body[end : end + size])
        end += size
    return head, pieces


def _facts(text: bytes) -> tuple[Head, list[int]]:
    try:
        words, sizes = json.loads(text)
        known = len(words) == len(Head._fields) and all(type(word) is str for word in words)
    except (ValueError, TypeError, RecursionError):
        known = False
    if not known or not isinstance(sizes, list):
        raise FrameError("a head that cannot be read")
    return Head(*words), sizes


def write_names(names: Sequence[str]) -> bytes:
    return json.dumps(list(names)).encode()


def read_names(piece: bytes) -> list[str]:
    try:
        names = json.loads(piece)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        raise FrameError("names that cannot be read")
    return names
