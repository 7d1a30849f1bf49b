"""A method is a tuple of parts and a rule for the clients' weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, ParamSpec, TypeAlias

from torch import nn

from counterpoise.core.combinations import check_combination, filling, marked
from counterpoise.core.part import Part
from counterpoise.errors import SHOWN_CHARACTERS, ConfigError, CounterpoiseError, HookError, short, shorten
from counterpoise.registry.plugins import FILES
from counterpoise.registry.registry import (
    Entry,
    Factory,
    Place,
    Registry,
    check_called,
    naming,
    unknown_name,
)
from counterpoise.registry.schema import LARGEST

Weighting: TypeAlias = Literal["samples", "uniform"]
# Methods and parts in order, with their arguments
Spec: TypeAlias = tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Method:
    """Parts in the order in which their chains act; refused where they do not go together (combinations.py)."""

    parts: tuple[Part, ...] = ()
    weighting: Weighting = "samples"
    name: str = ""
    spec: Spec = field(default=(), compare=False, repr=False)  # names and arguments, where a config gave them

    def __post_init__(self) -> None:
        check_combination(self.parts)  # before weights: no order of weighers mends what it refuses
        _refuse_lost_weights([part for part in self.parts if part.weigh is not None])

    @property
    def alone(self) -> Part | None:
        """The part by which every client trains a model of its own and nothing is averaged, where there is one."""
        return marked(self.parts, "alone")

    @property
    def pools(self) -> Part | None:
        """The part by which all samples lie in one place, where there is one."""
        return marked(self.parts, "pools")

    @property
    def guard(self) -> Part | None:
        """The part that makes the mean of the updates private, where there is one."""
        return marked(self.parts, "private")

    @property
    def needs_secret(self) -> bool:
        """Whether a run draws anything by a key that only the server has."""
        return self.guard is not None and self.guard.private == "secret"

    @property
    def relabels(self) -> bool:
        """Whether a part changes labels."""
        return any(part.relabels for part in self.parts)

    def owner(self, hook: str) -> Part | None:
        """The first part that fills a hook; hooks with a single owner have no other."""
        return filling(self.parts, hook)

    @property
    def descends_plainly(self) -> bool:
        """Whether every local step is ``y - lr g``: no part changes the gradient."""
        return all(part.gradient is None and part.adjust is None for part in self.parts)

    def adapt(self, module: nn.Module) -> nn.Module:
        """The model as changed by the parts; one that only looks at it must find what it needs whatever later ones change."""
        looked: list[Part] = []
        for part in self.parts:
            if part.adapt is not None:
                layers = list(module.modules())
                module = part.adapt(module)
                if not isinstance(module, nn.Module):
                    raise HookError(f"{part.name}.adapt must return an nn.Module, not {short(module)}")
                if list(module.modules()) == layers:
                    looked.append(part)
                else:
                    _look_again(looked, module, part.name)
        return module


def _look_again(parts: Sequence[Part], module: nn.Module, changer: str) -> None:
    """Refuse a change of the model that takes from earlier parts the layer that they go by."""
    for part in parts:
        try:
            if part.adapt is not None:
                part.adapt(deepcopy(module))
        except ConfigError as error:
            raise ConfigError(
                f"{part.name} does not go with {changer}, which changes the model: {error}"
            ) from error


def _refuse_lost_weights(weighers: Sequence[Part]) -> None:
    """A weigher that replaces all weights would silently undo those before it."""
    for place, weigher in enumerate(weighers):
        if place and weigher.replaces_weights:
            raise ConfigError(
                f"{weigher.name} replaces the weights that {weighers[place - 1].name} gives; list it first{_or_multiply(weigher.name)}"
            )


def _or_multiply(name: str) -> str:
    """The other way out, of a part that has one."""
    takes = name in PARTS and "combine" in PARTS.entry(name).parameters
    return f", or multiply them: {{ {name} = {{ combine = 'multiply' }} }}" if takes else ""


HOMES = ["counterpoise.parts", "counterpoise.methods"]
PARTS: Registry[Part] = Registry("part", HOMES, LARGEST)
METHODS: Registry[Method] = Registry("method", HOMES, LARGEST)
Arguments = ParamSpec("Arguments")


def part(name: str = "", **facts: Any) -> Callable[[Callable[Arguments, Part]], Callable[Arguments, Part]]:
    """Decorator: register a factory of parts, by default under its own name, which its parts then have."""
    return naming(PARTS, name, **facts)


def method(name: str = "", **facts: Any) -> Callable[[Factory], Factory]:
    """Decorator: register a factory of methods, by default under its own name."""
    check_called("method", name)
    return lambda factory: METHODS.register(name or factory.__name__, **facts)(factory)


MethodSpec: TypeAlias = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]


def compose(*pieces: Method | Part, name: str = "") -> Method:
    """One method of several: parts in the given order, and the weighting that all named methods share."""
    methods = [piece for piece in pieces if isinstance(piece, Method)]
    parts = [p for piece in pieces for p in (piece.parts if isinstance(piece, Method) else (piece,))]
    composed = Method(tuple(parts), methods[0].weighting if methods else "samples", name)
    weightings = {m.weighting: m.name for m in methods}
    if len(weightings) > 1:
        says = " and ".join(
            f"{name} weighs clients by {weighting!r}" for weighting, name in weightings.items()
        )
        raise ConfigError(
            f"{says}; give both the same: {{ {methods[-1].name} = {{ weighting = {methods[0].weighting!r} }} }}"
        )
    return composed


def build_method(spec: MethodSpec) -> Method:
    """The method that a config names: a word, ``{ word = { argument = value } }``, or a list of these."""
    items = read_spec(spec)
    names = [name for name, _ in items]
    if twice := next((name for name in names if names.count(name) > 1 and name in METHODS), None):
        raise ConfigError(f"method {short(twice)} is listed twice; keep one of the two")
    pieces = [build_piece(name, arguments) for name, arguments in items]
    return replace(compose(*pieces, name="+".join(names)), spec=tuple(items))


def read_spec(spec: MethodSpec, key: str = "method") -> list[tuple[str, dict[str, Any]]]:
    """The config's ways to write a method, or what another key names, as one list of names with arguments."""
    if isinstance(spec, str):
        return [(spec, {})]
    if isinstance(spec, Mapping) and spec:
        return [_read_item(key, str(name), arguments) for name, arguments in spec.items()]
    if not isinstance(spec, Sequence) or not spec:
        raise ConfigError(
            f"{key} must be a name, or a list of names and {{ name = {{ argument = value }} }}, not {short(spec)}"
        )
    return [item for entry in spec for item in read_spec(entry, key)]


