"""Pairwise masks: every two clients share a secret vector that one adds and the other subtracts (Bonawitz et al., 2017).

Numbers modulo 2^64. The secret of a pair is an X25519 agreement, put through HKDF with run, attempt and both names, and
expanded by ChaCha20. There are no shares of keys for drop-outs: an attempt that misses an answer is repeated without it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from counterpoise.privacy.frame import Head, read_names, write_names
from counterpoise.privacy.layout import CHECKS, Vector
from counterpoise.privacy.plain import vectors
from counterpoise.privacy.protocol import FEWEST, DropOutError, RefusedError, SumClient, Talk, words

KEY = 32  # bytes of an X25519 key
RING = np.dtype("<u8")  # whole numbers modulo 2^64
Ring: TypeAlias = NDArray[np.uint64]
NONCE = bytes(16)  # a key is used for one stream only


@dataclass
class MaskedSum:
    """The server's side: it hands out public keys and adds up what comes back."""

    signed: bool = False
    mode: ClassVar[str] = "masks"
    fewest: ClassVar[int] = FEWEST

    def total(self, names: Sequence[str], size: int, talk: Talk) -> Vector:
        keys = talk.ask("keys", {name: [] for name in names})
        if wrong := [name for name, pieces in keys.items() if [len(p) for p in pieces[:1]] != [KEY]]:
            raise DropOutError(wrong)
        proofs = [pieces[1] if len(pieces) > 1 else b"" for pieces in (keys[name] for name in names)]
        self.signed = all(proofs)
        listed = b"".join(keys[name][0] for name in names)
        question = [write_names(names), listed, *(proofs if any(proofs) else [])]
        masked = vectors(talk.ask("sum", dict.fromkeys(names, question)), size + CHECKS, RING)
        total = np.zeros(size + CHECKS, RING)
        for vector in masked.values():
            total += vector
        return total.view(np.int64)


class MaskedClient(SumClient):
    """The client's side: a key pair per attempt, and its numbers under the masks that it shares with all others."""

    mode: ClassVar[str] = "masks"

    def reply(self, head: Head, pieces: Sequence[bytes]) -> list[bytes]:
        if head.phase == "keys" and not pieces:
            return self._new_key(head)
        if head.phase == "sum" and len(pieces) > 1:
            return [self._masked(head, read_names(pieces[0]), pieces[1], pieces[2:])]
        raise RefusedError("no such question")

    def _new_key(self, head: Head) -> list[bytes]:
        key = X25519PrivateKey.generate()
        self.keep_key(head.epoch, key.private_bytes_raw())
        public = key.public_key().public_bytes_raw()
        return [public, self.identity.sign(words(head, public))]

    def _masked(self, head: Head, names: Sequence[str], keys: bytes, proofs: Sequence[bytes]) -> bytes:
        vector: Ring = self.numbers(head, names).astype(RING)
        public = self._checked_keys(head, names, keys, proofs)
        own = X25519PrivateKey.from_private_bytes(self.take_key(head.epoch))
        if public[self.name] != own.public_key().public_bytes_raw():
            raise RefusedError("another key in this client's name")
        for peer, key in public.items():
            if peer != self.name:
                mask = _mask(own, key, _pair(head, self.name, peer), len(vector))
                vector = vector + mask if self.name < peer else vector - mask
        return vector.tobytes()

    def _checked_keys(
        self, head: Head, names: Sequence[str], keys: bytes, proofs: Sequence[bytes]
    ) -> dict[str, bytes]:
        if len(keys) != KEY * len(names) or len(proofs) not in (0, len(names)):
            raise RefusedError("keys that do not fit the names")
        public = {name: keys[KEY * k : KEY * (k + 1)] for k, name in enumerate(names)}
        if len(set(public.values())) != len(names):
            raise RefusedError("two clients with one key")
        for name, proof in zip(names, proofs or [b""] * len(names), strict=True):
            if not self.identity.verify(name, words(head._replace(client=name), public[name]), proof):
                raise RefusedError(f"the key of {name} is not signed by it")
        return public


def _pair(head: Head, one: str, other: str) -> bytes:
    """What makes the secret of two clients one of this attempt only, the same on both sides."""
    return json.dumps([head.mode, head.run, head.epoch, head.what, *sorted([one, other])]).encode()


def _mask(own: X25519PrivateKey, key: bytes, info: bytes, size: int) -> Ring:
    try:
        secret = own.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:  # a point that gives the same secret to everybody
        raise RefusedError("a key that hides nothing") from None
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(secret)
    stream = Cipher(ChaCha20(derived, NONCE), mode=None).encryptor().update(bytes(RING.itemsize * size))
    return np.frombuffer(stream, RING)
