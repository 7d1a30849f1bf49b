"""Models that draw, as dropout does: the same run in every engine, whatever torch's global stream does meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import (
    LOOP,
    SEED,
    STACKED,
    distance,
    run_joined,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)
from runs import tiny
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from counterpoise.client.trial import rate_of
from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.opening import open_task
from counterpoise.errors import ConfigError
from counterpoise.run.build import build_simulation
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import RunFolder
from counterpoise.server.round import announce

SEQUENCE = (4, 6)  # steps and numbers in each
SPECS: list[MethodSpec] = ["fedavg", "scaffold", "fedcgnm", "fedsam", "moon", "balancefl"]


class Recurrent(nn.Module):
    """Steps first, so that what is dropped between the layers does not begin with the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(6, 5, 2, dropout=0.3), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x.transpose(0, 1))[0][-1])
        return out


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.2, batch_first=True)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        x = scaled_dot_product_attention(x, x, x, dropout_p=0.2 if self.training else 0.0)
        out: Tensor = self.head(dropout(x.mean(1), 0.2, self.training))
        return out


class Residual(nn.Module):
    """With stochastic depth and BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.norm = nn.Linear(24, 8), nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x.flatten(1))
        kept = x.new_empty(len(x), 1).bernoulli_(0.7) if self.training else 0.7
        out: Tensor = self.head(x + self.norm(self.body(x)) * kept)
        return out


NETWORKS = {"recurrent": Recurrent, "attentive": Attentive, "residual": Residual}


def _dropping(rate: float = 0.4) -> nn.Module:
    return small_model(hidden=[6], activation="tanh", dropout=rate)


def _sequences(name: str, engine: EngineSettings) -> dict[str, Tensor]:
    local = Local(lr=0.1, batch_size=12, batching="wrap" if name == "residual" else "pad")
    with torch.random.fork_rng():
        torch.manual_seed(4)
        network = NETWORKS[name]()
    torch.rand(3)  # moves torch's global stream, which must not matter
    settings = replace(engine, dtype="float64")
    sim = build_simulation(
        unequal_federation(SEQUENCE),
        "fedavg",
        network,
        rounds=3,
        local=local,
        cohort=3,
        seed=SEED,
        engine=settings,
    )
    assert sim.work.model.draws
    state = run_rounds(sim)
    return state.params | state.buffers


@pytest.mark.parametrize("spec", SPECS, ids=spec_name)
def test_stacked_equals_one_by_one_with_dropout(spec: MethodSpec) -> None:
    alone, stacked = (
        run_rounds(simulate(spec, model=_dropping(), engine=engine)) for engine in (LOOP, STACKED)
    )

    assert distance(alone.params, stacked.params) < 1e-8


@pytest.mark.parametrize("name", NETWORKS)
def test_foreign_networks_agree_and_repeat(name: str) -> None:
    alone, again, stacked = (_sequences(name, engine) for engine in (LOOP, LOOP, STACKED))

    assert digest(alone) == digest(again)
    assert distance(alone, stacked) < 1e-8


def test_processes_give_the_bits_of_one() -> None:
    one, two = (
        run_rounds(
            simulate("scaffold", model=_dropping(), engine=EngineSettings("loop", "cpu", processes=count))
        )
        for count in (1, 2)
    )

    assert digest(one.params) == digest(two.params)


def test_rate_0_equals_no_dropout_and_another_rate_does_not() -> None:
    plain, none, some = (
        digest(run_rounds(simulate("fedavg", model=model)).params)
        for model in (small_model(), _dropping(0.0), _dropping())
    )

    assert plain == none
    assert plain != some


def test_steps_rounds_and_clients_draw_apart() -> None:
    sim = simulate("fedavg", model=_dropping(), rounds=2, cohort=None)
    state = sim.open()
    keys = []
    for number in range(2):
        broadcast = announce(sim.method, state, 0.1)._replace(round=number)
        for task in sim.tasks(state):
            keys += open_task(sim.work, task, {}, broadcast).keys.tolist()

    assert len(keys) == len(set(keys)) > 10
    assert min(keys) > 0


@pytest.mark.parametrize("left", [1, 2])
def test_a_run_with_dropout_goes_on_to_the_same_end(left: int, tmp_path: Path) -> None:
    config = tiny(
        "model.name='mlp'", "model.hidden=[8]", "model.dropout=0.3", "checkpoint.every=1", "rounds=3"
    )
    whole = start(config, tmp_path / "whole")
    start(config, tmp_path / "cut")
    folder = RunFolder(tmp_path / "cut")
    for number in range(left + 1, 4):
        for path in folder.path.glob(f"checkpoints/*{number}*"):
            path.unlink()

    assert resume(tmp_path / "cut")["params_sha256"] == whole["params_sha256"]


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x + torch.randn_like(x))
        return out


class Named(nn.Module):
    """Logits as transformers hand them back."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer = kind, nn.Linear(5, 4)

    def forward(self, x: Tensor) -> object:
        logits = self.layer(x)
        return {"tuple": (logits, x), "dict": {"logits": logits}, "text": "logits"}[self.kind]


