"""The trial by which a GPU's engine is chosen: models that can be stacked pass it, and what cannot is named."""

from __future__ import annotations

import pytest
import torch
from federations import simulate, small_model, unequal_federation
from torch import Tensor, nn

from counterpoise.core.local import Local
from counterpoise.engines.choose import stacking_obstacle

IMAGE = (1, 8, 8)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mlp", {"hidden": [6]}),
        ("mlp", {"hidden": [6], "norm": "batch"}),
        ("resnet8", {"norm": "group", "width": 4}),
        ("resnet8", {"norm": "batch", "width": 4}),
        ("convnet", {}),
    ],
    ids=str,
)
def test_models_of_the_package_can_be_stacked(name: str, arguments: dict[str, object]) -> None:
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    model = small_model(name, IMAGE, **arguments)
    sim = simulate("fedavg", federation=unequal_federation(IMAGE), model=model, local=local)
    assert stacking_obstacle(sim.work) is None


class Branching(nn.Module):
    """Decides by a number that it computes, which no stack of clients can."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x)
        return found if float(found.detach().sum()) > 0 else -found


def test_a_model_that_cannot_be_stacked_is_told_apart() -> None:
    sim = simulate("fedavg", model=Branching())
    obstacle = stacking_obstacle(sim.work)
    assert obstacle is not None
    assert "item" in obstacle or "data-dependent" in obstacle or "vmap" in obstacle
    assert torch.is_grad_enabled()
