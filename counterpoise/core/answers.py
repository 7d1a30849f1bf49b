"""What each hook must give back: a fault is told in words that follow "must return"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from counterpoise.core.messages import Task
from counterpoise.core.part import ClientData, Gradient, Outputs
from counterpoise.core.tree import Tree
from counterpoise.errors import listed, short

PER_SAMPLE = "one value per sample"
TREE = "a tree (a dict of tensors)"
SUM_TOLERANCE = 1e-4  # weights may be float32, and many
# given, returned -> what is needed and what came; or ""
Fault: TypeAlias = Callable[[Sequence[Any], Any], str]


class Form(NamedTuple):
    """A hook's arguments as errors name them, and what is wrong with what it returned."""

    given: tuple[str, ...]
    fault: Fault


def kind(value: object) -> str:
    """A returned value as errors name it."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _tree(value: Any, what: str = TREE) -> str:
    """A nested dict of tensors under words."""
    if not isinstance(value, dict):
        return f"{what}, not {kind(value)}"
    for name, one in value.items():
        if not isinstance(name, str):
            return f"{what} under words, not under {short(name)}"
        fault = "" if isinstance(one, Tensor) else f"{what}, not {kind(one)} at {short(name)}"
        if fault and (not isinstance(one, dict) or (fault := _tree(one, what))):
            return fault
    return ""


def _like(value: Any, model: Tree, what: str) -> str:
    """A tree with the names, shapes and types of another one."""
    if fault := _tree(value, f"{what} as a dict of tensors"):
        return fault
    if value.keys() != model.keys():
        missing, extra = sorted(model.keys() - value.keys()), sorted(value.keys() - model.keys())
        lacks = f"without {listed(missing)}" if missing else f"with {listed(extra)}"
        return f"{what} under the names it was given, not {lacks}"
    for name, one in sorted(value.items()):  # the same first fault in every engine
        other = model[name]
        if isinstance(other, dict) or isinstance(one, dict):
            fault = _like(one, other, what) if isinstance(other, dict) else f"{what} with a tensor at {name}"
        else:
            fault = (
                "" if _form(one) == _form(other) else f"{what} with {kind(other)} at {name}, not {kind(one)}"
            )
        if fault:
            return fault
    return ""


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype


def _per_sample(given: Sequence[Any], value: Any, also_one: bool = False) -> str:
    size = given[1].y.shape[0]
    shapes = [(size,), ()] if also_one else [(size,)]
    if isinstance(value, Tensor) and value.is_floating_point() and tuple(value.shape) in shapes:
        return ""
    return f"{PER_SAMPLE} [{size}]{', or one number [] for the whole batch' if also_one else ''}, not {kind(value)}"


def _pair(value: Any, words: str, first: Callable[[Any], str], second: Callable[[Any], str]) -> str:
    """Two values; a part that returns only one of them is the usual mistake."""
    if not isinstance(value, tuple) or len(value) != 2:
        return f"two values, {words}, not {kind(value)}"
    return first(value[0]) or second(value[1])


def _slot_like(slot: Tree) -> Callable[[Any], str]:
    """The step slot of a client keeps its names and shapes: clients are stacked, and steps replayed."""
    return lambda value: _like(value, slot, "its slot")


def _data(value: Any) -> str:
    if not isinstance(value, ClientData):
        return f"the client's data (ClientData), not {kind(value)}"
    rows, labels = value.rows, value.labels
    if not isinstance(rows, Tensor) or not isinstance(labels, Tensor) or rows.dim() != 1:
        return f"rows [n] and labels [n], not {kind(rows)} and {kind(labels)}"
    return "" if rows.shape == labels.shape else f"as many labels as rows, not {len(labels)} for {len(rows)}"


def _tasks(given: Sequence[Any], value: Any) -> str:
    if not isinstance(value, Sequence):
        return f"a list of tasks, not {kind(value)}"
    return next((f"a list of tasks, not of {kind(one)}" for one in value if not isinstance(one, Task)), "")


def _gradient(given: Sequence[Any], value: Any) -> str:
    slot, step = given

    def sound(found: Any) -> str:
        if not isinstance(found, Gradient):
            return f"a Gradient, not {kind(found)}"
        fault = "" if isinstance(found.loss, Tensor) and not found.loss.dim() else kind(found.loss)
        if fault:
            return f"a Gradient with a loss [], not {fault}"
        outputs: Any = found.outputs
        if not isinstance(outputs, Outputs):
            return f"a Gradient with the outputs of its pass (Outputs), not {kind(outputs)}"
        return _like(found.grads, step.params, "gradients")

    return _pair(value, "a Gradient and its slot", sound, _slot_like(slot))


def _finish(given: Sequence[Any], value: Any) -> str:
    def memory(kept: Any) -> str:
        return _like(kept, given[2], "its memory") if kept and given[2] else _tree(kept)

    return _pair(value, "what it uploads and its memory", lambda sent: _tree(sent, "what it uploads"), memory)


def _rows(given: Sequence[Any], value: Any) -> str:
    def whole(rows: Any) -> str:
        good = isinstance(rows, Tensor) and rows.dim() == 1 and not rows.is_floating_point()
        return "" if good else f"rows [K] of the replies to use, not {kind(rows)}"

    return _pair(value, "rows and its slot", whole, _tree)


def weights_fault(weights: Any, count: int, extrapolates: bool) -> str:
    """Shares of a mean; a rule that extrapolates may have negative ones, but they too add up to 1."""
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or tuple(weights.shape) != (count,):
        return f"weights [{count}], one per reply, not {kind(weights)}"
    least, total = (float(weights.min()), float(weights.sum())) if count else (0.0, 1.0)
    if not math.isfinite(total):
        return f"finite weights, not {short(weights.tolist())}"
    if least < 0 and not extrapolates:
        return f"weights of 0 or more, not {least:.4g} (a rule that means it says extrapolates = True)"
    return "" if abs(total - 1) <= SUM_TOLERANCE else f"weights that sum to 1, not to {total:.6g}"


def _weigh(given: Sequence[Any], value: Any) -> str:
    """Of the weights themselves every round is checked, by `weights_fault`."""
    return _pair(value, "weights and its slot", lambda weights: "", _tree)


def _model(given: Sequence[Any], value: Any) -> str:
    params, buffers = given[:2]
    return _pair(
        value,
        "parameters and buffers",
        lambda found: _like(found, params, "parameters"),
        lambda found: _like(found, buffers, "buffers"),
    )


def _a_tree(given: Sequence[Any], value: Any) -> str:
    return _tree(value)


FORMS: Mapping[str, Form] = {
    "survey": Form(("the client's data",), _a_tree),
    "tally": Form(("the client's data",), _a_tree),
    "init": Form(("the parameters", "the census", "what clients said"), _a_tree),
    "enroll": Form(("the parameters", "the buffers"), _a_tree),
    "send": Form(("its slot",), _a_tree),
    "propose": Form(("its slot", "the round", "the cohort"), _tasks),
    "observe": Form(("the client's data", "the visit"), _a_tree),
    "prepare": Form(
        ("the client's data", "the visit"), lambda g, v: _pair(v, "data and its memory", _data, _tree)
    ),
    "start": Form(("the parameters", "what is shared", "its memory", "the stats"), _a_tree),
    "loss": Form(("the outputs", "the batch", "its slot"), _per_sample),
    "weight": Form(("the outputs", "the batch", "its slot"), _per_sample),
    "penalty": Form(("the outputs", "the batch", "its slot"), lambda g, v: _per_sample(g, v, also_one=True)),
    "gradient": Form(("its slot", "the step"), _gradient),
    "adjust": Form(
        ("the gradients", "its slot", "the step"),
        lambda g, v: _pair(
            v, "gradients and its slot", lambda d: _like(d, g[0], "gradients"), _slot_like(g[1])
        ),
    ),
    "finish": Form(("the delta", "its slot", "its memory", "the stats"), _finish),
    "choose": Form(("its slot", "the replies"), _rows),
    "weigh": Form(("the weights", "its slot", "the exchange"), _weigh),
    "treat": Form(("the deltas", "its slot", "the exchange"), lambda g, v: _like(v, g[0], "deltas")),
    "update": Form(
        ("the delta", "its slot", "the exchange"),
        lambda g, v: _pair(v, "a delta and its slot", lambda d: _like(d, g[0], "a delta"), _tree),
    ),
    "present": Form(("the parameters", "the buffers", "its slot"), _model),
    "own": Form(("the parameters", "the buffers", "its memory"), _model),
}