def old_weight_norm() -> nn.Module:
    """Deprecated, and found in many networks."""
    with pytest.warns(FutureWarning):
        return nn.utils.weight_norm(nn.Linear(5, 4))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Noisy(), "calls randn_like, which draws from torch's global stream"),
        (
            nn.Linear(5, 3),
            r"must give floating-point logits \[2, 4\], one for each of the 4 classes, not torch.float64 \[2, 3\]",
        ),
        (nn.Sequential(nn.Linear(5, 4), nn.Unflatten(1, (2, 2))), r"not torch.float64 \[2, 2, 2\]"),
        (nn.Linear(6, 4), r"a batch \[2, 5\] of torch.float64 cannot go through it: RuntimeError"),
        (nn.LazyLinear(4), "layer 'weight' is lazy"),
        (Named("text"), "output must be a tensor of logits.*not str"),
        (old_weight_norm(), "cannot be copied, as torch.nn.utils.weight_norm does"),
    ],
    ids=["noise", "too few", "shape", "input", "lazy", "type", "weight norm"],
)
def test_what_does_not_fit_is_told_in_one_line_before_round_0(model: nn.Module, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        simulate("fedavg", model=model)

    assert "\n" not in str(caught.value)


class Attentive(nn.Module):
    """Attention that drops nothing: torch marks its fast kernels as draws all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.fc = nn.Linear(1, 24), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.enter(x.unsqueeze(2)).view(len(x), 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.fc(seen[:, :, -1].flatten(1))  # type: ignore[no-any-return]


def test_attention_without_dropout_draws_nothing_and_is_not_refused() -> None:
    alone, together = (
        run_rounds(simulate("fedavg", model=Attentive(), engine=engine)).params for engine in (LOOP, STACKED)
    )

    assert distance(alone, together) < 1e-8


@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_logits_among_other_things_are_found(kind: str) -> None:
    plain, named = (
        run_rounds(simulate("fedavg", model=model)).params for model in (nn.Linear(5, 4), Named(kind))
    )

    assert distance(plain, {name.removeprefix("layer."): p for name, p in named.items()}) < 1e-12


def test_joined_runs_equal_single_ones_with_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("federations.small_model", lambda *given, **named: _dropping())
    sims, states = run_joined("fedavg", STACKED, (1, 2), unequal_federation())

    for sim, state in zip(sims, states, strict=True):
        alone = run_rounds(simulate("fedavg", engine=STACKED, seed=sim.seed))
        assert distance(alone.params, state.params) < 1e-8


def test_a_recurrent_layer_on_a_gpu_that_drops_nothing_is_not_taken_for_a_draw() -> None:
    """On a GPU torch runs all recurrent layers by one operation, which is marked as a draw whatever it drops."""
    operation = torch.ops.aten._cudnn_rnn.default
    place = [argument.name for argument in operation._schema.arguments].index("dropout")
    for rate in (0.0, 0.5):
        assert rate_of(operation, [None] * place + [rate], {}) == rate
