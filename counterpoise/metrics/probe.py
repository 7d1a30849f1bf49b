"""What a probe is: it looks at the scored model in every evaluated round, and gives numbers by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeAlias

from torch import Tensor, nn

from counterpoise.core.method import build_named
from counterpoise.core.part import Batch, Outputs
from counterpoise.errors import ConfigError, short
from counterpoise.registry.registry import Registry, naming
from counterpoise.registry.schema import Named

Numbers: TypeAlias = Mapping[str, float | None]  # None: there is no such number in this round


class View(NamedTuple):
    """What a probe may use. The module is a copy of its own, so that it may put hooks there."""

    module: nn.Module  # in evaluation mode
    outputs: Callable[[Tensor], Outputs]  # inputs of a batch -> what this module says when it is scored
    batches: Callable[[], Iterator[Batch]]  # samples of the server, scaled, in the same order every time


@dataclass(frozen=True)
class Probe:
    """A look at a model, which gives the same names in every round; one called `mean` is compared over methods."""

    look: Callable[[View], Numbers]
    title: str = ""  # above its chart; by default its name
    name: str = ""  # that of its factory, if the decorator `probe` registered it


PROBES: Registry[Probe] = Registry("probe", ["counterpoise.metrics"])
ProbeSpec: TypeAlias = Named | Probe
Arguments = ParamSpec("Arguments")


def probe(name: str = "", **facts: Any) -> Callable[[Callable[Arguments, Probe]], Callable[Arguments, Probe]]:
    """Decorator: register a factory of probes, by default under its own name, which its probes then have."""
    return naming(PROBES, name, **facts)


def build_probes(specs: Sequence[ProbeSpec]) -> tuple[Probe, ...]:
    """The probes that a config lists; rows hold their numbers by name, so none may be there twice."""
    if isinstance(specs, str | Mapping) or not isinstance(specs, Sequence):
        raise ConfigError(f"{PROBES.place.key} must be a list of names, not {short(specs)}")
    probes = tuple(spec if isinstance(spec, Probe) else build_named(PROBES, spec) for spec in specs)
    names = [one.name for one in probes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{PROBES.place.key}: {short(twice)} is listed twice; keep one of the two")
    return probes