def build_named(registry: Registry[Any], spec: MethodSpec) -> Any:
    """What a config names: a word, or ``{ word = { argument = value } }``."""
    key = registry.place.key or registry.kind
    items = read_spec(spec, key)
    if len(items) != 1:
        raise ConfigError(
            f"{key} must be one name, or {{ name = {{ argument = value }} }}, not {short(spec)}"
        )
    return registry.build(*items[0])


def _read_item(key: str, name: str, arguments: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(arguments, Mapping):
        raise ConfigError(
            f"{key}: {shorten(name, SHOWN_CHARACTERS)} must be {{ argument = value }}, not {short(arguments)}"
        )
    return name, {str(argument): value for argument, value in arguments.items()}


def find_entry(name: str) -> Entry[Method] | Entry[Part]:
    """A method or a part by name; methods come first."""
    if name in METHODS:
        return METHODS.entry(name)
    if name in PARTS:
        return PARTS.entry(name)
    known, place = [*METHODS.names(), *PARTS.names()], Place("method", "counterpoise ls")
    file, _, own = name.rpartition(":")
    hint = (
        f"; for {short(own)} of your own file set {FILES}={file} and name it {own}" if ".py" in file else ""
    )
    raise ConfigError(unknown_name("method or part", name, known, place) + hint)


def build_piece(name: str, arguments: Mapping[str, Any], known_good: bool = False) -> Method | Part:
    """A method or part by name; arguments that are known to be good, such as tensors for numbers, are not checked."""
    entry = find_entry(name)
    try:
        if known_good:
            built = entry.factory(**entry.current_names(arguments))
        else:
            built = entry.build(arguments, owner=f"method: {name}")
    except CounterpoiseError:
        raise
    except Exception as error:  # a factory of somebody else may raise anything
        raise HookError(f"{entry.title} cannot be built: {type(error).__name__}: {error}") from error
    if not isinstance(built, Method | Part):
        raise HookError(f"{entry.title} must return a {entry.kind.capitalize()}, not {short(built)}")
    return replace(built, name=name) if isinstance(built, Method) else built
