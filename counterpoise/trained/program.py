"""A trained model as one program that takes raw inputs, and that program as a file of plain PyTorch operations.

`torch.export.save` keeps example inputs and weights by `torch.save`, which is pickle; so the graph is written as source text,
and its tensors as safetensors.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from counterpoise.client.functional import scored_outputs
from counterpoise.data.tables.encoder import Encoder
from counterpoise.errors import RunError
from counterpoise.models.heads import has_features
from counterpoise.run.trained import TrainedModel

OUTPUTS = ("logits", "probabilities")
SAMPLES = 2  # of the example, whose number any other may replace
ASSERTED = torch.ops.aten._assert_tensor_metadata.default  # checks of the tracer, not of the model
FORGET = re.compile(r";  (\w+ = )+None$", re.MULTILINE)
NEEDED = {"device": "from torch import device", "inf": "from math import inf", "nan": "from math import nan"}


class Program(NamedTuple):
    """A traced model: what it takes, as examples by name, and its tensors that are not the network's."""

    traced: Any  # torch.export.ExportedProgram
    inputs: dict[str, Tensor]
    weights: dict[str, str]  # argument -> tensor of the network's state_dict
    constants: dict[str, Tensor]  # argument -> tensor


class Pixels(nn.Module):
    """Raw pixels or numbers to logits and probabilities."""

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__()
        self.model, self.split = trained.model, has_features(trained.model)
        self.scale, self.shift = nn.Buffer(trained.scale), nn.Buffer(trained.shift)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return _outputs(self.model, x.to(self.scale.dtype) * self.scale + self.shift, self.split)


class Rows(nn.Module):
    """Numbers with NaN for gaps, and for each column of words the place of the word (-1: none), to logits and probabilities."""

    def __init__(self, trained: TrainedModel, encoder: Encoder) -> None:
        super().__init__()
        self.model, self.split, self.dtype = trained.model, has_features(trained.model), trained.scale.dtype
        numbers = list(encoder.numbers.values())
        for name in ("centre", "gap", "mean", "deviation"):
            values = [getattr(number, name) for number in numbers]
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        flagged = [place for place, number in enumerate(numbers) if number.flagged]
        widths = [len(kinds) for kinds in encoder.words.values()]
        self.flagged = nn.Buffer(torch.tensor(flagged, dtype=torch.int64))
        self.column = nn.Buffer(
            torch.arange(len(widths)).repeat_interleave(torch.tensor(widths, dtype=torch.int64))
        )
        self.place = nn.Buffer(
            torch.tensor([place for width in widths for place in range(width)], dtype=torch.int64)
        )

    def forward(self, numbers: Tensor | None = None, codes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        parts = [*self._numbers(numbers), *self._words(codes)]
        return _outputs(self.model, torch.cat(parts, 1).to(self.dtype), self.split)

    def _numbers(self, numbers: Tensor | None) -> list[Tensor]:
        if numbers is None:
            return []
        centred = numbers - self.get_buffer("centre")
        filled = torch.where(torch.isnan(centred), self.get_buffer("gap"), centred)
        scaled = (filled - self.get_buffer("mean")) / self.get_buffer("deviation")
        flags = torch.isnan(numbers).index_select(1, self.flagged)
        return [scaled.float(), *([flags.float()] if len(self.flagged) else [])]

    def _words(self, codes: Tensor | None) -> list[Tensor]:
        return [] if codes is None else [(codes.index_select(1, self.column) == self.place).float()]


def _outputs(model: nn.Module, x: Tensor, split: bool) -> tuple[Tensor, Tensor]:
    logits = scored_outputs(model, x, split).logits
    return logits, logits.softmax(1)


def trace(trained: TrainedModel) -> Program:
    """The program of a trained model, for any number of samples."""
    form = trained.how.form
    module = Pixels(trained) if form.columns is None else Rows(trained, form.columns)
    inputs = _example(trained)
    batch = torch.export.Dim("batch", min=1)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            traced = torch.export.export(
                module.eval(), (), inputs, dynamic_shapes={name: {0: batch} for name in inputs}
            )
        except Exception as error:  # whatever a tracer says of a model that it cannot follow
            words = next(iter(str(error).splitlines()), type(error).__name__)
            raise RunError(f"the model cannot be traced for export: {words}") from None
    return Program(traced, inputs, *_tensors(traced))


def _example(trained: TrainedModel) -> dict[str, Tensor]:
    form = trained.how.form
    if form.columns is None:
        return {"x": torch.ones(SAMPLES, *form.shape, dtype=form.kind)}
    numbers, words = len(form.columns.numbers), len(form.columns.words)
    given = {
        "numbers": torch.ones(SAMPLES, numbers, dtype=torch.float64),
        "codes": torch.zeros(SAMPLES, words, dtype=torch.int64),
    }
    return {name: example for name, example in given.items() if example.shape[1]}


def _tensors(traced: Any) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Arguments of the graph that are tensors: those of the network by their name there, and all others."""
    weights, constants = {}, {}
    known = {**traced.state_dict, **traced.constants}
    for spec in traced.graph_signature.input_specs:
        if spec.target is None:
            continue
        if spec.target.startswith("model."):
            weights[spec.arg.name] = spec.target.removeprefix("model.")
        else:
            constants[spec.arg.name] = known[spec.target].detach().clone().contiguous()
    return weights, constants


def source(program: Program) -> str:
    """The program as a Python file that needs torch and safetensors alone."""
    graph = program.traced.graph_module.graph
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(graph, {}))
    for node in list(copied.nodes):
        if node.target is ASSERTED:
            copied.erase_node(node)
    written = copied.python_code("self")
    body = FORGET.sub("", written.src).strip().replace("forward(self, ", "forward(", 1)
    imports = [line for name, line in NEEDED.items() if re.search(rf"\b{name}\b", body)]
    names = "\n".join(f"    {argument!r}: {name!r}," for argument, name in program.weights.items())
    return HEAD.format(imports="\n".join(imports), names=names) + body + "\n" + TAIL


HEAD = '''"""The trained model as plain PyTorch operations, written by counterpoise; weights are in model.safetensors.

model = load(); logits, probabilities = model({{name: tensor}})
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
{imports}

WEIGHTS = {{  # argument -> name in model.safetensors
{names}
}}


'''
TAIL = '''

def load(folder=Path(__file__).parent):
    """A function from inputs by name to logits and probabilities; raw inputs, since the scaling is in it."""
    weights, constants = load_file(folder / "model.safetensors"), load_file(folder / "constants.safetensors")
    given = {argument: weights[name] for argument, name in WEIGHTS.items()} | constants
    return lambda inputs: forward(**given, **inputs)
'''
