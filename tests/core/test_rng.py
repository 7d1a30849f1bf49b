"""Streams depend on their path alone, and no two paths share one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from counterpoise.core.rng import Key, generator, key_bits, numpy_generator

KEYS = st.lists(st.one_of(st.integers(-5, 99), st.text("a1is/ ", max_size=4)), max_size=4).map(tuple)


def _draw(*path: Key) -> list[float]:
    return torch.rand(3, generator=generator(7, "test", *path)).tolist()


def test_a_stream_does_not_depend_on_what_was_drawn_before() -> None:
    forwards = [_draw(client) for client in range(5)]
    backwards = [_draw(client) for client in reversed(range(5))]
    assert forwards == backwards[::-1]


def test_drawing_leaves_the_global_streams_alone() -> None:
    before = torch.random.get_rng_state(), str(np.random.get_state())
    _draw(1)
    numpy_generator(0, "test").random()
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert str(np.random.get_state()) == before[1]


def test_words_and_numbers_do_not_collide() -> None:
    paths: list[tuple[Key, ...]] = [
        (1,), ("1",), (11,), (1, 1), ("1", 1), (1, "1"), ("i1",), ("s1",), (-1,), ("-1",), (), ("",),
    ]  # fmt: skip
    assert all(key_bits(0, "p", *a) != key_bits(0, "p", *b) for a, b in combinations(paths, 2))
    assert key_bits(0, "p", "a") != key_bits(0, "pa")
    assert key_bits(1, "p") != key_bits(0, "p") != key_bits(0, "q")


@settings(deadline=None, max_examples=200)
@given(KEYS, KEYS)
def test_two_paths_never_share_a_stream(first: tuple[Key, ...], second: tuple[Key, ...]) -> None:
    assume(first != second)
    assert key_bits(0, "p", *first) != key_bits(0, "p", *second)


def test_a_word_with_the_separator_is_not_two_words() -> None:
    assert key_bits(0, "p", "a", "b") != key_bits(0, "p", "a/sb")
    assert key_bits(0, "p", 1, 2) != key_bits(0, "p/i1", 2)


@pytest.mark.parametrize("number", [np.int64(3), np.int32(3)])
def test_numpys_numbers_name_the_stream_of_the_same_number(number: int) -> None:
    assert key_bits(0, "p", number) == key_bits(0, "p", 3)
    assert key_bits(0, "p", number) != key_bits(0, "p", "3")


def test_numpy_and_torch_streams_repeat() -> None:
    assert numpy_generator(1, "a", 2).random(3).tolist() == numpy_generator(1, "a", 2).random(3).tolist()
    assert _draw(1) == _draw(1) != _draw(2)


def test_streams_look_independent() -> None:
    draws = torch.stack([torch.randn(2000, generator=generator(0, "client", k)) for k in range(12)])
    correlation = torch.corrcoef(draws) - torch.eye(12)
    assert float(correlation.abs().max()) < 0.1  # more than four standard deviations


def test_names_of_streams_stay_what_they_were() -> None:
    """A change here would change every recorded run."""
    assert key_bits(0, "plan", 3, 17) == 1079548756983553117
    assert key_bits(0, "init") == 12583001752397502327
