"""A program as an ONNX file, checked against the program itself."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch

from counterpoise.errors import ConfigError, RunError
from counterpoise.trained.program import OUTPUTS, Program

CLOSE = 1e-4  # how far probabilities may be from those of the program


def need_onnx() -> None:
    """Refuse to begin where a package is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"export writes ONNX, which needs {error.name or 'onnx'}; install counterpoise[export]"
        ) from None


def write_onnx(program: Program, path: Path) -> None:
    """Write one file that holds the graph and its tensors."""
    with _quiet():
        try:
            made: Any = torch.onnx.export(
                program.traced,
                dynamo=True,
                input_names=list(program.inputs),
                output_names=list(OUTPUTS),
                verbose=False,
            )
            made.save(path, external_data=False)
        except Exception as error:  # whatever an exporter says of a graph that it cannot write
            words = next(iter(str(error).splitlines()), type(error).__name__)
            raise RunError(f"the model cannot be written as ONNX: {words}") from None
    _check(program, path)


def _check(program: Program, path: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        _, wanted = program.traced.module()(**program.inputs)
    _, found = session.run(None, {name: tensor.numpy() for name, tensor in program.inputs.items()})
    if not torch.allclose(torch.from_numpy(found), wanted, atol=CLOSE, rtol=0, equal_nan=True):
        raise RunError("the ONNX file does not give the model's answers; nothing was exported")


@contextmanager
def _quiet() -> Iterator[None]:
    """Exporters print, warn and log of packages that play no part here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as nothing, redirect_stdout(nothing):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
