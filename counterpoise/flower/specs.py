"""The names, shapes and types of a reply, found by training a dummy client in the server's process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from counterpoise.client.measure import measure
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.part import Measurement
from counterpoise.core.tree import Tree, flatten, unflatten
from counterpoise.engines.loop import train_task
from counterpoise.engines.rehearsal import with_dummy
from counterpoise.engines.service import first_memory, survey, tally
from counterpoise.engines.sums import numbers_of
from counterpoise.engines.workplace import Workplace
from counterpoise.flower.refusal import Refused
from counterpoise.privacy.layout import Layout

TreeSpec = Mapping[str, tuple[torch.Size, torch.dtype]]  # path -> shape and type

LARGEST = 1e30  # above it sums of squares overflow float32


def spec_of(tree: Tree) -> TreeSpec:
    return {path: (leaf.shape, leaf.dtype) for path, leaf in flatten(tree).items()}


def zeros_of(form: TreeSpec) -> Tree:
    """A tree of zeros with this form."""
    return unflatten({path: torch.zeros(shape, dtype=dtype) for path, (shape, dtype) in form.items()})


def check_spec(tree: Tree, form: TreeSpec) -> None:
    """Refuse a tree that is not of this form, or whose numbers are not usable."""
    found = flatten(tree)
    if set(found) != set(form):
        raise Refused("names")
    for path, leaf in found.items():
        shape, dtype = form[path]
        if leaf.dtype != dtype:
            raise Refused("dtype")
        if leaf.shape != shape:
            raise Refused("shape")
        if not bool(torch.isfinite(leaf).all()):
            raise Refused("finite")
        if leaf.is_floating_point() and leaf.numel() and float(leaf.abs().max()) > LARGEST:
            raise Refused("range")


def reply_spec(work: Workplace, task: Task, broadcast: Broadcast) -> TreeSpec:
    """The form of an answer to this task."""
    dummy = with_dummy(work)
    result = train_task(
        dummy, replace(task, client=0), first_memory(work, broadcast.params, broadcast.buffers), broadcast
    )
    return spec_of(result.reply_tree())


def survey_spec(work: Workplace) -> TreeSpec:
    """The form of what a client says in its hello: surveys, and tallies where they are not hidden."""
    invented = with_dummy(work)
    return spec_of(survey(invented, 0) | ({} if work.privacy.in_messages else tally(invented, 0)))


def sum_layout(work: Workplace, what: str) -> Layout:
    """The form of what is added up over clients."""
    return Layout.of(numbers_of(with_dummy(work), 0, what))


def sums_spec(work: Workplace, params: Tree, buffers: Tree, measurement: Measurement) -> TreeSpec:
    """The form of a measurement of one model."""
    federation = with_dummy(work).federation
    return spec_of(measure(work.model, params, buffers, federation.test, federation.scaling, measurement))
