"""A run as a folder that needs nothing of this package: weights, ONNX, plain PyTorch, inputs as JSON, a model card."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from safetensors.torch import save

from counterpoise.errors import ConfigError
from counterpoise.run.store.folder import RunFolder
from counterpoise.trained.card import model_card
from counterpoise.trained.examples import how_json, onnx_example, torch_example
from counterpoise.trained.load import LoadedRun
from counterpoise.trained.onnx_file import need_onnx, write_onnx
from counterpoise.trained.program import source, trace

FILES = {
    "model.onnx": "the model for onnxruntime; takes raw inputs: scaling, standardising and one-hot words are in it",
    "model.safetensors": "the network's state_dict",
    "constants.safetensors": "tensors of the scaling and the encoder, which `model.py` reads",
    "model.py": "the same model as plain PyTorch operations",
    "inputs.json": "names of classes, and the threshold where the run chose one; of a table the columns, words and statistics; else shape and scaling",
    "example_torch.py": "answers for a file by torch and safetensors",
    "example_onnx.py": "answers for a file by onnxruntime and NumPy",
    "model-card.md": "this card",
}


def export_run(run: LoadedRun, folder: Path) -> list[Path]:
    """Write the folder, whole or not at all; it must be new or empty. Returns the files."""
    need_onnx()
    _check_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(run, part)
        if folder.exists():
            folder.rmdir()  # it is empty
        part.chmod(0o777 & ~_umask())
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [folder / name for name in FILES]


def _write(run: LoadedRun, folder: Path) -> None:
    how, decision, program = run.preprocessing, run.decision, trace(run.module)
    write_onnx(program, folder / "model.onnx")
    shutil.copyfile(RunFolder(run.path).model, folder / "model.safetensors")
    (folder / "constants.safetensors").write_bytes(save(program.constants))
    texts = {
        "model.py": source(program),
        "inputs.json": json.dumps(how_json(how, decision), indent=1) + "\n",
        "example_torch.py": torch_example(how, decision),
        "example_onnx.py": onnx_example(how, decision),
        "model-card.md": model_card(run, FILES),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode(errors="backslashreplace"))


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} holds something already; name a new folder, since nothing is overwritten"
        )


def _umask() -> int:
    """The bits that new files of this process lack; they can only be read by setting them."""
    found = os.umask(0)
    os.umask(found)
    return found
