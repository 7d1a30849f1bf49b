"""An exported model gives the answers of its run without this package, in ONNX and in plain PyTorch."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import assert_refused, call, tiny
from safetensors.torch import load_file, save_file
from sklearn.metrics import recall_score
from used_runs import Used, make_run

import counterpoise as cp
from counterpoise.core.rng import generator
from counterpoise.data.dataset import Scaling
from counterpoise.data.form import DataForm
from counterpoise.data.preprocessing import Preprocessing
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS, build_model
from counterpoise.run.runner import start
from counterpoise.run.trained import TrainedModel
from counterpoise.trained.card import model_card, plain, seeds_beside, wilson
from counterpoise.trained.export import FILES
from counterpoise.trained.onnx_file import write_onnx
from counterpoise.trained.predict import predict_file
from counterpoise.trained.program import source, trace

CLOSE = 1e-5


@pytest.fixture(scope="module")
def exported(table: Used, arrays: Used, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("exported")
    for name, used in (("table", table), ("arrays", arrays)):
        finished = call("export", used.run, folder / name)
        assert finished.code == 0, finished.err
        assert {Path(line).name for line in finished.out.splitlines()} == {*FILES}
    return {name: folder / name for name in ("table", "arrays")}


# Runs scripts of an export one after the other in a process that cannot import this package.
RUN_ALL = """
import os, runpy, sys
sys.modules["counterpoise"] = None
for given in sys.argv[1:]:
    folder, script, file = given.split("|")
    os.chdir(folder)
    sys.path[0], sys.argv = folder, [script, file]
    sys.modules.pop("model", None)
    print(">", folder, script)
    runpy.run_path(script)
