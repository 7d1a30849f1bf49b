"""Hooks that are checked as they are called: a mistake of a part's author is one line with the part's and the hook's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from counterpoise.core.answers import FORMS, weights_fault
from counterpoise.core.method import Method
from counterpoise.core.part import Part
from counterpoise.core.unchanged import first_changed, hold
from counterpoise.errors import HookError, is_out_of_memory

# What code that is wrong raises; what a network or a file raises is nobody's mistake here.
MISTAKES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def checked(method: Method, exact: bool = False) -> Method:
    """The method with hooks that tell their mistakes; `exact` copies what they are given, and so misses no change in place."""
    return replace(method, parts=tuple(_checked_part(part, exact) for part in method.parts))


def check_weights(part: Part, weights: Tensor, count: int) -> None:
    """Refuse weights [K] that are no shares of a mean: nearly free, so that every round is checked."""
    if fault := weights_fault(weights, count, part.extrapolates):
        raise HookError(f"{part.name}.weigh must return {fault}")


def _checked_part(part: Part, exact: bool) -> Part:
    hooks: dict[str, Any] = {name: _checked_hook(part, name, exact) for name in part.hooks() if name in FORMS}
    return replace(part, **hooks)


def _checked_hook(part: Part, name: str, exact: bool) -> Callable[..., Any]:
    hook, form, title = getattr(part, name), FORMS[name], f"{part.name}.{name}"

    def called(*given: Any) -> Any:
        before = hold(form.given, given, exact)
        try:
            answer = hook(*given)
        except MISTAKES as error:
            if is_out_of_memory(error):
                raise
            raise _told(title, error) from error
        if changed := first_changed(before):
            raise _in_place(title, changed)
        if fault := form.fault(given, answer):
            raise HookError(f"{title} must return {fault}")
        return answer

    return called


def _told(title: str, error: Exception) -> HookError:
    said = str(error).strip().splitlines()
    if said and "in-place operation" in said[0]:  # torch itself refuses it where it needs gradients
        return _in_place(title, "what it was given")
    return HookError(f"{title} fails: {type(error).__name__}{f': {said[0]}' if said else ''}")


def _in_place(title: str, what: str) -> HookError:
    return HookError(
        f"{title} changes {what} in place; a hook must return new values and leave what it was given"
    )
