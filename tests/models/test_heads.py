"""The recurrence, the cosine head and how a head is exchanged."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.models.heads import CosineHead, replace_head
from counterpoise.models.model import MODELS
from counterpoise.models.tabular import LSTM


@pytest.mark.parametrize("steps", [1, 2, 24])
def test_the_recurrence_equals_torchs(steps: int) -> None:
    theirs = nn.LSTM(5, 7, batch_first=True).double()
    ours = LSTM(5, 7).double()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, steps, 5, generator=generator(0, "lstm"), dtype=torch.float64)
    left, right = ours(x.transpose(1, 2)), theirs(x)[1][0][0]
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)
    left.pow(2).sum().backward()
    right.pow(2).sum().backward()
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name).grad, parameter.grad, rtol=1e-10, atol=1e-12)


def test_cosine_logits_by_hand() -> None:
    head = CosineHead(2, 3)
    head.weight.data = torch.tensor([[5.0, 0.0], [0.0, -2.0], [3.0, 4.0]])
    logits = head(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
    expected = torch.tensor([[0.6, -0.8, 1.0]]).expand(2, 3)  # a length does not matter
    torch.testing.assert_close(logits, expected)


def test_a_feature_of_zero_has_finite_logits() -> None:
    assert CosineHead(4, 3)(torch.zeros(1, 4)).tolist() == [[0.0, 0.0, 0.0]]


def test_a_replaced_head_reads_the_same_features() -> None:
    module = MODELS.build("mlp")((6,), 3)
    x = torch.randn(2, 6, generator=generator(0, "x"))
    features = module.features(x)
    assert replace_head(module, CosineHead) is module
    assert isinstance(module.head, CosineHead)
    assert torch.equal(module.features(x), features)
    assert torch.equal(module(x), module.head(features))


def test_a_new_head_is_made_with_the_sizes_of_the_old() -> None:
    sizes: list[tuple[int, int]] = []

    def make(features: int, classes: int) -> nn.Module:
        sizes.append((features, classes))
        return nn.Linear(features, classes)

    replace_head(MODELS.build("mlp")((6,), 3), make)
    assert sizes == [(100, 3)]


def test_a_module_without_a_head_is_refused() -> None:
    with pytest.raises(ConfigError, match="Sequential has no linear layer named 'head'"):
        replace_head(nn.Sequential(nn.Linear(2, 3)), CosineHead)
