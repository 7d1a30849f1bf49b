"""Trees: structure is kept, sums do not depend on order, names survive flattening."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.rng import generator
from counterpoise.core.tree import (
    Tree,
    add,
    concatenate,
    finite_rows,
    flatten,
    leaves,
    mix,
    multiply,
    norm,
    row_norms,
    stack,
    subtract,
    take,
    tmap,
    unflatten,
    zeros,
)
from counterpoise.errors import ConfigError

TREE: Tree = {"b": torch.tensor([3.0, 4.0]), "a": {"x": torch.tensor(12.0), "empty": {}}}


def test_arithmetic_acts_on_every_leaf() -> None:
    assert add(TREE, TREE, -0.5)["b"].tolist() == [1.5, 2.0]
    assert subtract(TREE, TREE)["a"]["x"] == 0
    assert multiply(TREE, 2)["a"]["x"] == 24
    assert norm(TREE) == 13
    assert norm(zeros(TREE)) == 0
    assert list(tmap(torch.neg, TREE)) == ["b", "a"]


def test_leaves_come_in_order_of_their_names() -> None:
    assert [leaf.numel() for leaf in leaves(TREE)] == [1, 2]


def test_stack_take_and_concatenate_undo_each_other() -> None:
    stacked = stack([TREE, multiply(TREE, 2), multiply(TREE, 3)])
    assert stacked["b"].tolist() == [[3, 4], [6, 8], [9, 12]]
    assert take(stacked, 1)["a"]["x"] == 24
    parts = [take(stacked, slice(2)), take(stacked, slice(2, None))]
    assert torch.equal(concatenate(parts)["b"], stacked["b"])
    assert take(stacked, torch.tensor([2, 0]))["a"]["x"].tolist() == [36, 12]


def test_mix_sums_in_double_and_keeps_the_type() -> None:
    # In float32 the 1 would be lost beside 1e8.
    stacked = {"w": torch.tensor([[1e8], [1.0], [-1e8]])}
    mixed = mix(torch.ones(3, dtype=torch.float64), stacked)
    assert mixed["w"].dtype == torch.float32
    assert mixed["w"].tolist() == [1.0]


def test_mix_of_equal_rows_by_shares_is_the_row() -> None:
    row = torch.randn(50, generator=generator(0, "row"))
    shares = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    assert torch.equal(mix(shares, {"w": torch.stack([row] * 3)})["w"], row)


def test_mix_refuses_a_wrong_number_of_weights() -> None:
    with pytest.raises(ValueError):
        mix(torch.ones(2), {"w": torch.ones(3, 1)})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_finite_rows_finds_the_row_whichever_leaf_holds_it(bad: float) -> None:
    good, spoilt = torch.zeros(3, 2, 2), torch.tensor([0.0, 0.0, bad])
    assert finite_rows({"w": good, "deep": {"loss": spoilt}}, 3).tolist() == [True, True, False]
    assert finite_rows({"count": torch.tensor([1, 2, 3])}, 3).all()
    assert finite_rows({}, 2).tolist() == [True, True]


def test_row_norms_take_all_leaves_as_one_vector() -> None:
    stacked = {"w": torch.tensor([[[3.0]], [[1e30]]]), "b": torch.tensor([[4.0], [0.0]])}
    assert row_norms(stacked, 2).tolist() == pytest.approx([5.0, 1e30])


def test_no_rows_are_all_finite_and_have_no_norms() -> None:
    nothing = {"w": torch.zeros(0, 2), "loss": torch.zeros(0)}
    assert finite_rows(nothing, 0).tolist() == []
    assert row_norms(nothing, 0).tolist() == []


NAMES = st.text(st.characters(blacklist_characters="/", blacklist_categories=["Cs"]), min_size=1, max_size=8)
TREES = st.recursive(
    st.builds(torch.tensor, st.lists(st.integers(-9, 9), min_size=1, max_size=3)),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=8,
).filter(lambda tree: isinstance(tree, dict))


@settings(deadline=None, max_examples=50)
@given(TREES)
def test_unflatten_undoes_flatten(tree: Tree) -> None:
    again = unflatten(flatten(tree))
    assert _plain(again) == _plain(tree)


def _plain(tree: Tree | Tensor) -> object:
    return {key: _plain(value) for key, value in tree.items()} if isinstance(tree, dict) else tree.tolist()


def test_flatten_refuses_names_that_would_be_confused() -> None:
    for name in ("a/b", ""):
        with pytest.raises(ConfigError, match="cannot be stored"):
            flatten({name: torch.zeros(1)})