"""
SCRIPTS = ("example_torch.py", "example_onnx.py")


@pytest.fixture(scope="module")
def printed(exported: dict[str, Path], table: Used, arrays: Used) -> dict[tuple[str, str], list[list[str]]]:
    """What each script prints of the test samples, as words, by the kind of data and its name."""
    files = {"table": table.test, "arrays": arrays.test}
    given = [f"{exported[kind]}|{script}|{files[kind]}" for kind in files for script in SCRIPTS]
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *given], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    texts = done.stdout.split("> ")[1:]
    keys = [(kind, script) for kind in files for script in SCRIPTS]
    return {
        key: [line.split() for line in text.splitlines()[1:]] for key, text in zip(keys, texts, strict=True)
    }


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", ["table", "arrays"])
def test_a_page_without_this_package_give_the_answers_of_the_run(
    kind: str,
    script: str,
    exported: dict[str, Path],
    printed: dict[tuple[str, str], list[list[str]]],
    request: pytest.FixtureRequest,
) -> None:
    used: Used = request.getfixturevalue(kind)
    said = predict_file(cp.load_run(used.run), used.test).said
    rows = printed[kind, script]
    assert [row[0] for row in rows] == said.labels
    shares = np.array([row[1:] for row in rows], dtype=float)
    assert np.abs(shares - said.probabilities.numpy()).max() < 1e-4  # four digits are printed
    text = (exported[kind] / script).read_text()
    assert sum(bool(line.strip()) for line in text.splitlines()[1:]) <= 33
    assert "counterpoise" not in text


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_page_runs_from_any_folder(
    script: str, exported: dict[str, Path], printed: dict[tuple[str, str], list[list[str]]], table: Used
) -> None:
    command = [sys.executable, str(exported["table"] / script), table.test.name]
    done = subprocess.run(command, cwd=table.test.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == printed["table", script]


def test_all_files_may_be_read_by_whom_the_umask_lets_read(exported: dict[str, Path]) -> None:
    """The constants were for their owner alone, so that whoever was given the model could not open it."""
    modes = {(exported["table"] / name).stat().st_mode for name in FILES}
    assert len(modes) == 1


@pytest.mark.parametrize("kind", ["table", "arrays"])
def test_onnx_and_plain_pytorch_agree(kind: str, exported: dict[str, Path]) -> None:
    """On raw inputs that nobody trained on: gaps, unseen words, and any pixels."""
    import onnxruntime

    rng = np.random.default_rng(3)
    how = json.loads((exported[kind] / "inputs.json").read_text())
    if kind == "table":
        numbers = rng.normal(50, 80, (40, len(how["numbers"])))
        numbers[rng.random(numbers.shape) < 0.2] = np.nan
        given = {"numbers": numbers, "codes": rng.integers(-1, 5, (40, len(how["words"])))}
    else:
        given = {"x": rng.integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)}
    load = load_module(exported[kind] / "model.py").load
    wanted = load()({name: torch.from_numpy(array) for name, array in given.items()})
    found = onnxruntime.InferenceSession(exported[kind] / "model.onnx").run(None, given)
    for ours, theirs in zip(wanted, found, strict=True):
        scale = max(1.0, float(ours.abs().max()))
        assert float((ours - torch.from_numpy(theirs)).abs().max()) <= CLOSE * scale


def test_the_weights_are_the_networks_state_dict(exported: dict[str, Path], arrays: Used) -> None:
    state = cp.load_run(arrays.run).module.model.state_dict()
    found = load_file(exported["arrays"] / "model.safetensors")
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], state[name]) for name in state)


@pytest.mark.faults
def test_a_convolutional_model_with_batch_statistics_and_a_frozen_head_is_exported(tmp_path: Path) -> None:
    """The graph of a deeper model, whose head is a fixed frame and whose buffers are running statistics."""
    import onnxruntime

    model = {"name": "resnet8", "norm": "batch", "width": 4, "head": "etf"}
    run = make_run(tmp_path / "run", {"name": "digits"}, rounds=1, model=model, local={"batch_size": 64})
    loaded = cp.load_run(run)
    assert call("export", run, tmp_path / "out").code == 0
    x = cp.load_data("digits").test.x[:50]
    _, shares = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx").run(None, {"x": x.numpy()})
    assert np.abs(shares - loaded.predict(x).probabilities.numpy()).max() <= CLOSE


@pytest.mark.faults
@pytest.mark.parametrize("name", MODELS.names())
def test_every_model_gives_its_answers_as_onnx_and_as_plain_pytorch(name: str, tmp_path: Path) -> None:
    """Raw numbers in, logits out, with a scaling in between; a batch of another size than the traced one."""
    import onnxruntime

    shape: tuple[int, ...] = MODELS.entry(name).facts.get("example", (1, 28, 28))
    module = build_model(name, MODELS.build(name), shape, 2)
    initialise(module, generator(0, "init"))
    form = DataForm(("a", "b"), shape, False, Scaling(torch.tensor(0.5), torch.tensor(0.1)))
    trained = TrainedModel(module.requires_grad_(False), Preprocessing(form, {}))
    program = trace(trained)
    write_onnx(program, tmp_path / "model.onnx")
    (tmp_path / "model.py").write_text(source(program))
    save_file(
        {key: leaf.contiguous() for key, leaf in module.state_dict().items()}, tmp_path / "model.safetensors"
    )
    save_file(program.constants, tmp_path / "constants.safetensors")
    x = torch.randn(7, *shape, generator=generator(1, "x"))
    wanted = trained(x)
    plain_torch, _ = load_module(tmp_path / "model.py").load()({"x": x})
    onnx, _ = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": x.numpy()})
    for found in (plain_torch, torch.from_numpy(onnx)):
        assert float((found - wanted).abs().max()) <= CLOSE * max(1.0, float(wanted.abs().max()))


def load_module(path: Path) -> Any:
    """A generated file as a module under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"exported_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_overwritten_and_nothing_is_left_half_done(table: Used, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert_refused(call("export", table.run, tmp_path / "full"), 2, "holds something already")
    assert_refused(call("export", tmp_path / "full", tmp_path / "new"), 2, "holds no run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_one_line_that_says_what_to_install(
    package: str, table: Used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert_refused(call("export", table.run, tmp_path / "out"), 2, package, "counterpoise[export]")
    assert not list(tmp_path.iterdir())


def test_the_card_says_what_it_must(exported: dict[str, Path], table: Used) -> None:
    text, run = (exported["table"] / "model-card.md").read_text(), cp.load_run(table.run)
    for words in (
        "## Data",
        "## Method",
        "## Scores",
        "## What the server learned",
        "## Limits",
        "imbalance: ",
    ):
        assert words in text
    assert f"{100 * run['balanced_accuracy']:.2f} %" in text
    assert run["params_sha256"] in text
    assert "One seed is known, so there is no deviation" in text
    counts = run.confusion().counts
    recalls = recall_score(*np.divmod(np.repeat(np.arange(9), counts.reshape(-1)), 3), average=None)
    for recall in recalls:
        assert f"{100 * recall:.1f} %" in text


def test_seeds_beside_a_run_give_deviations(tmp_path: Path) -> None:
    for seed in range(3):
        start(tiny(f"seed={seed}", "rounds=1"), tmp_path / f"seed{seed}")
    start(tiny("seed=7", "rounds=2"), tmp_path / "other")  # another problem
    start(tiny("seed=8", "rounds=1"), tmp_path / "below" / "seed8")  # the folder above may be a whole home
    run = cp.load_run(tmp_path / "seed1")
    assert [one.seed for one in seeds_beside(run.result)] == [0, 1, 2]
    text = model_card(run, {})
    values = [cp.load_run(tmp_path / f"seed{seed}")["accuracy"] for seed in range(3)]
    row = next(line for line in text.splitlines() if line.startswith("| Accuracy "))
    wanted = [run["accuracy"], float(np.mean(values)), float(np.std(values, ddof=1))]
    assert [float(cell.rstrip(" %")) for cell in row.strip("| ").split("|")[1:]] == [
        pytest.approx(100 * value, abs=0.006) for value in wanted
    ]


def test_wilsons_interval_is_that_of_the_books() -> None:
    """Newcombe, Statistics in Medicine 1998, table I, method 3: 81 of 263, and 0 of 20."""
    assert wilson(81, 263) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    assert wilson(0, 20) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.1611, abs=5e-5))


def test_a_hostile_name_stays_text_in_the_card() -> None:
    assert plain("<script>\n# [x](http://y)") == r"\<script\> \# \[x\](http://y)"
