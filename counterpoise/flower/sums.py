"""Secure sums over Flower: the same bytes as in one process, in messages to nodes and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from flwr.app import RecordDict

from counterpoise.errors import SecurityError
from counterpoise.flower.messenger import Messenger
from counterpoise.flower.records import pack_facts, take, unpack_facts
from counterpoise.flower.refusal import first_answers
from counterpoise.flower.roster import Roster

SUM = "query.sum"
REFUSED = "sum"  # the word of a client that does not take part
FIELDS = {"bytes": bytes}


def write_sum(message: bytes) -> RecordDict:
    return RecordDict({"sum": pack_facts({"bytes": message})})


def read_sum(content: RecordDict) -> bytes:
    take(content, ["sum"])
    return bytes(unpack_facts(content.get("sum"), FIELDS)["bytes"])


class SumTransport:
    """Questions to clients by name, and their answers; one that is silent or gone has none."""

    def __init__(self, messenger: Messenger, roster: Roster) -> None:
        self._messenger, self._roster = messenger, roster

    def __call__(self, questions: Mapping[str, bytes]) -> dict[str, bytes]:
        nodes = self._roster.online()
        there = {name: write_sum(asked) for name, asked in questions.items() if name in nodes}
        replies = self._messenger(SUM, "sum", there, nodes)
        answers, refused = first_answers(replies, nodes, there, lambda name, content: read_sum(content))
        for name, why in refused:
            if why == REFUSED:
                raise SecurityError(f"client {name} does not take part in this sum; its log says why")
        return answers


class KeptFiles(MutableMapping[str, bytes]):
    """What a client keeps of a sum between two messages, which different processes may answer: files of its owner alone."""

    def __init__(self, state: Path, client: str) -> None:
        self.folder = state / "sums" / hashlib.sha256(client.encode()).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)

    def __getitem__(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: bytes) -> None:
        path = self._path(key)
        path.touch(mode=0o600)
        path.write_bytes(value)  # one that is cut short by a kill is no key and no message

    def __delitem__(self, key: str) -> None:
        try:
            self._path(key).unlink()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return (bytes.fromhex(path.name).decode() for path in list(self.folder.iterdir()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _path(self, key: str) -> Path:
        """In hexadecimal, since a key holds words of the server."""
        return self.folder / key.encode().hex()
