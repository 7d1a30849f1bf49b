"""Homomorphic encryption (BFV, TenSEAL), the protocol of FedWCM, section 5.5 and appendix C (Li et al., 2025).

A client drawn as key holder makes the keys and hands out the public one; all encrypt; the server, which has no secret
key, adds up ciphertexts; the key holder opens the sum and nothing else. A number is cut into pieces so small that the
sum of no piece leaves (-t/2, t/2), since SEAL wraps around modulo t without a word.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import tenseal

from counterpoise.errors import ConfigError, SecurityError
from counterpoise.privacy.frame import Head, read_names, write_names
from counterpoise.privacy.layout import BITS, CHECKS, Vector, checked
from counterpoise.privacy.plain import LITTLE
from counterpoise.privacy.protocol import FEWEST, DropOutError, RefusedError, SumClient, Talk, words

DEGREE = 4096  # of the polynomials, and slots of a ciphertext: 128 bits of security with SEAL's own moduli
MODULUS = 1073692673  # t, a prime of 30 bits that is 1 modulo 2 * DEGREE
SIGNED_BITS = BITS + 2  # noise may make a number negative


def check_overflow(clients: int, largest: int, modulus: int = MODULUS) -> None:
    """Refuse sums that could wrap around: K * largest must stay below t/2."""
    if clients * largest >= modulus // 2:
        raise ConfigError(
            f'privacy.histogram = "bfv" adds up to {modulus // 2 - 1:,} in a slot; {clients:,} clients with up to {largest:,} each do not fit'
        )


def piece_bits(clients: int, modulus: int = MODULUS) -> int:
    """The most bits of a piece of which so many clients' sum is exact."""
    check_overflow(clients, 1, modulus)
    bits = 1
    while clients * (2 ** (bits + 1) - 1) < modulus // 2:
        bits += 1
    return bits


def split(vector: Vector, clients: int) -> Vector:
    """Each number as pieces, lowest first; the highest one carries the sign."""
    bits = piece_bits(clients)
    check_overflow(clients, 2**bits - 1)
    count = -(-SIGNED_BITS // bits)
    low = [(vector >> (bits * k)) & (2**bits - 1) for k in range(count - 1)]
    return np.concatenate([*low, vector >> (bits * (count - 1))])


def join(pieces: Vector, size: int, clients: int) -> Vector:
    """The numbers of summed pieces."""
    bits = piece_bits(clients)
    rows = pieces.reshape(-1, size)
    shifts = np.arange(len(rows), dtype=np.int64) * bits
    return np.asarray((rows << shifts[:, None]).sum(0), np.int64)


@dataclass
class EncryptedSum:
    """The server's side: it hands the public key on and adds up ciphertexts that it cannot open."""

    signed: bool = False
    context: Any = field(default=None, repr=False)  # of the public key
    mode: ClassVar[str] = "bfv"
    fewest: ClassVar[int] = FEWEST

    def total(self, names: Sequence[str], size: int, talk: Talk) -> Vector:
        holder = secrets.choice(names)
        public, proof = self._public_key(holder, talk)
        question = [write_names(names), holder.encode(), public, proof]
        answers = talk.ask("sum", dict.fromkeys(names, question))
        opened = talk.ask("open", {holder: [write_names(names), *self._added(answers)]})[holder]
        if [len(piece) for piece in opened] != [LITTLE.itemsize * (size + CHECKS)]:
            raise DropOutError([holder])
        return np.frombuffer(opened[0], LITTLE).astype(np.int64)

    def _public_key(self, holder: str, talk: Talk) -> list[bytes]:
        pieces = talk.ask("keys", {holder: []})[holder]
        try:
            public, proof = pieces
            self.context, self.signed = public_context(public), bool(proof)
        except (ValueError, RefusedError):
            raise DropOutError([holder]) from None
        return [public, proof]

    def _added(self, answers: dict[str, list[bytes]]) -> list[bytes]:
        """The sum of each ciphertext over clients. The bytes are of parties that nobody vouches for: see docs/privacy.md."""
        totals: list[Any] = []
        wrong = []
        for name, pieces in answers.items():
            try:
                found = [tenseal.bfv_vector_from(self.context, piece) for piece in pieces]
                totals = [a + b for a, b in zip(totals, found, strict=True)] if totals else found
            except (ValueError, RuntimeError):
                wrong.append(name)
        if wrong:
            raise DropOutError(wrong)
        return [total.serialize() for total in totals]


class EncryptedClient(SumClient):
    """The client's side: it encrypts under the key holder's key, and may be the key holder itself."""

    mode: ClassVar[str] = "bfv"

    def reply(self, head: Head, pieces: Sequence[bytes]) -> list[bytes]:
        if head.phase == "keys" and not pieces:
            return self._new_key(head)
        if head.phase == "sum" and len(pieces) == 4:
            return self._encrypted(head, read_names(pieces[0]), pieces[1].decode(), *pieces[2:])
        if head.phase == "open" and len(pieces) > 1:
            return [self._opened(head, read_names(pieces[0]), pieces[1:])]
        raise RefusedError("no such question")

    def _new_key(self, head: Head) -> list[bytes]:
        context = tenseal.context(tenseal.SCHEME_TYPE.BFV, poly_modulus_degree=DEGREE, plain_modulus=MODULUS)
        self.keep_key(head.epoch, _written(context, secret=True))
        public = _written(context, secret=False)
        return [public, self.identity.sign(words(head, public))]

    def _encrypted(
        self, head: Head, names: Sequence[str], holder: str, public: bytes, proof: bytes
    ) -> list[bytes]:
        signed = words(head._replace(client=holder), public)
        if holder not in names or not self.identity.verify(holder, signed, proof):
            raise RefusedError(f"the public key is not signed by {holder}")
        context = public_context(public)
        pieces = split(self.numbers(head, names), len(names))
        rows = [pieces[start : start + DEGREE] for start in range(0, len(pieces), DEGREE)]
        return [tenseal.bfv_vector(context, row.tolist()).serialize() for row in rows]

    def _opened(self, head: Head, names: Sequence[str], sums: Sequence[bytes]) -> bytes:
        """The sum, opened once, and only where it is one of all these clients and they are enough."""
        context = tenseal.context_from(self.take_key(head.epoch))
        size = len(self.values(head.what)) + CHECKS
        try:
            slots = [number for one in sums for number in tenseal.bfv_vector_from(context, one).decrypt()]
            total = join(np.array(slots, np.int64), size, len(names))
            checked(total, max(len(names), FEWEST))
        except (ValueError, RuntimeError, SecurityError) as error:
            raise RefusedError(f"this is not the sum over {len(names)} clients: {error}") from None
        return total.astype(LITTLE).tobytes()


def _written(context: Any, secret: bool) -> bytes:
    return bytes(
        context.serialize(
            save_public_key=True, save_secret_key=secret, save_galois_keys=False, save_relin_keys=False
        )
    )


def public_context(written: bytes) -> Any:
    """A context with the public key; one with a secret key is refused, since it must never leave its holder."""
    try:
        context = tenseal.context_from(written)
    except (ValueError, RuntimeError):
        raise RefusedError("a public key that cannot be read") from None
    if context.has_secret_key():
        raise RefusedError("a public key that holds the secret one")
    return context
