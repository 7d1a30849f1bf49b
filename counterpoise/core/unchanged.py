"""Whether a function left alone what it was given: the numbers of tensors, the keys of trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor


class Held(NamedTuple):
    """A tensor or a container as it was handed over."""

    path: str  # how an error names it
    value: Any
    mark: Any  # what a change in place changes: a tensor's version, a container's contents
    copy: Tensor | None  # of a tensor, where its numbers are compared too


def hold(names: Sequence[str], given: Sequence[Any], exact: bool = False) -> list[Held]:
    """All tensors and containers in what is given.

    Tensors count their changes in place, so that nothing is copied; `exact` copies, and so also notices writes
    that go around that count, through `.data` or numpy.
    """
    return [held for name, value in zip(names, given, strict=False) for held in _walk(name, value, exact)]


def first_changed(held: Sequence[Held]) -> str | None:
    """The path of the first thing that is no longer as it was; None where all is."""
    return next((one.path for one in held if _is_changed(one)), None)


def _walk(path: str, value: Any, exact: bool) -> Iterator[Held]:
    if isinstance(value, Tensor):
        yield Held(path, value, _mark(value), value.detach().clone() if exact else None)
    elif isinstance(value, dict | list | tuple):
        yield Held(path, value, _mark(value), None)
        for name, one in _items(value):
            yield from _walk(f"{path}.{name}", one, exact)


def _items(value: dict[str, Any] | list[Any] | tuple[Any, ...]) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):  # in order of names: that of their arrival is another one in every engine
        return sorted(value.items(), key=lambda item: str(item[0]))
    return list(zip(getattr(value, "_fields", range(len(value))), value, strict=True))


def _mark(value: Any) -> Any:
    if isinstance(value, Tensor):
        return 0 if value.is_inference() else value._version
    return [(name, id(one)) for name, one in _items(value)]


def _is_changed(held: Held) -> bool:
    if _mark(held.value) != held.mark:
        return True
    return held.copy is not None and not _equal(held.value, held.copy)


def _equal(value: Tensor, copy: Tensor) -> bool:
    """Bit for bit, but for the sign of 0; NaN equals NaN."""
    if value.shape != copy.shape or value.dtype != copy.dtype:
        return False
    same = value == copy
    return bool((same | (value.isnan() & copy.isnan()) if value.is_floating_point() else same).all())
