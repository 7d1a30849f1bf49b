"""Secret keys: normal numbers that are normal, keys that tell nothing of each other, and nothing that shows a key."""

from __future__ import annotations

import hashlib
import json
import math
import time
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from counterpoise.core.messages import Replies
from counterpoise.core.part import Exchange
from counterpoise.core.secret import KEY_BYTES, SecretKey
from counterpoise.errors import DataError, RunError

FIXED = SecretKey(bytes(range(KEY_BYTES)))
MANY = 1_000_000


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    return FIXED.gaussian((MANY,)).numpy()


@pytest.mark.parametrize("power", [1, 2, 3, 4, 6])
def test_its_moments_are_those_of_the_normal_distribution(drawn: np.ndarray, power: int) -> None:
    def moment(k: int) -> float:
        return 0.0 if k % 2 else float(math.prod(range(1, k, 2)))

    deviation = ((moment(2 * power) - moment(power) ** 2) / MANY) ** 0.5
    assert abs((drawn**power).mean() - moment(power)) < 4 * deviation


def test_its_distribution_function_is_the_normal_one(drawn: np.ndarray) -> None:
    assert stats.kstest(drawn, "norm").pvalue > 0.01
    halves = drawn[: MANY // 2], drawn[MANY // 2 :]  # of each pair of Box and Muller, cosine and sine
    assert all(stats.kstest(half, "norm").pvalue > 0.01 for half in halves)
    assert abs(np.corrcoef(*halves)[0, 1]) < 4 / (MANY / 2) ** 0.5
    assert abs(np.corrcoef(halves[0] ** 2, halves[1] ** 2)[0, 1]) < 4 / (MANY / 2) ** 0.5
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4 / MANY**0.5


def test_the_tails_are_as_heavy_as_they_must_be(drawn: np.ndarray) -> None:
    for far in (2.0, 3.0, 4.0):
        expected = MANY * 2 * stats.norm.sf(far)
        assert abs((np.abs(drawn) > far).sum() - expected) < 4 * expected**0.5


def test_the_first_pair_is_box_and_muller_of_the_first_words_of_shake() -> None:
    words = hashlib.shake_256(bytes(range(KEY_BYTES))).digest(16)
    first, second = ((int.from_bytes(words[at : at + 8], "little") // 2**12 + 0.5) / 2**52 for at in (0, 8))
    radius, angle = math.sqrt(-2 * math.log(first)), 2 * math.pi * second
    expected = [radius * math.cos(angle), radius * math.sin(angle)]
    assert FIXED.gaussian((2,)).tolist() == pytest.approx(expected, rel=1e-14)


def test_a_million_numbers_take_less_than_half_a_second() -> None:
    spent = []
    for _ in range(5):
        began = time.process_time()
        FIXED.gaussian((MANY,))
        spent.append(time.process_time() - began)
    assert min(spent) < 0.5


@given(st.lists(st.integers(0, 5), max_size=3))
def test_any_shape_can_be_drawn_and_is_drawn_alike_again(shape: list[int]) -> None:
    found = FIXED.gaussian(shape)
    assert found.shape == torch.Size(shape)
    assert found.dtype == torch.float64
    assert bool(found.isfinite().all())
    assert torch.equal(found, FIXED.gaussian(shape))


def test_keys_of_different_paths_or_parents_differ() -> None:
    paths: list[tuple[str, ...] | tuple[str, int]] = [
        ("a",),
        ("b",),
        ("a", "b"),
        ("a", 1),
        ("a", "1"),
        ("ab",),
    ]
    keys = [key.derive(*path) for key in (FIXED, SecretKey(bytes(KEY_BYTES))) for path in paths]
    assert all(one.to_bytes() != other.to_bytes() for one, other in combinations(keys, 2))
    assert FIXED.derive("a", 1).to_bytes() == FIXED.derive("a", 1).to_bytes()
    assert FIXED.derive("a").to_bytes() != FIXED.to_bytes()


def test_new_keys_differ_and_those_of_a_seed_do_not() -> None:
    assert SecretKey.new().to_bytes() != SecretKey.new().to_bytes()
    assert SecretKey.of_seed(3).to_bytes() == SecretKey.of_seed(3).to_bytes()
    assert SecretKey.of_seed(3).to_bytes() != SecretKey.of_seed(4).to_bytes()


def test_a_key_is_never_shown() -> None:
    content = SecretKey.new()
    for shown in (repr(content), str(content), f"{content}", repr({"key": content})):
        assert "not shown" in shown
        assert content.to_bytes().hex() not in shown
    with pytest.raises(TypeError):
        json.dumps(content)


@pytest.mark.parametrize("content", [b"", bytes(31), bytes(33)])
def test_a_key_of_another_length_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=f"^a secret key must have 32 bytes, not {len(content)}$"):
        SecretKey(content)


def _exchange(**given: object) -> Exchange:
    replies = Replies(*[torch.zeros(1)] * 2, {}, {}, {}, torch.zeros(1))
    return Exchange({}, replies, torch.ones(1), 6)._replace(**given)


def test_a_rule_gets_a_key_of_its_own_in_each_round() -> None:
    known = {"part": "dp", "round": 3, "secret": FIXED}
    others: list[dict[str, object]] = [
        {},
        {"part": "other"},
        {"round": 4},
        {"secret": SecretKey(bytes(KEY_BYTES))},
    ]
    keys = [_exchange(**known | other).secret_key().to_bytes() for other in others]
    assert len(set(keys)) == len(others)
    assert keys[0] == _exchange(**known, seed=9).secret_key().to_bytes()


def test_a_server_without_a_key_says_so() -> None:
    with pytest.raises(RunError, match="dp needs a server with a secret key, and this one has none"):
        _exchange(part="dp").secret_key()
