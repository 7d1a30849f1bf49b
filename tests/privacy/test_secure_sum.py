"""Sums over clients in every mode: exact, or no sum at all; and no client's numbers on the way."""

from __future__ import annotations

import json
import logging
import random
from functools import cache

import numpy as np
import pytest
from parties import Parties, federation, random_federation

pytest.importorskip("cryptography", reason="pip install 'counterpoise[privacy]'")
pytest.importorskip("tenseal", reason="pip install 'counterpoise[privacy]'")

from counterpoise.errors import ConfigError, CounterpoiseError, RunError, SecurityError
from counterpoise.privacy import settings as settings_module
from counterpoise.privacy.frame import FrameError, Head, pack, unpack
from counterpoise.privacy.layout import Layout, checked, with_checks
from counterpoise.privacy.protocol import RefusedError
from counterpoise.privacy.settings import PrivacySettings

HIDING = [PrivacySettings(histogram="masks"), PrivacySettings(histogram="bfv")]
MODES = [PrivacySettings(), *HIDING]
each = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.histogram)
hiding = pytest.mark.parametrize("mode", HIDING, ids=lambda mode: mode.histogram)


@each
@pytest.mark.parametrize(("clients", "classes"), [(3, 2), (7, 10), (20, 1000)])
def test_the_sum_is_exact(mode: PrivacySettings, clients: int, classes: int) -> None:
    parties = Parties(federation(clients, classes, seed=clients), mode)
    assert parties.total().values.tolist() == parties.truth().tolist()


@hiding
def test_numbers_up_to_2_to_the_40_add_up_exactly(mode: PrivacySettings) -> None:
    """Shares in fixed point are as large as 2^32; beside them a count of 1 keeps its last digit."""
    numbers = {str(k): np.array([2**40 - 1, 2**32, 1, 0]) for k in range(5)}
    assert Parties(numbers, mode).total().values.tolist() == [5 * (2**40 - 1), 5 * 2**32, 5, 0]


def _exact(mode: PrivacySettings, seeds: range) -> int:
    found = (Parties(random_federation(seed), mode) for seed in seeds)
    return sum(parties.total().values.tolist() == parties.truth().tolist() for parties in found)


@pytest.mark.parametrize(("mode", "count"), [(HIDING[0], 12), (HIDING[1], 6)], ids=["masks", "bfv"])
def test_random_federations_add_up_exactly(mode: PrivacySettings, count: int) -> None:
    assert _exact(mode, range(count)) == count


@pytest.mark.faults
@pytest.mark.parametrize(("mode", "count"), [(HIDING[0], 1000), (HIDING[1], 300)], ids=["masks", "bfv"])
def test_a_thousand_random_federations_add_up_exactly(mode: PrivacySettings, count: int) -> None:
    assert _exact(mode, range(1000, 1000 + count)) == count


