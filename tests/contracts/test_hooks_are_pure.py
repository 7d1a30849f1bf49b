"""No hook changes what it is given: neither the numbers of a tensor nor the keys of a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import every_spec, run_rounds, simulate, spec_name
from torch import Tensor

from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.core.part import Part, Step
from counterpoise.core.tree import Params, Tree


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copy(v) for key, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, tuple | list) else value


def _same(value: Any, copy: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape == copy.shape and value.dtype == copy.dtype and bool((value == copy).all())
    if isinstance(value, dict):
        return value.keys() == copy.keys() and all(_same(value[key], copy[key]) for key in value)
    if isinstance(value, tuple | list):
        return len(value) == len(copy) and all(_same(v, c) for v, c in zip(value, copy, strict=True))
    return bool(value == copy) if isinstance(value, int | float | str) else True


def _guard(part: Part) -> Part:
    """The part with hooks that fail where they change what they are given; ``adapt`` may change its module."""
    return replace(part, **{name: _guarded(part, name) for name in part.hooks() if name != "adapt"})  # type: ignore[arg-type]


def _guarded(part: Part, name: str) -> Callable[..., Any]:
    hook = getattr(part, name)

    def checked(*given: Any) -> Any:
        copies = _copy(given)
        answer = hook(*given)
        assert _same(given, copies), f"{part.name}.{name} changed what it was given"
        return answer

    return checked


def _guarded_method(spec: MethodSpec) -> Method:
    method = build_method(spec)
    return replace(method, parts=tuple(_guard(part) for part in method.parts))


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_no_hook_changes_its_input(spec: MethodSpec) -> None:
    run_rounds(simulate(_guarded_method(spec), rounds=2))


def test_the_guard_notices_a_hook_that_works_in_place() -> None:
    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return {name: g.mul_(2) for name, g in grads.items()}, slot

    method = Method((_guard(Part("careless", adjust=adjust)),))
    with pytest.raises(AssertionError, match=r"careless\.adjust changed what it was given"):
        run_rounds(simulate(method, rounds=1))


def test_the_guard_notices_a_new_key() -> None:
    def send(slot: Tree, round: int) -> Tree:
        slot["round"] = torch.tensor(round)
        return slot

    with pytest.raises(AssertionError, match=r"careless\.send changed what it was given"):
        run_rounds(simulate(Method((_guard(Part("careless", send=send)),)), rounds=1))


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_round_leaves_the_state_before_it_untouched(spec: MethodSpec) -> None:
    sim = simulate(spec, rounds=2)
    before = run_rounds(sim, rounds=1)
    kept = _copy({"params": before.params, "buffers": before.buffers, "slots": before.slots})
    sim.advance(before)
    assert _same({"params": before.params, "buffers": before.buffers, "slots": before.slots}, kept)
