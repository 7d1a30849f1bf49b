"""Methods that differ only in numbers, as one function of these numbers: so that their runs can train in one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from counterpoise.core.method import Method, MethodSpec, Spec, build_piece, compose, find_entry, read_spec
from counterpoise.core.tree import Tree
from counterpoise.errors import ConfigError

ON_THE_SERVER = ("server_lr",)  # each run's server goes by its own; clients do not know it


class Variants(NamedTuple):
    """Methods and parts by name with the arguments that all runs share, and the names of those in which they differ."""

    shared: Spec
    differing: Mapping[str, Sequence[str]]  # item -> its arguments

    def numbers(self, spec: Spec) -> dict[str, dict[str, float]]:
        """Item -> argument -> its value in one of the runs."""
        given = dict(spec)
        return {
            item: {name: float(_value(item, name, given[item])) for name in names}
            for item, names in self.differing.items()
        }

    def method(self, numbers: Mapping[str, Mapping[str, Tensor]], like: Method) -> Method:
        """The method with tensors in place of these numbers; whatever else `like` has stays."""
        pieces = [
            build_piece(item, {**shared, **numbers.get(item, {})}, True) for item, shared in self.shared
        ]
        fresh = {part.name: part for part in compose(*pieces).parts}
        return replace(like, parts=tuple(fresh.get(part.name, part) for part in like.parts))


def find_variants(specs: Sequence[Spec]) -> Variants:
    """In which numbers methods differ; a ConfigError where they differ in more."""
    first = specs[0]
    for other in specs[1:]:
        if skeleton(other) != skeleton(first):
            raise ConfigError("runs can be trained together only where their methods differ in numbers alone")
    differing = {
        item: [
            name
            for name in _numeric(item)
            if name not in ON_THE_SERVER
            and len({float(_value(item, name, dict(spec)[item])) for spec in specs}) > 1
        ]
        for item, _ in first
    }
    return Variants(first, {item: names for item, names in differing.items() if names})


def skeleton(spec: MethodSpec | Spec) -> list[Any]:
    """A method without the numbers in which the runs of one program may differ."""
    items = spec if isinstance(spec, tuple) else read_spec(spec)
    return [
        [item, {name: value for name, value in given.items() if name not in _numeric(item)}]
        for item, given in items
    ]


def as_tree(numbers: Mapping[str, Mapping[str, float]], like: Any) -> Tree:
    """The numbers as tensors."""
    return {item: {name: like(value) for name, value in own.items()} for item, own in numbers.items()}


def _numeric(item: str) -> list[str]:
    """Arguments of a method or part that are real numbers."""
    return [name for name, parameter in find_entry(item).parameters.items() if parameter.type is float]


def _value(item: str, name: str, given: Mapping[str, Any]) -> Any:
    return given[name] if name in given else find_entry(item).parameters[name].default
