"""A factory says in words what it takes, refuses what it does not, and says what the server learns of clients."""

from __future__ import annotations

import inspect
import math
from typing import Any, get_args

from counterpoise.contracts.contract import ContractError
from counterpoise.contracts.small import simulate
from counterpoise.core.method import MethodSpec, build_method, find_entry, read_spec
from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Entry
from counterpoise.registry.schema import Interval
from counterpoise.registry.settings import Parameter
from counterpoise.server.round import announce

TOLD = {"survey": "survey", "tally": "tally", "finish": "upload"}  # hook -> where a part tells of it
CODE = ("typing.", "<class", "Annotated", "counterpoise.")  # in what should be words


def factory_has_words(spec: MethodSpec) -> None:
    """Of every factory that a spec names: its rule, and each argument's type, default and bounds."""
    for name, _ in read_spec(spec):
        entry = find_entry(name)
        rule_is_told(entry)
        unknown_argument_is_refused(entry)
        for parameter in entry.parameters.values():
            argument_has_words(entry, parameter)


def rule_is_told(entry: Entry[Any]) -> None:
    if not entry.factory.__doc__ or not entry.summary.strip():
        raise ContractError(f"{entry.name} has no docstring: its first line is the rule that `ls` prints")


def unknown_argument_is_refused(entry: Entry[Any]) -> None:
    try:
        entry.build({"nonsense": 1})
    except ConfigError as error:
        if "no argument 'nonsense'" in str(error) and all(name in str(error) for name in entry.parameters):
            return
    raise ContractError(f"{entry.name} takes an argument that it does not have")


def argument_has_words(entry: Entry[Any], parameter: Parameter) -> None:
    """Its type in words, a legal default, and every word that it offers builds."""
    place = f"{entry.name}: {parameter.name}"
    if parameter.type is Any or not parameter.legal or any(code in parameter.legal for code in CODE):
        raise ContractError(f"{place} has no type that can be told in words, such as Positive")
    default = parameter.default
    if default is not inspect.Parameter.empty and parameter.check(entry.name, default) != default:
        raise ContractError(f"{place} has a default that it refuses")
    for choice in get_args(parameter.type) if isinstance(default, str) else ():
        entry.build({parameter.name: choice})


def outside(interval: Interval) -> list[float]:
    """Numbers that an interval excludes, next to each of its bounds."""
    low = [interval.low if interval.open_low else interval.low - 1] if interval.low > -math.inf else []
    high = [interval.high if interval.open_high else interval.high + 1] if interval.high < math.inf else []
    return [*low, *high, math.nan]


def revealing_has_words(spec: MethodSpec) -> None:
    """A part has words for what it asks before round 0 and for what it uploads, and no others."""
    for part in build_method(spec).parts:
        for hook, key in TOLD.items():
            words = getattr(part.reveals, key)
            if (getattr(part, hook) is not None) != bool(words):
                says = "says, without such a hook," if words else "does not say"
                raise ContractError(
                    f"{part.name} {says} what the server learns by `{hook}`: reveals=Reveals({key}=...)"
                )


def uploads_are_told(spec: MethodSpec) -> None:
    """Of the only round, which is also the last one, where some parts ask for more."""
    sim = simulate(spec, rounds=1)
    state = sim.open()
    replies = sim.engine.train(sim.tasks(state), announce(sim.method, state, 0.1))
    uploads = {name for name, tree in replies.upload.items() if tree}
    said = {part.name for part in sim.method.parts if part.reveals.upload not in ("", "nothing")}
    for name in sorted(uploads ^ said):
        words = "uploads something" if name in uploads else "uploads nothing"
        raise ContractError(f"{name} {words}, which is not what reveals.upload says")
