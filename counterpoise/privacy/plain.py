"""Plain numbers: the server sees each client's and adds them up; the reference of the other modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from counterpoise.privacy.frame import Head, read_names, write_names
from counterpoise.privacy.layout import CHECKS, Vector
from counterpoise.privacy.protocol import DropOutError, RefusedError, SumClient, Talk

LITTLE = np.dtype("<i8")


@dataclass
class PlainSum:
    """The server's side: one question, and whole numbers back."""

    signed: bool = False
    mode: ClassVar[str] = "plain"
    fewest: ClassVar[int] = 1

    def total(self, names: Sequence[str], size: int, talk: Talk) -> Vector:
        question = [write_names(names)]
        answers = talk.ask("sum", dict.fromkeys(names, question))
        return sum(vectors(answers, size + CHECKS, LITTLE).values(), np.zeros(size + CHECKS, np.int64))


class PlainClient(SumClient):
    """The client's side: it says what it counts."""

    mode: ClassVar[str] = "plain"
    fewest: ClassVar[int] = 1

    def reply(self, head: Head, pieces: Sequence[bytes]) -> list[bytes]:
        if head.phase != "sum" or len(pieces) != 1:
            raise RefusedError("no such question")
        return [self.numbers(head, read_names(pieces[0])).astype(LITTLE).tobytes()]


def vectors(answers: dict[str, list[bytes]], size: int, kind: np.dtype[np.generic]) -> dict[str, Vector]:
    """Each client's numbers; a client that sent anything else has dropped out."""
    wrong = [name for name, pieces in answers.items() if [len(p) for p in pieces] != [size * kind.itemsize]]
    if wrong:
        raise DropOutError(wrong)
    return {name: np.frombuffer(pieces[0], kind) for name, pieces in answers.items()}
