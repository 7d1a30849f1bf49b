"""Trees through bytes and back; bytes that were never a tree are refused in one line."""

from __future__ import annotations

import json
import struct
from contextlib import suppress

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.core.codec import decode, digest, encode
from counterpoise.core.tree import Tree, flatten
from counterpoise.errors import DataError

TREE: Tree = {
    "params": {"body.0.weight": torch.arange(6.0).view(2, 3), "head.bias": torch.tensor([1e-30, -0.0])},
    "count": torch.tensor(7),
    "flags": {"on": torch.tensor([True, False])},
    "half": torch.tensor([1.5], dtype=torch.bfloat16),
    "wide": torch.tensor([torch.pi], dtype=torch.float64),
    "big": torch.tensor([2**62 + 1]),
}


def test_a_tree_comes_back_with_its_values_types_and_shapes() -> None:
    before, after = flatten(TREE), flatten(decode(encode(TREE)))
    assert before.keys() == after.keys()
    for path, tensor in before.items():
        assert after[path].dtype == tensor.dtype
        assert after[path].shape == tensor.shape
        assert torch.equal(after[path], tensor)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0])
def test_special_numbers_survive(value: float) -> None:
    found = decode(encode({"x": torch.tensor([value])}))["x"]
    assert struct.pack("f", float(found)) == struct.pack("f", value)


def test_empty_trees_and_empty_tensors_survive() -> None:
    assert decode(encode({})) == {}
    assert decode(encode({"a": {}})) == {}
    assert decode(encode({"x": torch.zeros(0, 3)}))["x"].shape == (0, 3)


def test_equal_trees_give_equal_bytes_however_they_were_built() -> None:
    turned = dict(reversed(TREE.items()))
    transposed = {"w": torch.arange(6).view(2, 3).t().contiguous()}
    assert encode(turned) == encode(TREE)
    assert encode({"w": torch.arange(6).view(2, 3).t()}) == encode(transposed)
    assert digest(turned) == digest(TREE)


def test_a_changed_bit_a_name_or_a_type_gives_another_digest() -> None:
    digests = {
        digest({"a": torch.tensor([1.0])}),
        digest({"a": torch.tensor([1.0000001])}),
        digest({"b": torch.tensor([1.0])}),
        digest({"a": torch.tensor([1.0], dtype=torch.float64)}),
        digest({"a": torch.tensor([[1.0]])}),
        digest({"a": torch.tensor([-0.0])}),
        digest({"a": torch.tensor([0.0])}),
    }
    assert len(digests) == 7


def test_tensors_that_share_memory_are_written_apart() -> None:
    shared = torch.arange(4.0)
    again = decode(encode({"a": shared, "b": shared, "c": shared[1:]}))
    assert again["c"].tolist() == [1, 2, 3]
    again["a"].zero_()
    assert again["b"].tolist() == [0, 1, 2, 3]


def test_decoded_tensors_lie_in_aligned_memory_of_their_own() -> None:
    tree = decode(
        encode({name: torch.arange(3.0) for name in "abc"} | {"odd": torch.ones(3, dtype=torch.bool)})
    )
    assert all(tensor.data_ptr() % 64 == 0 for tensor in flatten(tree).values())


def test_gradients_and_expanded_tensors_can_be_written() -> None:
    tree = {"p": torch.ones(2, requires_grad=True), "e": torch.tensor(3.0).expand(4)}
    assert decode(encode(tree))["e"].tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 40, -1])
def test_a_cut_message_is_refused(cut: int) -> None:
    with pytest.raises(DataError, match="checkpoint 3 is damaged: ") as caught:
        decode(encode(TREE)[:cut], "checkpoint 3")
    assert len(str(caught.value).splitlines()) == 1


def test_a_message_with_more_bytes_than_it_says_is_refused() -> None:
    with pytest.raises(DataError, match="message is damaged"):
        decode(encode(TREE) + b"\0")


@pytest.mark.parametrize(
    "blob", [b"", b"\x80\x04K\x01.", b"PK\x03\x04" + b"\0" * 40, b"{}" * 20, b"\xff" * 64]
)
def test_other_formats_are_refused(blob: bytes) -> None:
    with pytest.raises(DataError):
        decode(blob)


def test_names_that_are_both_a_leaf_and_a_branch_are_refused() -> None:
    for names in (["a", "a/b"], ["a/b", "a/b/c"]):
        with pytest.raises(DataError):
            decode(safetensors.torch.save({name: torch.zeros(1) for name in names}))


def _with_header(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 8


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"a": {}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "OBJECT", "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}},
    ],
)
def test_a_header_that_lies_is_refused(header: object) -> None:
    with pytest.raises(DataError):
        decode(_with_header(header))


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_flipped_bit_is_refused_or_gives_a_tree(data: st.DataObject) -> None:
    blob = bytearray(encode({"part": {"x": torch.arange(3.0), "y": torch.tensor([1])}}))
    place = data.draw(st.integers(0, len(blob) * 8 - 1))
    blob[place // 8] ^= 1 << place % 8
    _decode_or_refuse(bytes(blob))


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_give_a_tree(blob: bytes) -> None:
    _decode_or_refuse(blob)


def _decode_or_refuse(blob: bytes) -> None:
    with suppress(DataError):
        assert isinstance(decode(blob), dict)
