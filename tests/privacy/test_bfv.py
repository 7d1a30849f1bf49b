"""Encrypted sums: no overflow, no secret key at the server, and what was changed on the way gives no sum."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from parties import Parties, federation

pytest.importorskip("tenseal", reason="pip install 'counterpoise[privacy]'")

import tenseal

from counterpoise.errors import ConfigError, RunError, SecurityError
from counterpoise.privacy.bfv import DEGREE, MODULUS, check_overflow, join, piece_bits, public_context, split
from counterpoise.privacy.frame import Head, unpack
from counterpoise.privacy.layout import with_checks
from counterpoise.privacy.protocol import RefusedError
from counterpoise.privacy.settings import PrivacySettings

BFV = PrivacySettings(histogram="bfv")


@pytest.mark.parametrize("modulus", [1032193, MODULUS])
def test_sums_that_could_wrap_around_are_refused(modulus: int) -> None:
    half = modulus // 2
    check_overflow(1, half - 1, modulus)
    for too_much in (half, half + 1):
        with pytest.raises(ConfigError, match="do not fit"):
            check_overflow(1, too_much, modulus)
    with pytest.raises(ConfigError, match="do not fit"):
        check_overflow(half, 1, modulus)


def test_the_library_wraps_around_without_a_word_beyond_the_bound() -> None:
    """Why the bound is needed: t/2 - 1 comes back as it is, twice as much does not."""
    context = tenseal.context(tenseal.SCHEME_TYPE.BFV, poly_modulus_degree=DEGREE, plain_modulus=MODULUS)
    most = MODULUS // 2 - 1
    vector = tenseal.bfv_vector(context, [most, -most])
    assert vector.decrypt() == [most, -most]
    assert (vector + vector).decrypt() != [2 * most, -2 * most]


@pytest.mark.parametrize("clients", [3, 7, 100, 1000, 100_000])
def test_pieces_of_numbers_add_up_to_their_sum_below_the_bound(clients: int) -> None:
    rng = np.random.default_rng(clients)
    rows = rng.integers(-(2**40), 2**40, (4, 6))
    pieces = [split(row, clients) for row in rows]
    assert join(np.sum(pieces, axis=0), 6, clients).tolist() == rows.sum(0).tolist()
    assert clients * max(int(np.abs(piece).max()) for piece in pieces) < MODULUS // 2
    assert clients * (2 ** (piece_bits(clients) + 1) - 1) >= MODULUS // 2  # and no larger piece would do


def test_a_ciphertext_is_as_large_as_the_papers_whatever_the_number_of_classes() -> None:
    """Table 6 of FedWCM: about 88.5 kB for 10 to 100 classes."""
    for classes in (10, 100, 1000):
        parties = Parties(federation(3, classes, 1), BFV)
        parties.total()
        answers = [unpack(m)[1] for m in parties.seen if unpack(m)[0].phase == "sum"]
        sent = [pieces for pieces in answers if len(pieces) == 1]
        assert len(sent) == 3
        assert all(abs(len(pieces[0]) - 88_550) < 300 for pieces in sent)


def test_more_numbers_than_slots_take_several_ciphertexts() -> None:
    parties = Parties(federation(3, 3000, 1), BFV)
    assert parties.total().values.tolist() == parties.truth().tolist()
    answers = [unpack(m)[1] for m in parties.seen if unpack(m)[0].phase == "sum"]
    assert {len(pieces) for pieces in answers if len(pieces) != 4} == {2}


def test_a_key_that_holds_the_secret_one_is_refused() -> None:
    context = tenseal.context(tenseal.SCHEME_TYPE.BFV, poly_modulus_degree=DEGREE, plain_modulus=MODULUS)
    with pytest.raises(RefusedError, match="holds the secret one"):
        public_context(context.serialize(save_secret_key=True))
    assert not public_context(context.serialize(save_secret_key=False)).has_secret_key()


def test_the_key_holder_opens_no_single_ciphertext() -> None:
    """A curious server asks to open one client's message instead of the sum."""
    one: list[bytes] = []

    def keep(head: Head, pieces: list[bytes]) -> list[bytes]:
        if head.phase == "sum" and head.client == "c1":
            one[:] = pieces
        return pieces

    parties = Parties(federation(5, 6, 3), BFV, on_the_way=keep)
    parties.to_the_client = lambda head, pieces: [pieces[0], *one] if head.phase == "open" else pieces
    with pytest.raises(SecurityError, match="holds 1 contributions and 5 clients"):
        parties.total()
    fewer = Parties(federation(5, 6, 3), BFV, on_the_way=keep)
    fewer.to_the_client = lambda head, p: [b'["c1"]', *one] if head.phase == "open" else p
    with pytest.raises(SecurityError, match="a client does not take part"):
        fewer.total()


