"""Networks of packages by their names in a config (`make test-foreign`): run, resumed, used and exported."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from foreign_packages import import_torchvision
from runs import call, read_summary

from counterpoise.models.foreign import TRUSTED
from counterpoise.system.toml import write_toml

pytestmark = pytest.mark.foreign

BERT = """
from transformers import BertConfig, BertForSequenceClassification
from counterpoise import SeveralInputs
from counterpoise.models.inputs import Piece

def bert(**given):
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=6, num_labels=4, **given,
    )
    layout = {"input_ids": Piece((6,)), "attention_mask": Piece((6,))}
    return SeveralInputs(BertForSequenceClassification(config), layout)
"""
MODELS = {
    "timm": {"name": "timm:vit_tiny_patch16_224", "img_size": 32, "depth": 2, "drop_path_rate": 0.1},
    "torchvision": {"name": "torchvision:shufflenet_v2_x0_5"},
    "transformers": {"name": "foreign_berts:bert", "hidden_dropout_prob": 0.2},
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of the user's own that builds a BERT, trusted as the packages are."""
    import_torchvision()
    (tmp_path / "foreign_berts.py").write_text(BERT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(TRUSTED, "timm,torchvision,foreign_berts")
    yield
    sys.modules.pop("foreign_berts", None)


def write_data(path: Path, words: bool) -> None:
    """Coloured pixels, or ids with their mask, of four classes."""
    rng, y = np.random.default_rng(0), np.arange(48) % 4
    if words:
        mask = (np.arange(6) < rng.integers(1, 7, (48, 1))).astype(np.int64)
        np.savez(path, x=np.concatenate([(rng.integers(2, 16, (48, 6)) + y[:, None]) * mask, mask], 1), y=y)
    else:
        pixels = rng.integers(0, 120, (48, 3, 32, 32)) + 30 * y[:, None, None, None]
        np.savez(path, x=pixels.astype(np.uint8), y=y)


@pytest.mark.parametrize("kind", MODELS)
def test_a_network_by_its_name_runs_resumes_predicts_and_exports(
    package: None, kind: str, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnxruntime")
    write_data(tmp_path / "data.npz", kind == "transformers")
    tables = {
        "rounds": 3, "method": ["fedavg", "ldam"], "data": {"name": "arrays", "path": str(tmp_path / "data.npz")},
        "partition": {"name": "iid", "clients": 2}, "model": MODELS[kind], "local": {"lr": 0.01, "batch_size": 8},
    }  # fmt: skip
    config = tmp_path / "run.toml"
    config.write_text(write_toml(tables))
    whole, short, csv_file = tmp_path / "whole", tmp_path / "short", tmp_path / "said.csv"

    for command in (
        ("run", config, "--out", whole),
        ("run", config, "--out", short, "rounds=1"),
        ("resume", short, "rounds=3"),
        ("predict", whole, tmp_path / "data.npz", "--out", csv_file),
        ("export", whole, tmp_path / "exported"),
    ):
        finished = call(*command)
        assert finished.code == 0, finished.err

    assert read_summary(short)["params_sha256"] == read_summary(whole)["params_sha256"]
    shares = np.array([row[-4:] for row in list(csv.reader(csv_file.open()))[1:]], dtype=float)
    session = onnx.InferenceSession(tmp_path / "exported" / "model.onnx")
    _, said = session.run(None, {"x": np.load(tmp_path / "data.npz")["x"]})
    assert np.abs(said - shares).max() < 1e-5


def test_a_name_that_a_package_does_not_know_is_one_line(package: None, tmp_path: Path) -> None:
    write_data(tmp_path / "data.npz", False)
    tables = {"data": {"name": "arrays", "path": str(tmp_path / "data.npz")}, "model": {"name": "timm:nonet"}}
    (tmp_path / "run.toml").write_text(write_toml(tables))
    finished = call("run", tmp_path / "run.toml", "--out", tmp_path / "run")
    assert finished.code == 2
    assert (
        finished.err.strip()
        == "error: model 'timm:nonet' cannot be built: RuntimeError: Unknown model (nonet)"
    )
