"""Short names for methods and problems: only what distinguishes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from counterpoise.core.method import METHODS, PARTS, MethodSpec, find_entry, read_spec
from counterpoise.results.results import HOW, RunResult

Piece = tuple[str, dict[str, Any]]  # name of a method or part, and its arguments
DRAWN = ("data.fold", "partition.divergence")  # what may be another for each seed of one experiment


class Configured(Protocol):
    """A run of which the config is known: in a folder, or from Python."""

    @property
    def config(self) -> dict[str, Any]: ...

    @property
    def seed(self) -> int: ...


class Labels(NamedTuple):
    """Problem and method by which a run is paired."""

    problem: str
    method: str


Runs: TypeAlias = dict[Labels, dict[int, RunResult]]  # by seed


def label_runs(results: Sequence[Configured]) -> list[Labels]:
    """Labels made of what differs among these runs."""
    return [Labels(*pair) for pair in zip(label_problems(results), label_methods(results), strict=True)]


def group_runs(results: Sequence[RunResult], given: Mapping[Path, Labels] | None = None) -> Runs:
    """Runs by label and seed; labels are given by path, else made of what differs. Of duplicates the first is kept."""
    labels = dict(given or {})
    plain = [result for result in results if result.path not in labels]
    labels |= dict(zip((result.path for result in plain), label_runs(plain), strict=True))
    runs: Runs = {}
    for result in results:
        runs.setdefault(labels[result.path], {}).setdefault(result.seed, result)
    return runs


def label_methods(results: Sequence[Configured]) -> list[str]:
    """The method of each run, such as ``fedprox(mu=0.1)``; arguments only where methods of one name differ in them."""
    methods = [_complete(result.config["method"]) for result in results]
    differing = _arguments_that_differ(methods)
    return [
        "+".join(_label_piece(method, place, differing) for place in range(len(method))) for method in methods
    ]


def label_problems(results: Sequence[Configured]) -> list[str]:
    """The problem of each run by the keys that differ, such as ``data.name=digits, imbalance=20``."""
    problems = _without_repeats([_flatten(result.config) for result in results], results)
    keys = list(dict.fromkeys(key for problem in problems for key in problem))
    differing = [key for key in keys if len({_identity(problem.get(key)) for problem in problems}) > 1]
    last_words = Counter(key.rpartition(".")[2] for key in keys)
    short = {key: word if last_words[word := key.rpartition(".")[2]] == 1 else key for key in differing}
    return [", ".join(f"{short[key]}={show(problem.get(key))}" for key in differing) for problem in problems]


def _without_repeats(problems: list[dict[str, Any]], results: Sequence[Configured]) -> list[dict[str, Any]]:
    """Problems without what only repeats them: a seed that also splits, and the fold or split of each seed."""
    pairs = list(zip(problems, results, strict=True))
    splits = all(problem.get("data.seed") == result.seed for problem, result in pairs)
    seeds = {result.seed for result in results}
    drawn = [
        key for key in DRAWN if len({(problem.get(key), run.seed) for problem, run in pairs}) == len(seeds)
    ]
    repeats = [*(["data.seed"] if splits else []), *drawn]
    return [{key: value for key, value in problem.items() if key not in repeats} for problem in problems]


def show(value: Any) -> str:
    """A short text for a value of a config; a name with arguments as ``name(argument=value)``."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list() | tuple():
            return f"[{' '.join(map(show, value))}]"
        case Mapping():
            return " ".join(_show_named(name, inner) for name, inner in value.items())
    return str(value)


def _show_named(name: str, inner: Any) -> str:
    if not isinstance(inner, Mapping):
        return f"{name}={show(inner)}"
    arguments = ", ".join(f"{key}={show(value)}" for key, value in inner.items())
    return f"{name}({arguments})" if arguments else name


def _complete(spec: MethodSpec) -> list[Piece]:
    """Pieces of a method with defaults filled in, so that two spellings of one method are equal."""
    return [(name, _complete_arguments(name, given)) for name, given in read_spec(spec)]


def _complete_arguments(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if name not in METHODS and name not in PARTS:  # a method that was put together by hand
        return dict(given)
    entry = find_entry(name)
    parameters, given = entry.parameters, entry.current_names(given)
    checked = {key: parameters[key].check(name, value) for key, value in given.items() if key in parameters}
    return {key: parameter.default for key, parameter in parameters.items()} | given | checked


def _arguments_that_differ(methods: Sequence[Sequence[Piece]]) -> set[Hashable]:
    """Keys (names of the method, place of a piece, argument) that have more than one value."""
    values: dict[Hashable, set[str]] = {}
    for method in methods:
        for place, (_, arguments) in enumerate(method):
            for key, value in arguments.items():
                values.setdefault((_words(method), place, key), set()).add(_identity(value))
    return {argument for argument, found in values.items() if len(found) > 1}


def _label_piece(method: Sequence[Piece], place: int, differing: set[Hashable]) -> str:
    name, arguments = method[place]
    shown = {key: value for key, value in arguments.items() if (_words(method), place, key) in differing}
    return _show_named(name, shown)


def _words(method: Sequence[Piece]) -> tuple[str, ...]:
    return tuple(name for name, _ in method)


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys of a config, without method, seed and how the run is executed."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key in (*HOW, "method", "seed"):
            continue
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{key}.{name}".rstrip("."): content for name, content in inner}
    flat.pop("evaluate.probes", None)  # who looks at a model does not change the problem
    return flat


def _identity(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
