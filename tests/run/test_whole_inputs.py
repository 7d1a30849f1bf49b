"""Inputs that are whole numbers: token ids stay so for a model that needs them, and are numbers for all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import counterpoise as cp
from counterpoise.api import SimulationResult
from counterpoise.core.codec import digest
from counterpoise.data.dataset import Scaling
from counterpoise.data.form import form_from_json
from counterpoise.data.own import open_data
from counterpoise.errors import ConfigError, DataError
from counterpoise.models.model import MODELS, Builder
from counterpoise.registry.registry import Entry
from counterpoise.run.build import build_simulation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.joined import share_samples
from counterpoise.run.runner import start
from counterpoise.trained.predict import predict_file

WORDS, LENGTH = 12, 4
Y = torch.arange(24) % 3
IDS = (torch.arange(24 * LENGTH).view(24, LENGTH) * 7 % 4) + 4 * Y[:, None]


class Text(nn.Module):
    """A mean of embeddings, which remembers the types that it saw."""

    def __init__(self, words: int = WORDS) -> None:
        super().__init__()
        table = torch.linspace(-1, 1, words * 3).sin().view(words, 3)
        self.words, self.fc = nn.Embedding.from_pretrained(table, freeze=False), nn.Linear(3, 3)
        nn.init.eye_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, ids: Tensor) -> Tensor:
        assert ids.dtype == torch.int64
        return self.fc(self.words(ids).mean(1))  # type: ignore[no-any-return]


def federation(x: Tensor = IDS, test: Tensor | None = None, **other: Scaling) -> cp.Federation:
    data = cp.Dataset(
        "mine", cp.Samples(x, Y), cp.Samples(x if test is None else test, Y), ("a", "b", "c"), **other
    )
    return cp.split(data, "iid", 3)


def trained(given: cp.Federation, model: nn.Module | None = None, engine: str = "loop") -> SimulationResult:
    return cp.simulate(
        given, "fedavg", model or Text(), rounds=3, local={"lr": 1.0, "batch_size": 4}, engine=engine
    )


def parameters(result: SimulationResult) -> str:
    return digest(dict(result.module.model.state_dict()))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_an_embedding_learns_from_ids_of_any_width(engine: str, dtype: torch.dtype) -> None:
    result = trained(federation(IDS.to(dtype)), engine=engine)

    assert result.rows[-1]["accuracy"] == 1.0
    assert result.predict(IDS[:3].to(dtype)).labels == ["a", "b", "c"]


def test_a_scaling_leaves_ids_alone() -> None:
    scaled = federation(scaling=Scaling(torch.tensor(0.5), torch.tensor(3.0)))

    assert parameters(trained(scaled)) == parameters(trained(federation()))


def test_ids_of_a_file_of_arrays_train_as_those_from_python(tmp_path: Path) -> None:
    file = tmp_path / "ids.npz"
    halves = {"x_train": IDS.numpy().astype(np.uint16), "x_test": IDS.numpy().astype(np.int32)}
    np.savez(file, **halves, y_train=Y.numpy(), y_test=Y.numpy(), classes=np.array(["a", "b", "c"]))

    read = cp.split(open_data(file), "iid", 3)

    assert parameters(trained(read)) == parameters(trained(federation()))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_model_that_takes_floats_gets_whole_numbers_as_floats(engine: str) -> None:
    model = nn.Sequential(nn.Linear(LENGTH, 3))

    assert parameters(trained(federation(), model, engine)) == parameters(trained(federation(IDS.float()), model, engine))  # fmt: skip


def test_whole_numbers_beside_floats_are_floats() -> None:
    model = nn.Sequential(nn.Linear(LENGTH, 3))

    mixed = federation(IDS, IDS.float() + 0.25)

    assert parameters(trained(mixed, model)) == parameters(trained(federation(IDS.float()), model))
    with pytest.raises(ConfigError, match="cannot go through"):
        trained(mixed)


def test_an_id_that_is_too_large_is_told_before_the_first_round() -> None:
    with pytest.raises(ConfigError, match=r"index out of range.*whole numbers from 0 to 11") as refused:
        trained(federation(), Text(WORDS - 1))

    assert "\n" not in str(refused.value)


def test_a_norm_over_batches_of_one_is_told_before_the_first_round() -> None:
    model = nn.Sequential(nn.Linear(LENGTH, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    with pytest.raises(ConfigError, match="more than 1 value per channel"):
        cp.simulate(federation(IDS.float()), "fedavg", model, rounds=1, local={"batch_size": 1})


def test_a_trained_model_of_ids_refuses_floats() -> None:
    result = trained(federation())

    with pytest.raises(DataError, match="x holds float32; the model takes whole numbers"):
        result.predict(IDS.float())


def test_the_form_of_ids_comes_back_from_json() -> None:
    form = trained(federation()).module.how.form

    again = form_from_json(form.to_json(), DataError)

    assert again.scaling.whole
    assert again.no_samples().x.dtype == torch.int64
    with pytest.raises(DataError, match="scales whole numbers"):
        form_from_json(form.to_json() | {"scaling": {"scale": 2, "shift": 0}}, DataError)


def test_runs_that_share_their_samples_keep_ids() -> None:
    first = build_simulation(federation(), "fedavg", Text(), rounds=1, engine="stacked")

    shared = share_samples(first.work.federation, federation())
    second = build_simulation(shared, "fedavg", Text(), rounds=1, engine="stacked")

    assert second.work.federation.train.x is first.work.federation.train.x
    assert second.work.federation.scaling.whole


def test_a_run_of_a_config_keeps_ids_and_predicts_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reader() -> Builder:
        return lambda shape, classes: Text()

    assert "reader" not in MODELS.names()  # which also loads the others
    monkeypatch.setitem(MODELS._entries, "reader", Entry("reader", reader))
    file, folder = tmp_path / "ids.npz", tmp_path / "run"
    np.savez(file, x=IDS.numpy(), y=Y.numpy())
    tables: dict[str, Any] = {
        "data": {"name": "arrays", "path": str(file)}, "partition": {"name": "iid", "clients": 2},
        "model": {"name": "reader"}, "method": "fedavg", "rounds": 12, "local": {"lr": 1.0, "batch_size": 4},
    }  # fmt: skip

    summary = start(make_experiment(tables), folder)
    run = cp.load_run(folder)

    assert summary["accuracy"] == 1.0
    assert run.preprocessing.form.scaling.whole
    assert predict_file(run, file).scores()["accuracy"] == 1.0


def test_the_head_of_a_network_of_ids_is_found_where_a_method_needs_one() -> None:
    result = cp.simulate(federation(), ["fedavg", "ldam"], Text(), rounds=1)

    assert {name.split(".")[0] for name in result.module.model.state_dict()} == {
        name.split(".")[0] for name in Text().state_dict()
    }
