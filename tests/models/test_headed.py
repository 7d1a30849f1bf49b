"""The last layer of a foreign network is found by a batch, whatever its name, and parts that need a head attach to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate, spec_name, unequal_federation
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import counterpoise as cp
from counterpoise.core.method import MethodSpec
from counterpoise.core.tree import flatten
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.models.headed import Headed, own_name, with_found_head
from counterpoise.models.heads import CosineHead
from counterpoise.models.pretrained import load_weights

X = torch.zeros(2, 5)


def body() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh())


class Named(nn.Module):
    """A network whose last layer is called `fc`."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = body(), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.body(x))
        return logits


class Answer(nn.Module):
    """A network that hands back a dict, and whose head stands in a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.classifier = body(), nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.classifier(self.body(x))}


class Headless(nn.Module):
    """A head without `features`."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = body(), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


class Functional(Named):
    """Logits that no layer gives."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.body(x), self.fc.weight, self.fc.bias)


class Scaled(Named):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Tied(nn.Module):
    """The last layer's weight is also the first one's."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.fc = nn.Linear(5, 4, bias=False), nn.Linear(5, 4)
        self.fc.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.first(x) @ self.first.weight)
        return logits


def sequence() -> nn.Sequential:
    return nn.Sequential(*body(), nn.Linear(6, 4))


FOUND = {
    "2": sequence,
    "fc": Named,
    "classifier.1": Answer,
    "head": Headless,
    "out": lambda: nn.Sequential(OrderedDict(body=body(), out=nn.Linear(6, 4))),
    "": lambda: nn.Linear(5, 4),
}  # fmt: skip


@pytest.mark.parametrize("path", FOUND)
def test_the_last_layer_is_found_and_the_network_says_the_same(path: str) -> None:
    module = FOUND[path]()
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    said, state = module(x), {name: value.clone() for name, value in module.state_dict().items()}
    said = said["logits"] if isinstance(said, dict) else said
    headed = with_found_head(module, X, 4, "why")
    assert headed.path == path
    assert torch.equal(headed(x), said)
    assert torch.equal(headed.head(headed.features(x)), said)
    assert {own_name(headed, name) for name in headed.state_dict()} == state.keys()
    whole = headed.whole()
    assert type(whole) is type(FOUND[path]())
    assert list(whole.state_dict()) == list(state)
    assert all(torch.equal(value, state[name]) for name, value in whole.state_dict().items())


@pytest.mark.parametrize("kind", [Functional, Scaled, Tied])
def test_logits_that_no_single_layer_gives_have_no_head(kind: type[nn.Module]) -> None:
    with pytest.raises(
        ConfigError, match=r"why; no linear layer with 4 outputs gives its logits: its linear .* fc \(4\)"
    ):
        with_found_head(kind(), X, 4, "why")


class PerToken(nn.Module):
    """Scores every token [n, tokens, classes], then takes one of them or what they have together, as GPT-2 does."""

    def __init__(self, take: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.score, self.take = body(), nn.Linear(6, 4, bias=False), take

    def forward(self, x: Tensor) -> Tensor:
        return self.take(self.score(self.body(x)))


@pytest.mark.parametrize("take", [lambda rows: rows[:, -1], lambda rows: rows.mean(1)], ids=["last", "mean"])
def test_a_layer_that_scores_every_token_is_a_head_of_the_token_that_is_taken(
    take: Callable[[Tensor], Tensor],
) -> None:
    module, x = PerToken(take), torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0))
    said = module(x)
    headed = with_found_head(module, torch.zeros(2, 7, 5), 4, "why")
    assert headed.path == "score"
    assert headed.features(x).shape == (3, 6)
    assert torch.allclose(headed(x), said)


def test_a_maximum_over_tokens_has_no_head_though_equal_tokens_would_hide_it() -> None:
    with pytest.raises(ConfigError, match=r"no linear layer with 4 outputs gives its logits"):
        with_found_head(PerToken(lambda rows: rows.amax(1)), torch.zeros(2, 7, 5), 4, "why")


def test_a_network_without_linear_layers_is_told_so() -> None:
    with pytest.raises(ConfigError, match=r"why; no linear layer .* it has no linear layer$"):
        with_found_head(nn.Sequential(nn.Conv1d(1, 1, 1)), X, 4, "why")


NEEDY: list[MethodSpec] = [
    ["fedavg", "ldam"], ["fedavg", "crt"], ["fedavg", "logit_adjustment"], "moon", "fedgrab", "fedrod", "fedetf", "fedloge",
    "feddecorr", ["fedavg", {"aggregation_balancer": {"scope": "classifier"}}],
]  # fmt: skip


@pytest.mark.parametrize("spec", NEEDY, ids=spec_name)
def test_a_foreign_network_trains_as_ours_does(spec: MethodSpec) -> None:
    ours, theirs = simulate(spec, rounds=2), simulate(spec, model=Named(), rounds=2)
    assert isinstance(theirs.work.model.module, Headed)
    wanted, found = (flatten(sim.presented(run_rounds(sim))[0]) for sim in (ours, theirs))
    assert [tuple(t.shape) for t in found.values()] == [tuple(t.shape) for t in wanted.values()]
    # Ours has a forward pass by hand, with the same operations in another order.
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(wanted.values(), found.values(), strict=True))


@pytest.mark.parametrize("kind", [sequence, Answer], ids=["sequence", "dict"])
def test_the_loop_equals_the_stack(kind: Any) -> None:
    def trained(engine: EngineSettings) -> Any:
        return run_rounds(simulate(["fedavg", "ldam", "decorrelation"], model=kind(), engine=engine)).params

    assert distance(trained(LOOP), trained(STACKED)) < 1e-8


def test_a_method_without_a_head_leaves_the_network_as_it_is() -> None:
    for kind in (Named, Functional):
        sim = simulate("fedavg", model=kind(), rounds=1)
        assert type(sim.work.model.module) is kind
        assert set(run_rounds(sim).params) == set(kind().state_dict())


@pytest.mark.parametrize("settings", [{"method": ["fedavg", "ldam"]}, {"method": "fedavg", "head": "etf"}])
def test_functional_logits_are_refused_where_a_head_is_needed(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no linear layer with 4 outputs gives its logits") as refused:
        cp.simulate(unequal_federation(), model=Functional(), rounds=1, **settings)
    assert "\n" not in str(refused.value)


def test_the_result_is_the_users_network_with_its_names() -> None:
    federation = unequal_federation()
    result = cp.simulate(
        federation, ["fedavg", "ldam"], Named(), rounds=1, freeze=("body.0.bias",), engine="loop"
    )
    network = result.module.model
    assert isinstance(network, Named)
    assert isinstance(network.fc, CosineHead)
    assert list(network.state_dict()) == ["body.0.weight", "body.0.bias", "fc.weight"]
    assert not network.body[0].bias.requires_grad
    said = result.module(federation.test.x.float())
    assert torch.allclose(said, network(federation.test.x.float()))


def test_weights_of_the_users_network_fit_and_may_lack_the_head(tmp_path: Path) -> None:
    given = Named()
    file = tmp_path / "weights.safetensors"
    save_file({name: value for name, value in given.state_dict().items() if not name.startswith("fc.")}, file)
    headed = with_found_head(Named(), X, 4, "why")
    assert load_weights(headed, file) == ["fc.weight", "fc.bias"]
    assert torch.equal(headed.whole().state_dict()["body.0.weight"], load_file(file)["body.0.weight"])