def _with_drop_outs(mode: PrivacySettings, seed: int) -> bool:
    """Whether a sum during which a third of the clients vanish, each at some moment, is right or no sum at all."""
    parties, rng = Parties(federation(3 + seed % 13, 12, seed), mode), random.Random(seed)
    gone = set(rng.sample(sorted(parties.numbers), len(parties.numbers) // 3))

    @cache  # a client that is gone stays gone
    def leaves(name: str) -> str:
        return rng.choice(["keys", "sum", "open"])

    order = ["keys", "sum", "open"]
    parties.answered = lambda name, phase: name not in gone or order.index(phase) < order.index(leaves(name))
    try:
        summed = parties.total()
    except RunError:
        return len(parties.numbers) - len(gone) < 3
    return summed.values.tolist() == parties.truth(summed.clients).tolist()


@pytest.mark.parametrize(("mode", "count"), [(HIDING[0], 200), (HIDING[1], 20)], ids=["masks", "bfv"])
def test_with_a_third_dropping_out_the_sum_is_right_or_there_is_none(
    mode: PrivacySettings, count: int
) -> None:
    assert sum(_with_drop_outs(mode, seed) for seed in range(count)) == count


@pytest.mark.faults
def test_with_a_third_dropping_out_200_encrypted_sums_are_right_or_none() -> None:
    assert sum(_with_drop_outs(HIDING[1], seed) for seed in range(200)) == 200


@hiding
def test_a_client_that_drops_out_is_left_out_and_named(
    mode: PrivacySettings, caplog: pytest.LogCaptureFixture
) -> None:
    parties = Parties(federation(6, 4, 1), mode)
    parties.answered = lambda name, phase: name != "c2" or phase == "keys"
    with caplog.at_level(logging.WARNING, "counterpoise"):
        summed = parties.total()
    assert summed.clients == ("c0", "c1", "c3", "c4", "c5")
    assert summed.cost.attempts == 2
    assert summed.values.tolist() == parties.truth(summed.clients).tolist()
    assert "again without c2" in caplog.text


@hiding
@pytest.mark.parametrize("clients", [1, 2])
def test_fewer_than_three_clients_are_refused(mode: PrivacySettings, clients: int) -> None:
    with pytest.raises(SecurityError, match=f"at least 3 clients, not {clients}") as refusal:
        Parties(federation(clients, 4, 1), mode).total()
    assert refusal.value.exit_code == 5


@hiding
def test_fewer_than_five_clients_are_warned_of(
    mode: PrivacySettings, caplog: pytest.LogCaptureFixture
) -> None:
    Parties(federation(5, 4, 1), mode).total()
    assert "hides little" not in caplog.text
    Parties(federation(4, 4, 1), mode).total()
    assert "a sum over 4 clients hides little" in caplog.text


@hiding
def test_a_sum_that_falls_below_three_clients_ends_without_one(mode: PrivacySettings) -> None:
    parties = Parties(federation(4, 4, 1), mode)
    parties.answered = lambda name, phase: phase == "keys" or name in ("c0", "c1")
    with pytest.raises(RunError, match="2 of 4 clients are left"):
        parties.total()


@hiding
def test_a_client_refuses_a_sum_over_two_even_where_the_server_asks(mode: PrivacySettings) -> None:
    """The client checks for itself: it is asked of a sum over itself and one other."""

    def two(head: Head, pieces: list[bytes]) -> list[bytes]:
        if head.phase != "sum":
            return pieces
        if mode.histogram == "masks":
            return [b'["c0", "c1"]', pieces[1][:64], *pieces[2:]]
        holder = pieces[1].decode()  # drawn by the server: a sum without it is refused for that
        return [json.dumps(sorted({holder, "c0" if holder == "c1" else "c1"})).encode(), *pieces[1:]]

    parties = Parties(federation(5, 4, 1), mode, to_the_client=two)
    with pytest.raises(SecurityError, match="a sum over 2 clients"):
        parties.total()


@hiding
def test_no_secret_of_a_client_reaches_the_server(mode: PrivacySettings) -> None:
    parties = Parties(federation(8, 10, 3), mode)
    parties.total()
    held = [*parties.seen, repr(vars(parties.server)).encode()]
    if (context := getattr(parties.server, "context", None)) is not None:
        assert not context.has_secret_key()
        held.append(context.serialize(save_secret_key=False))
    assert len(parties.keys) == (8 if mode.histogram == "masks" else 1)
    for key in parties.keys:
        pieces = _secret_pieces(key, parties.seen)
        assert pieces
        assert not [
            piece for piece in pieces if any(piece in blob or piece.hex().encode() in blob for blob in held)
        ]


def _secret_pieces(key: bytes, seen: list[bytes]) -> list[bytes]:
    """Pieces of a secret by which it would be found; of a BFV context all that its public half does not hold."""
    public = b"".join(unpack(message)[1][0] for message in seen if _is_key_answer(message))
    return [key[k : k + 32] for k in range(0, len(key), 32) if key[k : k + 32] not in public]


def _is_key_answer(message: bytes) -> bool:
    head, pieces = unpack(message)
    return head.phase == "keys" and bool(pieces)


@hiding
def test_no_clients_numbers_pass_the_server(mode: PrivacySettings) -> None:
    parties = Parties(federation(6, 50, 4, most=2**31), mode)
    parties.total()
    answers = [m for m in parties.seen if unpack(m)[0].phase == "sum"]
    for counts in parties.numbers.values():
        assert not any(counts.astype(kind).tobytes() in m for m in answers for kind in ("<i8", "<i4"))


@each
def test_a_question_that_comes_twice_gets_the_same_answer(mode: PrivacySettings) -> None:
    """A message may be lost and repeated; a second answer under one key would tell the difference of two vectors."""
    parties = Parties(federation(4, 6, 5), mode)
    twice: list[bool] = []
    first = parties.exchange

    def repeated(asks: dict[str, bytes]) -> dict[str, bytes]:
        answers = first(asks)
        twice.append(answers == first(asks))
        return answers

    parties.exchange = repeated  # type: ignore[assignment,method-assign]
    assert parties.total().values.tolist() == parties.truth().tolist()
    assert all(twice)


@hiding
@pytest.mark.parametrize("field", ["mode", "run", "client"])
def test_a_question_of_another_run_mode_or_client_is_refused(mode: PrivacySettings, field: str) -> None:
    parties = Parties(federation(4, 6, 5), mode)
    head = Head(mode.histogram, "keys", parties.run, "e", "class counts", "c0")
    with pytest.raises(RefusedError, match="another run, client or mode"):
        parties.clients["c0"].answer(pack(head._replace(**{field: "other"}), []))


@each
def test_what_is_no_question_is_refused(mode: PrivacySettings) -> None:
    parties, rng = Parties(federation(4, 6, 5), mode), random.Random(0)
    head = Head(mode.histogram, "sum", parties.run, "e", "class counts", "c0")
    sound = pack(head, [b'["c0", "c1", "c2"]', b"x" * 96])
    broken = [sound[:k] for k in range(0, len(sound), 7)]
    broken += [pack(head, [rng.randbytes(20)]), pack(head, []), pack(head._replace(phase="x"), [b""]), b""]
    for message in broken:
        with pytest.raises(RefusedError):
            parties.clients["c0"].answer(message)


def test_every_changed_bit_of_a_message_is_seen() -> None:
    message = pack(Head("masks", "sum", "r", "e", "w", "c"), [b"some", b"bytes"])
    assert unpack(message) == (Head("masks", "sum", "r", "e", "w", "c"), [b"some", b"bytes"])
    for bit in range(8 * len(message)):
        changed = bytearray(message)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            unpack(bytes(changed))


def test_check_numbers_tell_a_missing_and_a_changed_vector() -> None:
    rows = [with_checks(np.array(row)) for row in ([5, 0, 2], [1, 1, 1], [0, 0, 7])]
    assert checked(sum(rows, np.zeros(5, np.int64)), 3).tolist() == [6, 1, 10]
    with pytest.raises(SecurityError, match="holds 2 contributions and 3 clients"):
        checked(rows[0] + rows[1], 3)
    with pytest.raises(SecurityError, match="check number"):
        checked(sum(rows, np.array([0, 1, 0, 0, 0])), 3)


def test_a_vector_holds_whole_numbers_from_0_in_a_fixed_order() -> None:
    import torch

    tree = {"b": {"n": torch.tensor([[1, 2], [3, 4]])}, "a": {"n": torch.tensor(5)}}
    layout = Layout.of(tree)
    assert layout.vector(tree).tolist() == [5, 1, 2, 3, 4]
    back = layout.tree(layout.vector(tree))
    assert back["b"]["n"].tolist() == [[1, 2], [3, 4]]
    assert int(back["a"]["n"]) == 5
    for wrong in (torch.tensor(-1), torch.tensor(2**40), torch.tensor(0.5), torch.tensor([1])):
        with pytest.raises(ConfigError):
            layout.vector({**tree, "a": {"n": wrong}})


@pytest.mark.parametrize("mode", ["masks", "bfv"])
def test_a_missing_package_is_one_line(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs the package .* pip install"):
        PrivacySettings.read({"histogram": mode}).check_installed()


@hiding
def test_a_client_that_counts_samples_it_does_not_have_is_noticed(mode: PrivacySettings) -> None:
    """The counts must add up to the samples that clients said they have."""
    parties = Parties(federation(5, 4, 1), mode)
    truth = parties.histogram()
    assert truth.tolist() == parties.truth().tolist()
    lying = parties.clients["c1"]
    lying.values = lambda what: parties.numbers["c1"] + np.array([1000, 0, 0, 0])
    with pytest.raises(CounterpoiseError, match="a client counts wrongly"):
        parties.histogram()
