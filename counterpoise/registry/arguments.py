"""What Python callers give, checked as a config is: against the signature of what takes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar

import numpy as np

from counterpoise.errors import ConfigError, legal_words, listed, short
from counterpoise.registry.registry import Entry, Interval, Parameter, read_parameters

Settings = TypeVar("Settings")
SEEDS = 2**63  # from 0 on
MAX_INFLUENCE = 10.0  # medians of a round that an update may be long
MOST_CLIENTS = 10_000_000  # of a partition
Seed = Annotated[int, Interval(0, SEEDS, open_high=True)]


def parameters_of(taker: Callable[..., Any]) -> dict[str, Parameter]:
    """What a function or a class takes by name; not the name under which it collects all others."""
    kinds = inspect.signature(taker).parameters
    found = read_parameters(taker).items()
    return {name: one for name, one in found if kinds[name].kind is not inspect.Parameter.VAR_KEYWORD}


def check_arguments(owner: str, taker: Callable[..., Any], **given: Any) -> list[Any]:
    """These values in their order, converted where that loses nothing, or a ConfigError that says what is legal."""
    parameters = parameters_of(taker)
    return [parameters[name].check(owner, _plain(value)) for name, value in given.items()]


def read_settings(form: type[Settings], given: Any, owner: str, word: str = "") -> Settings:
    """Settings as they are, or made from a dict of their fields, or from the field `word` alone; None: all defaults."""
    if isinstance(given, form):
        check_arguments(owner, form, **vars(given))
        return given
    if given is not None and word and not isinstance(given, Mapping):
        given = {word: given}
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"{owner} = {short(given)} is not legal; legal: {form.__name__}(...), or a dict of {listed([*parameters_of(form)])}"
        )
    return Entry(owner, form).build({name: _plain(value) for name, value in (given or {}).items()})


def refuse_unknown(
    owner: str, given: Iterable[str], legal: Iterable[str], homes: Mapping[str, type[Any]]
) -> None:
    """No argument but the legal ones; one that a home takes, such as `lr` of `local`, is shown the way."""
    known = {*legal}
    for key in given:
        if key not in known:
            home = next((name for name, form in homes.items() if key in parameters_of(form)), None)
            way = f"legal: {home}={{{short(key)}: ...}}" if home else legal_words(key, known)
            raise ConfigError(f"{owner}: no argument {short(key)}; {way}")


def _plain(value: Any) -> Any:
    """A NumPy scalar, as loops over arrays give it, as the number it is."""
    return value.item() if isinstance(value, np.generic) else value
