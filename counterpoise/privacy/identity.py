"""Who vouches for a key: a signature that other clients can check, or nobody."""

from __future__ import annotations

from typing import Protocol


class Identity(Protocol):
    """A client's own signature, and how it checks those of others."""

    def sign(self, words: bytes) -> bytes:
        """A proof that these words are this client's; empty where it has none to give."""

    def verify(self, name: str, words: bytes, proof: bytes) -> bool:
        """Whether the words are of the client of this name, as far as this client can know."""


class Unsigned:
    """Nobody signs and nobody checks: a server that lies could put its own keys between two clients."""

    def sign(self, words: bytes) -> bytes:
        return b""

    def verify(self, name: str, words: bytes, proof: bytes) -> bool:
        return True
