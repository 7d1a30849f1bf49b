"""The part or method that somebody wants checked: by its name, in a module, or in a file that no package holds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from counterpoise.core.method import METHODS, PARTS, Method, MethodSpec, find_entry, method, part, read_spec
from counterpoise.core.part import Part
from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.registry.plugins import import_file
from counterpoise.system.toml import override

FORMS = "a name of `counterpoise ls`, 'package.module:name' or 'path/to/file.py:name'"


def read_part(text: str) -> MethodSpec:
    """A word, or ``{ word = { argument = value } }``; code that it names is imported and registered. Parts come on FedAvg."""
    given: Any = override({}, f"part={text}")["part"] if text.lstrip().startswith("{") else {text: {}}
    items = read_spec(given, "PART")
    if len(items) != 1:
        raise ConfigError(f"PART must be one part or method, not {len(items)}")
    name, arguments = items[0]
    name = _registered(name, arguments) if ":" in name else name
    find_entry(name)
    return {name: arguments} if name in METHODS else ["fedavg", {name: arguments}]


def _registered(place: str, arguments: Mapping[str, Any]) -> str:
    """The name under which the factory at this place is registered: its decorator's, else its own."""
    where, _, function = place.rpartition(":")
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    factory = getattr(module, function, None)
    for registry in (METHODS, PARTS):
        known = [name for name in registry.names() if registry.entry(name).factory is factory]
        if known:
            return known[0]
    if function in PARTS or function in METHODS:
        return function
    if not callable(factory):
        public = [
            name for name, value in vars(module).items() if callable(value) and not name.startswith("_")
        ]
        raise ConfigError(f"{where} has no function {short(function)}; {legal_words(function, public)}")
    return _register(function, factory, arguments)


def _register(name: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """A factory without a decorator: what it builds decides where it belongs."""
    try:
        built = factory(**arguments)
    except TypeError as error:
        raise ConfigError(f"{name} cannot be built: {error}") from error
    if not isinstance(built, Part | Method):
        raise ConfigError(f"{name} must return a Part or a Method, not {type(built).__name__}")
    (part(name) if isinstance(built, Part) else method(name))(factory)
    return name


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {short(path)}; PART must be {FORMS}")
    return _imported(str(path), lambda: import_file(path))


def _module(name: str) -> ModuleType:
    return _imported(name, lambda: importlib.import_module(name))


def _imported(name: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except ConfigError:
        raise
    except Exception as error:  # a module may raise anything when it is imported
        said = (str(error).strip().splitlines() or [""])[0]
        raise ConfigError(f"{short(name)} cannot be imported: {type(error).__name__}: {said}") from error
