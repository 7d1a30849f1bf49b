"""Models scored side by side have the sums that they have one after another, whatever BatchNorm is in them."""

from __future__ import annotations

import pytest
import torch
from federations import distance, small_model
from norm_models import BUILT, Reading, scored_models
from torch import nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.measure import measure_each, measure_many, measure_stacked
from counterpoise.core.part import Batch, Outputs
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, stack
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.metrics.scoring import count_all


def _sums(outputs: Outputs, batch: Batch) -> Tree:
    return count_all(outputs, batch) | {"logits": outputs.logits.sum(0)}


@pytest.mark.parametrize("name", BUILT)
def test_stacked_sums_equal_those_one_after_another(name: str) -> None:
    given = scored_models(name)
    side_by_side, alone = (way(*given, _sums) for way in (measure_stacked, measure_each))
    assert distance(side_by_side, alone) < 1e-12
    assert alone["logits"].std(0).min() > 1e-3  # the models do differ


@pytest.mark.parametrize("name", [name for name in BUILT if "no running" not in name])
def test_no_layer_of_torch_is_left_to_stack(name: str) -> None:
    """Its kernels do not stack on a GPU, which a CPU does not show."""
    model = FunctionalModel(BUILT[name][1]())
    assert not any(
        isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in model.stackable.module.modules()
    )
    assert model.stackable.params().keys() == model.params().keys()
    assert model.stackable.buffers().keys() == model.buffers().keys()


def test_a_model_without_batch_norm_is_not_copied() -> None:
    model = FunctionalModel(small_model())
    assert model.stackable is model


def test_a_layer_that_does_not_stack_is_scored_one_by_one() -> None:
    model = FunctionalModel(nn.Sequential(nn.Linear(5, 4), Reading()).double())
    x = torch.randn(8, 5, generator=generator(0, "x"), dtype=torch.float64)
    models = stack([model.params(), model.params()])
    given = model, models, {}, Samples(x, torch.arange(8) % 4), no_scaling().to(torch.float64)
    with pytest.raises(RuntimeError, match="vmap"):
        measure_stacked(*given)
    assert measure_many(*given)["confusion"].sum((1, 2)).tolist() == [8, 8]