def test_the_key_holder_opens_once() -> None:
    parties = Parties(federation(5, 6, 3), BFV)
    asked: list[tuple[str, bytes]] = []
    first = parties.exchange

    def remembering(asks: dict[str, bytes]) -> dict[str, bytes]:
        asked.extend((name, ask) for name, ask in asks.items() if unpack(ask)[0].phase == "open")
        return first(asks)

    parties.exchange = remembering  # type: ignore[assignment,method-assign]
    parties.total()
    [(holder, question)] = asked
    head, pieces = unpack(question)
    with pytest.raises(RefusedError, match="no key of this attempt"):
        parties.clients[holder].reply(head, pieces)


Tamper = Callable[[random.Random, "Scene"], list[bytes]]


class Scene:
    """What somebody on the way of one message knows: it, the public key, and a message of another run."""

    def __init__(self, message: bytes, public: bytes, clients: int, other_run: bytes) -> None:
        self.message, self.clients, self.other_run = message, clients, other_run
        self.context = public_context(public)

    def encrypt(self, numbers: list[int], consistent: bool) -> object:
        vector = np.array(numbers, np.int64)
        whole = with_checks(vector) if consistent else np.concatenate([vector, [0, 0]])
        return tenseal.bfv_vector(self.context, split(whole, self.clients).tolist())

    @property
    def own(self) -> object:
        return tenseal.bfv_vector_from(self.context, self.message)


def _add(rng: random.Random, scene: Scene) -> list[bytes]:
    numbers = [rng.randrange(1, 1000) for _ in range(6)]
    return [(scene.own + scene.encrypt(numbers, rng.random() < 0.5)).serialize()]  # type: ignore[operator]


def _replace(rng: random.Random, scene: Scene) -> list[bytes]:
    return [scene.encrypt([10**6 + rng.randrange(1000)] * 6, True).serialize()]  # type: ignore[attr-defined]


def _flip(rng: random.Random, scene: Scene) -> list[bytes]:
    changed = bytearray(scene.message)
    bit = rng.randrange(8 * len(changed))
    changed[bit // 8] ^= 1 << bit % 8
    return [bytes(changed)]


def _cut(rng: random.Random, scene: Scene) -> list[bytes]:
    return [scene.message[: rng.randrange(len(scene.message))]]


def _replay(rng: random.Random, scene: Scene) -> list[bytes]:
    return [scene.other_run]


TAMPERS = {"add": _add, "replace": _replace, "flip": _flip, "cut": _cut, "replay": _replay}


def _survives(kind: str, seed: int, other_run: bytes) -> bool:
    """Whether a changed message of one client is in a sum that was accepted."""
    rng, public = random.Random(f"{kind} {seed}"), [b""]
    changed = [0]

    def watch(head: Head, pieces: list[bytes]) -> list[bytes]:
        if head.phase == "sum":
            public[0] = pieces[2]
        return pieces

    def tamper(head: Head, pieces: list[bytes]) -> list[bytes]:
        if head.phase != "sum" or head.client != "c1" or changed[0]:
            return pieces
        changed[0] = 1
        return TAMPERS[kind](rng, Scene(pieces[0], public[0], 4, other_run))

    parties = Parties(federation(4, 6, seed), BFV, to_the_client=watch, on_the_way=tamper)
    try:
        found = parties.histogram()
    except (SecurityError, RunError):
        return False
    assert changed[0]
    # Where bytes could not even be read, the client has dropped out, and the sum is that of the others.
    return found.tolist() != parties.truth(["c0", "c2", "c3"]).tolist()


@pytest.fixture(scope="module")
def other_run() -> bytes:
    parties = Parties(federation(4, 6, 99), BFV, run="1" * 64)
    parties.total()
    [message] = [m for m in parties.seen if unpack(m)[0][1::4] == ("sum", "c1") and len(unpack(m)[1]) == 1]
    return unpack(message)[1][0]


@pytest.mark.parametrize("kind", TAMPERS)
def test_no_changed_ciphertext_gets_into_a_sum(kind: str, other_run: bytes) -> None:
    assert sum(_survives(kind, seed, other_run) for seed in range(20)) == 0
