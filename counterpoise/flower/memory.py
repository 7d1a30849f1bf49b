"""A client's memory on its own disk, in two phases, so that a lost or repeated message can't apply it twice.

Each training writes a new generation under a token that both sides derive from what was sent. It is pending until a
later message names its token as the memory to start from; generations that lead to no such message are discarded. The
server names the token of its own checkpoint when it resumes, so client and server always go back together.
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
FIRST = ""  # the token of a client that keeps nothing yet
KEPT_RUNS = 5
HEAD = 8  # bytes that give the length of a generation's head


def next_token(base: str, client: str, sha256: str) -> str:
    """The name of what a client keeps after training on a broadcast from a memory; says nothing about its data."""
    return hashlib.sha256(json.dumps([base, client, sha256]).encode()).hexdigest()


class Head(NamedTuple):
    """Where a generation comes from."""

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
        """The memory of this name; None for a client that keeps nothing yet."""
        return None if token == FIRST else self._read(token)[1]

    def write(self, token: str, base: str, round: int, memory: Tree) -> None:
        """A pending generation; durable before the reply leaves."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        head = json.dumps(Head(base, round)._asdict()).encode()
        body = len(head).to_bytes(HEAD, "big") + head + encode(memory)
        write_atomically(self.folder / token, hashlib.sha256(body).digest() + body)

    def collect_garbage(self, token: str, round: int, since: int) -> None:
        """A message of this round accepts `token`: discard what earlier rounds left beside it and what led to it.

        What led to it is kept as far back as a checkpoint of round `since`. Later rounds are left alone, so that a
        message that comes late, or twice, takes nothing away.
        """
        if not self.folder.is_dir():
            self._forget_old_runs()
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
            return -1  # damaged: of use to nobody

    def _read(self, token: str) -> tuple[Head, Tree]:
        path = self.folder / token
        content = path.read_bytes() if NAME.fullmatch(token) and path.is_file() else b""
        seal, body = content[:32], content[32:]
        if hashlib.sha256(body).digest() != seal:
            raise Refused("memory")
        size = int.from_bytes(body[:HEAD], "big")
        try:
            head = Head(**json.loads(body[HEAD : HEAD + size]))
            return head, decode(body[HEAD + size :], "memory")
        except (DataError, ValueError, TypeError):
            raise Refused("memory") from None

    def _forget_old_runs(self) -> None:
        """What other runs left, but for the newest few, which may still go on."""
        runs = self.runs.iterdir() if self.runs.is_dir() else []
        for folder in sorted(runs, key=lambda path: path.stat().st_mtime)[: -KEPT_RUNS or None]:
            shutil.rmtree(folder, ignore_errors=True)
