"""Every registered factory says what it takes in words, refuses what it does not, and builds the same twice."""

from __future__ import annotations

from typing import Any

import pytest
from federations import COMPOSITIONS, every_spec, spec_name

from counterpoise.contracts.words import (
    argument_has_words,
    outside,
    rule_is_told,
    unknown_argument_is_refused,
)
from counterpoise.core.local import SCHEDULES
from counterpoise.core.method import METHODS, PARTS, MethodSpec, build_method, find_entry, read_spec
from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Entry
from counterpoise.registry.settings import Parameter

ENTRIES: list[Entry[Any]] = [
    *(METHODS.entry(name) for name in METHODS.names()),
    *(PARTS.entry(name) for name in PARTS.names()),
    *(SCHEDULES.entry(name) for name in SCHEDULES.names()),
]
PARAMETERS = [(entry, parameter) for entry in ENTRIES for parameter in entry.parameters.values()]
BOUNDED = [(entry, parameter) for entry, parameter in PARAMETERS if parameter.interval is not None]
NEEDED = {"steps": {"at": [1]}}  # arguments without a default


def _id(value: Any) -> str | None:
    return getattr(value, "name", None)


@pytest.mark.parametrize(("entry", "parameter"), PARAMETERS, ids=_id)
def test_every_argument_has_words_a_legal_default_and_builds_by_every_word_it_offers(
    entry: Entry[Any], parameter: Parameter
) -> None:
    argument_has_words(entry, parameter)


@pytest.mark.parametrize(("entry", "parameter"), BOUNDED, ids=_id)
def test_numbers_outside_the_interval_are_refused_by_name(entry: Entry[Any], parameter: Parameter) -> None:
    assert parameter.interval is not None
    for value in outside(parameter.interval):
        with pytest.raises(ConfigError, match=f"{parameter.name} must be .*, not ") as caught:
            entry.build(NEEDED.get(entry.name, {}) | {parameter.name: value})
        assert len(str(caught.value).splitlines()) == 1
        assert str(parameter.interval) in str(caught.value)


@pytest.mark.parametrize(("entry", "parameter"), PARAMETERS, ids=_id)
def test_a_value_of_another_type_is_refused_by_name(entry: Entry[Any], parameter: Parameter) -> None:
    for value in ({"no": "such"}, object()):
        with pytest.raises(ConfigError, match=f"{parameter.name} must be "):
            entry.build(NEEDED.get(entry.name, {}) | {parameter.name: value})


@pytest.mark.parametrize("entry", ENTRIES, ids=_id)
def test_an_unknown_argument_is_refused_with_the_legal_ones(entry: Entry[Any]) -> None:
    unknown_argument_is_refused(entry)


@pytest.mark.parametrize("entry", ENTRIES, ids=_id)
def test_every_entry_has_a_rule_in_one_line(entry: Entry[Any]) -> None:
    rule_is_told(entry)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if "off" in e.facts], ids=_id)
def test_off_values_are_legal_arguments(entry: Entry[Any]) -> None:
    entry.build(entry.facts["off"])


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_takes_both_weightings(name: str) -> None:
    for weighting in ("samples", "uniform"):
        assert build_method({name: {"weighting": weighting}}).weighting == weighting


@pytest.mark.parametrize("name", PARTS.names())
def test_a_part_goes_by_the_name_it_is_registered_under(name: str) -> None:
    assert PARTS.build(name).name == name


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_spec_read_and_written_again_names_the_same_method(spec: MethodSpec) -> None:
    items = read_spec(spec)
    again = [{name: arguments} for name, arguments in items]
    assert read_spec(again) == items
    first, second = build_method(spec), build_method(again)
    assert (first.name, first.weighting) == (second.name, second.weighting)
    assert [(p.name, p.hooks()) for p in first.parts] == [(p.name, p.hooks()) for p in second.parts]


@pytest.mark.parametrize("spec", COMPOSITIONS, ids=spec_name)
def test_a_composition_has_the_parts_of_all_its_pieces_in_order(spec: MethodSpec) -> None:
    pieces = [build_method({name: arguments}) for name, arguments in read_spec(spec)]
    assert [p.name for p in build_method(spec).parts] == [p.name for piece in pieces for p in piece.parts]


def test_defaults_of_the_weighting_are_those_of_the_papers() -> None:
    uniform = {"scaffold", "feddyn", "fedcm", "mofedsam", "fedwcm"}
    by_samples = {"fedavg", "fedprox", "fedavgm", "fednova", "fedwcm_x"}
    assert all(build_method(name).weighting == "uniform" for name in uniform)
    assert all(build_method(name).weighting == "samples" for name in by_samples)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fedprox", {"mu": 0.01}),
        ("fedavgm", {"beta": 0.9, "server_lr": 1.0}),
        ("feddyn", {"alpha": 0.1}),
        ("fedcm", {"alpha": 0.1}),
        ("fedwcm", {"score": "positive", "temperature_scale": 1.0, "server_lr": 1.0}),
        ("fedwcm_x", {"score": "positive", "temperature_scale": 1.0, "server_lr": 1.0}),
        ("fedsam", {"rho": 0.1}),
        ("mofedsam", {"alpha": 0.1, "rho": 0.1}),
        ("fedlesam", {"rho": 0.1}),
        ("focal", {"gamma": 2.0}),
        ("ldam", {"max_margin": 0.5, "scale": 30.0}),
        ("class_balanced", {"beta": 0.9999}),
        ("deferred_reweighting", {"start": 0.8}),
        ("fedlc", {"tau": 1.0}),
    ],
)
def test_defaults_are_those_of_the_specification(name: str, arguments: dict[str, float | str]) -> None:
    parameters = find_entry(name).parameters
    assert {key: parameters[key].default for key in arguments} == arguments
