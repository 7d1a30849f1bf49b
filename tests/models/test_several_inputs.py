"""Several inputs as one tensor: what is packed comes back as it was, by name or in order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import counterpoise as cp
from counterpoise.errors import ConfigError, DataError
from counterpoise.models.inputs import Piece

IDS = torch.arange(12).view(3, 4)
MASK = IDS % 3 > 0
KINDS = {"whole": torch.int64, "bool": torch.bool, "float": torch.float32}


class Echo(nn.Module):
    """Gives back what it is given."""

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        return named or inputs


@settings(max_examples=25, deadline=None)
@given(
    pieces=st.lists(
        st.tuples(st.lists(st.integers(1, 3), max_size=3), st.sampled_from(list(KINDS))),
        min_size=1,
        max_size=4,
    ),
    named=st.booleans(),
)
def test_inputs_come_back_as_they_were(pieces: list[tuple[list[int], str]], named: bool) -> None:
    stream = torch.Generator().manual_seed(0)
    made = [torch.randint(-9, 9, (5, *shape), generator=stream).to(KINDS[kind]) for shape, kind in pieces]
    given: Any = {f"input_{place}": each for place, each in enumerate(made)} if named else tuple(made)

    x, layout = cp.pack_inputs(given)
    back = cp.SeveralInputs(Echo(), layout)(x)

    assert x.is_floating_point() == any(kind == "float" for _, kind in pieces)
    found = list(back.values()) if named else list(back)
    assert not named or list(back) == list(given)
    assert all(
        torch.equal(one, other) and one.dtype == other.dtype for one, other in zip(found, made, strict=True)
    )


def test_ids_beyond_the_digits_of_a_float_are_refused_beside_floats() -> None:
    large = torch.tensor([[1 << 24], [(1 << 24) + 1]])

    assert torch.equal(cp.pack_inputs({"ids": large})[0], large)
    with pytest.raises(
        DataError, match="input ids must be at most 16,777,216 in size beside inputs of floats"
    ):
        cp.pack_inputs({"ids": large, "numbers": torch.zeros(2, 1)})


def test_inputs_of_unequal_length_are_refused() -> None:
    with pytest.raises(DataError, match=r"with the same n, not ids \[3, 4\], mask \[2, 4\]"):
        cp.pack_inputs({"ids": IDS, "mask": MASK[:2]})
    with pytest.raises(DataError, match="not none"):
        cp.pack_inputs([])


def test_a_tensor_of_another_width_is_refused() -> None:
    model = cp.SeveralInputs(Echo(), {"ids": Piece((4,)), "mask": Piece((4,), "bool")})

    with pytest.raises(ConfigError, match=r"inputs must be \[n, 8\], as pack_inputs makes, not \[3, 4\]"):
        model(IDS)


def test_whole_numbers_are_not_taken_as_floats() -> None:
    x, layout = cp.pack_inputs({"ids": IDS, "mask": MASK})

    with pytest.raises(TypeError, match="whole numbers"):
        cp.SeveralInputs(Echo(), layout)(x.float())


def test_a_layout_without_inputs_is_refused() -> None:
    with pytest.raises(ConfigError, match="one input or more"):
        cp.SeveralInputs(Echo(), {})
