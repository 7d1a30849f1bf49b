"""Neuron concentration by numbers worked out by hand, the layers that it finds, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from federations import small_model
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.probing import look
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.errors import ConfigError
from counterpoise.metrics.concentration import choose_layers, concentrations
from counterpoise.metrics.probe import build_probes

IMAGE = (3, 16, 16)


class Reused(nn.Module):
    """One activation for two layers, as in many models of others; the second writes where the first wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.relu(self.second(self.relu(self.first(x))))
        return hidden


def linear(*rows: tuple[float, ...]) -> nn.Linear:
    layer = nn.Linear(len(rows[0]), len(rows), bias=False)
    layer.weight.data.copy_(torch.tensor(rows))
    return layer


def two_layers() -> nn.Module:
    return nn.Sequential(
        linear((1, 0), (0, 1)), nn.ReLU(), linear((1, 0), (0, 1), (1, 1)), nn.ReLU(), nn.Linear(3, 2)
    )


def seen(module: nn.Module, x: Tensor, **arguments: object) -> dict[str, float | None]:
    """What the probe gives of a module on these inputs."""
    model = FunctionalModel(module)
    samples = Samples(x, torch.zeros(len(x), dtype=torch.int64))
    probes = build_probes([{"concentration": arguments}])
    given = model, model.params(), model.buffers(), samples, no_scaling(), probes
    return dict(look(*given)["concentration"])


def default_layers(name: str, shape: tuple[int, ...], **arguments: object) -> list[str]:
    return list(seen(small_model(name, shape, **arguments), torch.ones(1, *shape)))[1:]


def test_two_layers_are_as_worked_out_by_hand() -> None:
    found = seen(two_layers(), torch.tensor([[3.0, 1.0], [2.0, -1.0]]))
    # Sample 1: (3, 1) gives 10/16, then (3, 1, 4) gives 26/64. Sample 2: (2, 0) gives 1, then (2, 0, 2) gives 1/2.
    first = (0.25 + 1.0) / 2
    second = ((26 / 64 - 1 / 3) / (2 / 3) + 0.25) / 2
    assert found == pytest.approx({"mean": (first + second) / 2, "1": first, "3": second})
    assert list(found) == ["mean", "1", "3"]


@pytest.mark.parametrize("units", [2, 3, 7, 512])
def test_equal_activations_give_0_and_a_single_one_gives_1(units: int) -> None:
    signs = torch.tensor([1.0, -1.0]).repeat(units)[:units]
    assert concentrations(torch.stack([torch.ones(units), 0.3 * signs])).tolist() == pytest.approx([0.0, 0.0])
    single = torch.zeros(2, units)
    single[0, 0], single[1, -1] = 1e-30, -1e30
    assert concentrations(single).tolist() == pytest.approx([1.0, 1.0])


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=9), st.floats(0.01, 100))
def test_it_lies_between_0_and_1_whatever_the_scale_and_the_order(values: list[float], scale: float) -> None:
    one = torch.tensor([values], dtype=torch.float64)
    found = concentrations(torch.cat([one, one.flip(1), one * scale]))
    if not one.any():
        assert found.isnan().all()
    else:
        assert ((found >= 0) & (found <= 1)).all()
        assert found.tolist() == pytest.approx([found[0].item()] * 3, abs=1e-9)


def test_a_sample_without_any_active_unit_is_left_out() -> None:
    found = seen(two_layers(), torch.tensor([[3.0, 1.0], [-1.0, -2.0]]))
    assert found["1"] == pytest.approx(0.25)  # not 0.125: the second sample wakes no unit
    dead = seen(two_layers(), torch.tensor([[-1.0, -2.0]]))
    assert dead == {"mean": None, "1": None, "3": None}


def test_a_dead_layer_is_left_out_of_the_mean() -> None:
    module = two_layers()
    module[2].weight.data.neg_()
    assert seen(module, torch.tensor([[3.0, 1.0]])) == {"mean": pytest.approx(0.25), "1": 0.25, "3": None}


