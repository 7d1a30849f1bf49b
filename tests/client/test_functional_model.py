"""A module as a pure function: nothing given is touched, frozen parameters belong to the function."""

from __future__ import annotations

import pytest
import torch
from federations import distance, small_model
from torch import Tensor, nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.core.rng import generator
from counterpoise.models.init import initialise

X = torch.randn(6, 5, generator=generator(0, "x"))


def _model(norm: str = "none") -> FunctionalModel:
    module = small_model("mlp", hidden=[6], norm=norm)
    initialise(module, generator(0, "init"))
    return FunctionalModel(module)


def test_outputs_are_those_of_the_module() -> None:
    model = _model("batch")
    outputs, _ = model.apply(model.params(), model.buffers(), X, train=False)
    assert torch.equal(outputs.logits, model.module.eval()(X))
    assert outputs.features.shape == (6, 6)


def test_a_training_pass_returns_new_buffers_and_leaves_the_given_ones() -> None:
    model = _model("batch")
    params, buffers = model.params(), model.buffers()
    _, after = model.apply(params, buffers, X + 3, train=True)
    assert distance(buffers, model.buffers()) == 0
    assert distance(buffers, after) > 0.01
    assert after["body.2.num_batches_tracked"] == 1


def test_an_evaluation_pass_leaves_the_buffers() -> None:
    model = _model("batch")
    _, after = model.apply(model.params(), model.buffers(), X + 3, train=False)
    assert distance(after, model.buffers()) == 0


def test_copies_do_not_share_memory_with_the_module() -> None:
    model = _model()
    params = model.params()
    params["head.bias"].zero_()
    assert model.params()["head.bias"].abs().max() > 0


def test_frozen_parameters_are_kept_apart_from_trained_ones() -> None:
    model = _model()
    model.module.get_parameter("head.bias").requires_grad_(False)
    assert set(model.frozen()) == {"head.bias"}
    assert "head.bias" not in model.params() | model.buffers()
    outputs, _ = model.apply(model.params(), model.buffers(), X, train=True)
    assert torch.equal(outputs.logits, model.module(X))


def test_load_writes_every_number_into_the_module() -> None:
    model, other = _model("batch"), _model("batch")
    params = {name: p + 1 for name, p in model.params().items()}
    _, buffers = model.apply(params, model.buffers(), X, train=True)
    module = other.load(params, buffers)
    assert not module.training
    expected, _ = model.apply(params, buffers, X, train=False)
    assert torch.equal(module(X), expected.logits)


class _Bare(nn.Module):
    """No ``features`` and no ``head``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x)
        return logits


def test_a_module_without_features_works_with_empty_ones() -> None:
    model = FunctionalModel(_Bare())
    outputs, _ = model.apply(model.params(), {}, X, train=True)
    assert outputs.logits.shape == (6, 3)
    assert outputs.features.shape == (6, 0)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(3), nn.SyncBatchNorm(3)])
def test_batch_norm_of_any_kind_is_noticed(norm: nn.Module) -> None:
    assert FunctionalModel(nn.Sequential(nn.Linear(5, 3), norm)).has_batch_norm
    assert not FunctionalModel(nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3))).has_batch_norm


def test_a_norm_of_instances_goes_by_batches_only_where_it_keeps_statistics() -> None:
    assert FunctionalModel(nn.Sequential(nn.Conv1d(1, 2, 1), nn.InstanceNorm1d(2, track_running_stats=True))).has_batch_norm  # fmt: skip
    assert not FunctionalModel(nn.Sequential(nn.Conv1d(1, 2, 1), nn.InstanceNorm1d(2))).has_batch_norm
