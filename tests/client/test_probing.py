"""A probe sees the scored model on the server's samples, in batches, and leaves no trace in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import small_model, unequal_federation
from torch import Tensor, nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.measure import BATCH
from counterpoise.client.probing import check_samples, look, names_given, server_samples
from counterpoise.core.codec import digest
from counterpoise.data.dataset import Samples, Scaling, no_scaling
from counterpoise.errors import ConfigError
from counterpoise.metrics.probe import Numbers, Probe, View, build_probes

CONCENTRATION = build_probes(["concentration"])


class Halves(nn.Module):
    """Scored by `head(features(x))`; its forward pass is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.head = nn.Tanh(), nn.Linear(5, 2)

    def features(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        raise AssertionError("not the pass by which a model is scored")


def samples_of(count: int, shape: tuple[int, ...] = (5,)) -> Samples:
    x = torch.randn(count, *shape, generator=torch.Generator().manual_seed(3), dtype=torch.float32)
    return Samples(x, torch.arange(count) % 4)


def test_parameters_and_running_statistics_stay_and_no_hook_is_left() -> None:
    module = small_model("resnet8", (3, 8, 8), norm="batch", width=2).train()
    model = FunctionalModel(module)
    params, buffers = model.params(), model.buffers()
    before = digest({"params": params, "buffers": buffers, "module": model.buffers() | model.params()})
    look(model, params, buffers, samples_of(9, (3, 8, 8)), no_scaling(), CONCENTRATION)
    after = digest({"params": params, "buffers": buffers, "module": model.buffers() | model.params()})
    assert before == after
    assert not any(layer._forward_hooks for layer in module.modules())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_probe_sees_these_values_and_no_gradient_and_evaluation_mode() -> None:
    model = FunctionalModel(small_model(norm="batch", hidden=[3]))
    params = {name: torch.full_like(value, 0.5) for name, value in model.params().items()}

    def check(view: View) -> Numbers:
        assert all((p == 0.5).all() for p in view.module.parameters())
        assert not torch.is_grad_enabled()
        assert not any(layer.training for layer in view.module.modules())
        return {"infinite": float("inf"), "none": None, "whole": 2}

    probe = Probe(check, name="check")
    found = look(model, params, model.buffers(), samples_of(2), no_scaling(), [probe])
    assert found == {"check": {"infinite": None, "none": None, "whole": 2.0}}


def test_all_samples_come_scaled_in_batches_of_bounded_size_and_again_the_same() -> None:
    model, samples = FunctionalModel(small_model()), samples_of(2 * BATCH + 3)
    scaling = Scaling(torch.tensor(1.0), torch.tensor(2.0))

    def check(view: View) -> Numbers:
        first, again = list(view.batches()), list(view.batches())
        assert [len(batch.y) for batch in first] == [BATCH, BATCH, 3]
        assert torch.equal(torch.cat([batch.x for batch in first]), scaling(samples.x))
        assert torch.equal(torch.cat([batch.x for batch in first]), torch.cat([batch.x for batch in again]))
        return {}

    look(model, model.params(), model.buffers(), samples, scaling, [Probe(check, name="check")])


def test_the_mean_over_batches_is_that_over_samples() -> None:
    model, samples = FunctionalModel(small_model()), samples_of(BATCH + 500)
    whole = look(model, model.params(), model.buffers(), samples, no_scaling(), CONCENTRATION)
    halves = [
        look(model, model.params(), model.buffers(), Samples(samples.x[part], samples.y[part]), no_scaling(), CONCENTRATION)
        for part in (slice(0, BATCH), slice(BATCH, None))
    ]  # fmt: skip
    first, second = (one["concentration"]["mean"] for one in halves)
    assert first is not None
    assert second is not None
    assert whole["concentration"]["mean"] == pytest.approx((BATCH * first + 500 * second) / (BATCH + 500))


def test_one_probe_cannot_change_the_model_of_the_next() -> None:
    def spoil(view: View) -> Numbers:
        for parameter in view.module.parameters():
            parameter.zero_()
        return {}

    model, probes = FunctionalModel(small_model()), [Probe(spoil, name="spoil"), *CONCENTRATION]
    given = model.params(), model.buffers(), samples_of(5), no_scaling()
    assert look(model, *given, probes)["concentration"] == look(model, *given, CONCENTRATION)["concentration"]


def test_the_pass_is_that_of_the_scores() -> None:
    model = FunctionalModel(Halves())
    found = look(model, model.params(), model.buffers(), samples_of(3), no_scaling(), CONCENTRATION)
    assert found["concentration"].keys() == {"mean", "act"}


def test_the_servers_validation_samples_come_before_the_test_set() -> None:
    federation = unequal_federation()
    own = Samples(federation.test.x[:3], federation.test.y[:3])
    assert server_samples(replace(federation, validation=own)) is own
    empty = Samples(own.x[:0], own.y[:0])
    for validation in (None, empty):
        assert server_samples(replace(federation, validation=validation)) is federation.test
    with pytest.raises(ConfigError, match="concentration needs samples of the server's own, and it has none"):
        check_samples(empty, CONCENTRATION[0])


def test_names_are_known_before_the_first_round() -> None:
    model, federation = FunctionalModel(small_model()), unequal_federation().to("cpu")
    assert names_given(model, federation, CONCENTRATION) == {"concentration": ["mean", "body.3"]}
    nothing = Samples(federation.test.x[:0], federation.test.y[:0])
    without = replace(federation, test=nothing, validation=None)
    assert names_given(model, without, ()) == {}
    with pytest.raises(ConfigError, match="needs samples"):
        names_given(model, without, CONCENTRATION)