def test_a_convolution_counts_by_its_means_over_positions() -> None:
    convolution = nn.Conv2d(1, 2, 1, bias=False)
    convolution.weight.data.copy_(torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
    module = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    # Unit 1 gives 1, 2, 3, 0 and unit 2 gives 0, 0, 0, 2 after the activation: means 1.5 and 0.5.
    image = torch.tensor([[[[1.0, 2.0], [3.0, -2.0]]]])
    assert seen(module, image)["1"] == pytest.approx(((9 + 1) / 16 - 0.5) / 0.5)
    # Before it the means are 1 and -1: alike.
    assert seen(module, image, layers="0")["0"] == pytest.approx(0.0)


def test_a_layer_of_one_unit_is_left_out() -> None:
    module = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 2))
    assert list(seen(module, torch.ones(1, 2))) == ["mean", "3"]
    with pytest.raises(
        ConfigError, match=r"layers = \['1'\] must fit a layer that runs and has 2 units or more"
    ):
        seen(module, torch.ones(1, 2), layers="1")


def test_a_layer_that_runs_twice_is_counted_twice_before_anyone_writes_into_it() -> None:
    module = Reused()
    module.first, module.second = linear((1, 0), (0, 1)), linear((1, 0), (0, 1), (1, 1))
    found = seen(module, torch.tensor([[3.0, 1.0], [2.0, -1.0]]), layers=["relu", "fir*"])
    hand = seen(two_layers(), torch.tensor([[3.0, 1.0], [2.0, -1.0]]), layers=["0", "1", "3"])
    assert list(found) == ["mean", "first", "relu", "relu:2"]
    assert list(found.values()) == pytest.approx(list(hand.values()))
    assert found["first"] == pytest.approx((0.25 + (5 / 9 - 0.5) / 0.5) / 2)  # (2, -1) before the activation


def test_every_activation_of_our_models_is_found() -> None:
    assert default_layers("mlp", (5,), hidden=[6, 4], activation="elu", norm="group") == ["body.3", "body.6"]
    assert default_layers("convnet", IMAGE) == ["body.1", "body.3", "body.5"]
    assert default_layers("lenet5", (1, 8, 8)) == ["body.2", "body.5", "body.9", "body.11"]
    assert default_layers("cnn_lstm", (16,), width=2, hidden=3) == ["body.3", "body.7", "body.11", "body.14"]


def test_a_residual_network_gives_stem_inner_activations_and_blocks_in_the_order_they_run() -> None:
    blocks = [name for block in (1, 2, 3) for name in (f"body.{block}.residual.1", f"body.{block}")]
    assert default_layers("resnet8", IMAGE, width=2) == ["body.0.1", *blocks]
    assert len(default_layers("resnet18", IMAGE, width=2)) == 1 + 2 * 8


def test_a_block_is_measured_after_its_last_activation() -> None:
    module = small_model("resnet8", IMAGE, width=2).eval()
    x = torch.randn(4, *IMAGE, generator=torch.Generator().manual_seed(0))
    out: list[Tensor] = []
    block = module.get_submodule("body.2")
    handle = block.register_forward_hook(lambda layer, inputs, output: out.append(output))
    module(x)
    handle.remove()
    assert (out[0] >= 0).all()
    wanted = concentrations(out[0].detach().mean((2, 3))).mean().item()
    assert seen(module, x)["body.2"] == pytest.approx(wanted)


def test_layers_are_chosen_by_patterns() -> None:
    module = small_model("resnet8", IMAGE, width=2)
    assert list(choose_layers(module, ["body.?.residual.1"])) == [f"body.{k}.residual.1" for k in (1, 2, 3)]
    assert list(choose_layers(module, ["head", "body.0"])) == ["body.0", "head"]


def test_a_pattern_that_fits_nothing_names_a_near_layer() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^evaluate.probes: concentration: layers: 'haed' fits no layer; did you mean 'head'",
    ):
        seen(small_model(), torch.ones(1, 5), layers=["body*", "haed"])


def test_a_model_without_activations_is_refused_with_its_layers() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with pytest.raises(ConfigError, match=r"Sequential has no activation layer .* one of 0, 1$"):
        seen(module, torch.ones(1, 2))
    assert seen(module, torch.ones(1, 2), layers="*").keys() == {"mean", "0", "1"}


def test_no_layers_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"layers = \[\] must fit"):
        seen(two_layers(), torch.ones(1, 2), layers=[])
