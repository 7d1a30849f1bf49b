"""One sum over clients in messages: what every mode shares on the server's side and on a client's."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from counterpoise.errors import RunError, SecurityError, listed
from counterpoise.privacy.frame import FrameError, Head, pack, unpack
from counterpoise.privacy.identity import Identity, Unsigned
from counterpoise.privacy.layout import Vector, checked, with_checks
from counterpoise.privacy.noise import noise

LOG = logging.getLogger("counterpoise")
FEWEST = 3  # of two clients each learns the other's numbers from the sum
FEW = 5  # below it a warning
ATTEMPTS = 5

# Client -> question -> client -> answer
Transport: TypeAlias = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]


class DropOutError(Exception):
    """Clients that did not answer: nothing can be said of the sum, so it is asked for anew without them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(*names)
        self.names = list(names)


class RefusedError(Exception):
    """A client does not answer, since its answer would tell too much or its question makes no sense."""


class KeyGoneError(RefusedError):
    """The client has no key of this attempt: it was started anew, or has answered already."""


@dataclass
class SumCost:
    """Messages of a sum, their bytes, and the seconds until it was known."""

    messages: int = 0  # questions and answers
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0
    attempts: int = 0


@dataclass
class Talk:
    """The server's side of one attempt: questions out, answers in, both counted."""

    mode: str
    run: str
    what: str
    transport: Transport
    cost: SumCost
    epoch: str = field(default_factory=lambda: secrets.token_hex(16))

    def ask(self, phase: str, questions: Mapping[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
        """The pieces of every client's answer; without all of them the attempt is over."""
        heads = {name: Head(self.mode, phase, self.run, self.epoch, self.what, name) for name in questions}
        sent = {name: pack(heads[name], pieces) for name, pieces in questions.items()}
        got = self.transport(sent)
        self._count(sent, got)
        answers = {name: _answer(heads[name], got[name]) for name in sent if name in got}
        if missing := [name for name in sent if answers.get(name) is None]:
            raise DropOutError(missing)
        return {name: pieces for name, pieces in answers.items() if pieces is not None}

    def _count(self, sent: Mapping[str, bytes], got: Mapping[str, bytes]) -> None:
        self.cost.messages += len(sent) + len(got)
        self.cost.bytes_down += sum(map(len, sent.values()))
        self.cost.bytes_up += sum(map(len, got.values()))


def _answer(head: Head, message: bytes) -> list[bytes] | None:
    """The pieces of an answer to this question; None where it is anything else."""
    try:
        found, pieces = unpack(message)
    except FrameError:
        return None
    return pieces if found == head else None


class SecureSum(Protocol):
    """The server's side of a way to add up; it holds nothing that opens a single client's message."""

    mode: ClassVar[str]
    fewest: ClassVar[int]

    @property
    def signed(self) -> bool:
        """Whether every key of the last sum came with a signature."""

    def total(self, names: Sequence[str], size: int, talk: Talk) -> Vector:
        """The sum over these clients of `size` numbers each, check numbers included."""


class Summed(NamedTuple):
    """A sum, the clients that are in it, and what it cost."""

    values: Vector
    clients: tuple[str, ...]
    cost: SumCost


def add_up(
    way: SecureSum, names: Sequence[str], size: int, transport: Transport, run: str, what: str
) -> Summed:
    """The sum over clients; those that drop out are left out of a new attempt, and no wrong sum is ever returned."""
    check_enough(way.mode, way.fewest, len(names))
    if way.fewest <= len(names) < FEW and way.fewest > 1:
        LOG.warning("a sum over %d clients hides little: with %d or more it hides better", len(names), FEW)
    there, cost, began = list(names), SumCost(), time.perf_counter()
    while cost.attempts < ATTEMPTS and len(there) >= way.fewest:
        cost.attempts += 1
        try:
            total = way.total(there, size, Talk(way.mode, run, what, transport, cost))
        except DropOutError as gone:
            LOG.warning("the sum of %s is asked for again without %s", what, listed(gone.names))
            there = [name for name in there if name not in gone.names]
            continue
        except RefusedError as error:
            raise SecurityError(f"a client does not take part in the sum of {what}: {error}") from None
        cost.seconds = time.perf_counter() - began
        return Summed(checked(total, len(there)), tuple(there), cost)
    raise RunError(
        f"the sum of {what} has no result: {len(there)} of {len(names)} clients are left after {cost.attempts} attempts, and it needs {way.fewest}"
    )


def check_enough(mode: str, fewest: int, clients: int) -> None:
    """A sum over few clients tells what each of them holds."""
    if clients < fewest:
        raise SecurityError(
            f'privacy.histogram = "{mode}" needs at least {fewest} clients, not {clients}: a sum over fewer tells what each one holds'
        )


@dataclass
class SumClient:
    """A client's side: its numbers, and its keys, which are used once."""

    name: str
    run: str
    values: Callable[[str], Vector]  # what is asked for -> this client's numbers
    epsilon: float | None = None
    identity: Identity = field(default_factory=Unsigned)
    kept: MutableMapping[str, bytes] = field(default_factory=dict, repr=False)  # keys and the last answers
    mode: ClassVar[str] = ""
    fewest: ClassVar[int] = FEWEST

    def answer(self, question: bytes) -> bytes:
        """The answer; a question that comes twice gets the same bytes, since a key is used once."""
        try:
            head, pieces = unpack(question)
            if (head.mode, head.run, head.client) != (self.mode, self.run, self.name):
                raise RefusedError("a question of another run, client or mode")
            place = f"answer-{hashlib.sha256(question).hexdigest()}"
            if place not in self.kept:
                self._forget_others(head.epoch)
                self.kept[place] = pack(head, self.reply(head, pieces))
        except FrameError as error:
            raise RefusedError(str(error)) from None
        return self.kept[place]

    def reply(self, head: Head, pieces: Sequence[bytes]) -> list[bytes]:
        raise NotImplementedError

    def numbers(self, head: Head, names: Sequence[str]) -> Vector:
        """This client's numbers with its share of the noise and with check numbers, for a sum over these clients."""
        if len(set(names)) != len(names) or self.name not in names or len(names) < self.fewest:
            raise RefusedError(
                f"a sum over {len(set(names))} clients, which needs {self.fewest} and this one"
            )
        values = self.values(head.what)
        if self.epsilon is not None:
            values = values + noise(len(values), self.epsilon, len(names))
        return with_checks(values)

    def keep_key(self, epoch: str, key: bytes) -> None:
        self.kept[f"key-{epoch}"] = key

    def take_key(self, epoch: str) -> bytes:
        """The key of this attempt, deleted: there is no second answer under it."""
        try:
            return self.kept.pop(f"key-{epoch}")
        except KeyError:
            raise KeyGoneError("no key of this attempt") from None

    def _forget_others(self, epoch: str) -> None:
        """A new attempt ends the one before: its keys and answers are deleted."""
        if self.kept.get("epoch", b"") != epoch.encode():
            for place in list(self.kept):
                del self.kept[place]
            self.kept["epoch"] = epoch.encode()


def words(head: Head, *more: bytes) -> bytes:
    """What a signature of a client covers: the run, the attempt, the client and the key."""
    return pack(head._replace(phase="keys"), list(more))
