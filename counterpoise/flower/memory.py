"""A client's memory on its own disk, committed in two phases, so that a lost or repeated message cannot apply it twice.

Each training writes a new generation under a token that both sides derive from what was sent. It is pending until a
later message names its token as the memory to start from; other generations are discarded. A resumed server names the
token of its checkpoint, so client and server always go back together.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from counterpoise.core.codec import decode, encode
from counterpoise.core.tree import Tree
from counterpoise.errors import DataError
from counterpoise.flower.refusal import Refused
from counterpoise.system.atomic import clear_temporaries, write_atomically

NAME = re.compile("[0-9a-f]{64}")
FIRST = ""  # the token of a client without memory
KEPT_RUNS = 5
HEAD = 8  # bytes that give the length of a generation's head


def next_token(base: str, client: str, sha256: str) -> str:
    """The token of a client's new memory after training on a broadcast; independent of its data."""
    return hashlib.sha256(json.dumps([base, client, sha256]).encode()).hexdigest()


class Head(NamedTuple):
    """The origin of a generation."""

    base: str  # the token it was trained from
    round: int


class DiskMemory:
    """The generations of one client in one run."""

    def __init__(self, state: Path, run: str, client: str) -> None:
        if not NAME.fullmatch(run):
            raise Refused("records")
        self.runs = state / "memory" / hashlib.sha256(client.encode()).hexdigest()[:32]
        self.folder = self.runs / run

    def load(self, token: str) -> Tree | None:
        """The memory under this token; None for a client without memory."""
        return None if token == FIRST else self._read(token)[1]

    def write(self, token: str, base: str, round: int, memory: Tree) -> None:
        """A pending generation; on disk before the reply is sent."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        head = json.dumps(Head(base, round)._asdict()).encode()
        body = len(head).to_bytes(HEAD, "big") + head + encode(memory)
        write_atomically(self.folder / token, hashlib.sha256(body).digest() + body)

    def collect_garbage(self, token: str, round: int, since: int) -> None:
        """A message of this round accepts `token`: delete other generations of earlier rounds.

        Ancestors of `token` are kept back to a checkpoint of round `since`. Later rounds are kept, so that a late or
        repeated message deletes nothing.
        """
        if not self.folder.is_dir():
            self._delete_old_runs()
            return
        clear_temporaries(self.folder)
        kept = self._lineage(token, since)
        for path in self.folder.iterdir():
            if path.name not in kept and self._round_of(path.name) < round:
                path.unlink()

    def _lineage(self, token: str, since: int) -> set[str]:
        kept: set[str] = set()
        while token != FIRST and token not in kept and (self.folder / token).is_file():
            kept.add(token)
            head, _ = self._read(token)
            token = FIRST if head.round < since else head.base
        return kept

    def _round_of(self, token: str) -> int:
        try:
            return self._read(token)[0].round
        except Refused:
            return -1  # damaged, so never needed

    def _read(self, token: str) -> tuple[Head, Tree]:
        path = self.folder / token
        content = path.read_bytes() if NAME.fullmatch(token) and path.is_file() else b""
        checksum, body = content[:32], content[32:]
        if hashlib.sha256(body).digest() != checksum:
            raise Refused("memory")
        size = int.from_bytes(body[:HEAD], "big")
        try:
            head = Head(**json.loads(body[HEAD : HEAD + size]))
            return head, decode(body[HEAD + size :], "memory")
        except (DataError, ValueError, TypeError):
            raise Refused("memory") from None

    def _delete_old_runs(self) -> None:
        """Delete the memory of other runs, except the newest few, which may still be resumed."""
        runs = self.runs.iterdir() if self.runs.is_dir() else []
        for folder in sorted(runs, key=lambda path: path.stat().st_mtime)[: -KEPT_RUNS or None]:
            shutil.rmtree(folder, ignore_errors=True)
