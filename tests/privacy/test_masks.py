"""Pairwise masks: a masked message alone is noise, keys are used once, and a stranger's key is refused."""

from __future__ import annotations

import numpy as np
import pytest
from parties import RUN, Parties, federation
from scipy.stats import chi2

pytest.importorskip("cryptography", reason="pip install 'counterpoise[privacy]'")

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from counterpoise.errors import SecurityError
from counterpoise.privacy.frame import Head, unpack
from counterpoise.privacy.settings import PrivacySettings

MASKS = PrivacySettings(histogram="masks")
NAMES = ("c0", "c1", "c2")


def _masked(counts: np.ndarray[tuple[int], np.dtype[np.int64]], attempts: int) -> bytes:
    """What the server sees of a client in so many attempts."""
    parties = Parties(dict.fromkeys(NAMES, counts), MASKS)
    for _ in range(attempts):
        parties.total()
    sums = [unpack(message) for message in parties.seen]
    return b"".join(
        pieces[0] for head, pieces in sums if head.phase == "sum" and head.client == "c0" and len(pieces) == 1
    )


def test_a_masked_message_is_uniform_whatever_it_hides() -> None:
    """Chi-square of bytes against the uniform distribution, and of two histograms against each other."""
    few, many = (_masked(np.full(100, count), 40) for count in (0, 10**9))
    counted = [np.bincount(np.frombuffer(sent, np.uint8), minlength=256) for sent in (few, many)]
    for bins in counted:
        expected = bins.sum() / 256
        assert chi2.sf(((bins - expected) ** 2 / expected).sum(), 255) > 1e-6
    both = counted[0] + counted[1]
    apart = ((counted[0] - counted[1]) ** 2 / np.maximum(both, 1)).sum()
    assert chi2.sf(apart, 255) > 1e-6


def test_the_same_numbers_look_different_in_every_attempt() -> None:
    size = (20 + 2) * 8
    sent = _masked(np.full(20, 7), 30)
    assert len({sent[k : k + size] for k in range(0, len(sent), size)}) == 30


def test_a_masked_message_opens_with_all_other_clients_only() -> None:
    """What remains after taking away one peer's mask is still masked by the other's."""
    parties = Parties({name: np.full(4, 11) for name in NAMES}, MASKS)
    parties.total()
    vectors = {
        unpack(m)[0].client: np.frombuffer(unpack(m)[1][0], "<u8")
        for m in parties.seen
        if unpack(m)[0].phase == "sum" and len(unpack(m)[1]) == 1
    }
    for pair in ([0, 1], [0, 2], [1, 2]):
        assert (vectors[NAMES[pair[0]]] + vectors[NAMES[pair[1]]]).max() > 2**40
    assert sum(vectors.values(), np.zeros(6, np.uint64)).tolist() == [33] * 4 + [132, 3]


def _sums_with(change: object) -> Parties:
    def altered(head: Head, pieces: list[bytes]) -> list[bytes]:
        return change(head, pieces) if head.phase == "sum" else pieces  # type: ignore[operator,no-any-return]

    return Parties(federation(4, 5, 2), MASKS, to_the_client=altered)


def _stranger() -> bytes:
    public: bytes = X25519PrivateKey.generate().public_key().public_bytes_raw()
    return public


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda head, p: [p[0], p[1][32:]], "do not fit the names"),
        (lambda head, p: [p[0], p[1][:32] * 4], "two clients with one key"),
        (lambda head, p: [p[0], p[1][:96] + bytes(32)], "a key that hides nothing|in this client's name"),
        (lambda head, p: [p[0], b"".join(_stranger() for _ in range(4))], "in this client's name"),
    ],
)
def test_keys_that_cannot_be_right_are_refused(change: object, why: str) -> None:
    with pytest.raises(SecurityError, match=why):
        _sums_with(change).total()


def test_a_key_swapped_on_the_way_gives_no_sum() -> None:
    """Without signatures a stranger's key for another client is not seen by its peers, but the sum is not accepted."""

    def swapped(head: Head, pieces: list[bytes]) -> list[bytes]:
        return [pieces[0], pieces[1][:96] + _stranger()] if head.client == "c0" else pieces

    with pytest.raises(SecurityError, match="a message was changed"):
        _sums_with(swapped).total()


def test_a_key_is_deleted_with_its_answer() -> None:
    parties = Parties(federation(4, 5, 2), MASKS, run=RUN)
    parties.total()
    assert not [place for side in parties.clients.values() for place in side.kept if place.startswith("key-")]
    parties.total()
    assert len(set(parties.keys)) == 8
