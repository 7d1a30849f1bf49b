"""Compositions: what may stand together, and messages that list the choices."""

from __future__ import annotations

import re
from typing import Any

import pytest
from federations import small_model
from torch import nn

from counterpoise.core.method import METHODS, PARTS, Method, build_method, compose, find_entry, read_spec
from counterpoise.core.part import Part
from counterpoise.errors import ConfigError
from counterpoise.models.heads import CosineHead


def _message(spec: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build_method(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_two_losses_are_refused_with_both_names() -> None:
    message = _message(["fedavg", "focal", "ldam"])
    assert message == "focal and ldam each set the loss, and only one part may; keep one of: focal, ldam"


def test_two_gradient_sources_are_refused_with_both_names() -> None:
    assert "sam and global_perturbation each set the gradient" in _message(["fedsam", "global_perturbation"])


def test_two_momenta_of_the_server_are_refused_with_both_names() -> None:
    message = _message(["fedwcm", "fedcm"])
    assert "weighted_client_momentum and server_direction each lead local steps by the server's" in message
    assert "keep one of: weighted_client_momentum, server_direction" in message
    assert "amended_adaptive and server_direction each lead" in _message(["fedlada", "server_direction"])
    assert "each lead" in _message(["mofedsam", "weighted_client_momentum"])
    assert (
        len(build_method(["fedwcm", {"fedcm": {"alpha": 1.0}}]).parts) == 2
    )  # switched off it leads nowhere


def test_three_owners_are_all_listed() -> None:
    assert "keep one of: focal, ldam, fedlc" in _message(["fedavg", "focal", "ldam", "fedlc"])


def test_a_part_listed_twice_is_refused() -> None:
    assert _message(["fedprox", "prox"]) == "part 'prox' is listed twice; keep one of the two"
    assert "part 'server_step' is listed twice" in _message([{"fedavg": {"server_lr": 0.5}}, "server_step"])


def test_a_method_listed_twice_is_refused_even_without_parts() -> None:
    assert _message(["fedavg", "fedavg"]) == "method 'fedavg' is listed twice; keep one of the two"
    assert "'fedavg' is listed twice" in _message(["fedavg", {"fedavg": {"server_lr": 0.5}}])


def test_methods_of_different_weightings_are_refused_with_a_way_out() -> None:
    message = _message(["fedavg", "scaffold"])
    assert "fedavg weighs clients by 'samples' and scaffold weighs clients by 'uniform'" in message
    assert "{ scaffold = { weighting = 'samples' } }" in message
    assert build_method(["fedavg", {"scaffold": {"weighting": "samples"}}]).weighting == "samples"


def test_an_unknown_name_names_the_key_guesses_and_says_what_lists_all() -> None:
    message = _message("scafold")
    assert (
        message == "method: no method or part 'scafold'; did you mean 'scaffold'? `counterpoise ls` lists all"
    )


@pytest.mark.parametrize(
    "spec", [None, 3, [], [[]], ["fedavg", 7], {"fedprox": 0.1}, {"fedprox": None}, {}, [{}], b"ab"]
)
def test_a_spec_of_another_shape_is_refused_in_one_line(spec: Any) -> None:
    assert re.match(r"method(: fedprox)? must be .*, not ", _message(spec))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({1: {}}, "method: no method or part '1'"),
        ({1: 2}, "method: 1 must be { argument = value }, not 2"),
        ({"fedavg": {1: 2}}, "method: fedavg: no argument '1'"),
    ],
)
def test_a_key_that_is_no_word_is_refused_as_an_unknown_one(spec: Any, words: str) -> None:
    assert _message(spec).startswith(words)


def test_every_way_to_write_a_method_reads_alike() -> None:
    expected = [("scaffold", {}), ("focal", {"gamma": 1.0})]
    assert read_spec(["scaffold", {"focal": {"gamma": 1.0}}]) == expected
    assert read_spec([{"scaffold": {}, "focal": {"gamma": 1.0}}]) == expected
    assert read_spec({"scaffold": {}, "focal": {"gamma": 1.0}}) == expected
    assert read_spec(("scaffold", {"focal": {"gamma": 1.0}})) == expected


def test_reading_a_spec_copies_the_arguments() -> None:
    spec = {"focal": {"gamma": 1.0}}
    read_spec(spec)[0][1]["gamma"] = 9.0
    assert spec == {"focal": {"gamma": 1.0}}


def test_a_composition_is_named_after_its_pieces_and_keeps_their_weighting() -> None:
    method = build_method(["scaffold", "sam"])
    assert (method.name, method.weighting) == ("scaffold+sam", "uniform")
    assert build_method("focal").weighting == "samples"


def test_a_method_comes_before_a_part_of_the_same_name() -> None:
    assert isinstance(find_entry("fedavg").build(), Method)
    assert isinstance(find_entry("prox").build(), Part)


def test_composing_leaves_the_pieces_as_they_were() -> None:
    base = METHODS.build("scaffold")
    compose(base, PARTS.build("focal"))
    assert [part.name for part in base.parts] == ["control_variates"]


def test_owner_finds_the_single_part_of_a_hook() -> None:
    method = build_method(["fedavg", "focal", "sam"])
    owners = [owner.name if (owner := method.owner(hook)) else None for hook in ("loss", "gradient", "weigh")]
    assert owners == ["focal", "sam", None]


def test_parts_adapt_the_model_in_listed_order() -> None:
    def wrap(kind: type[nn.Module]) -> Part:
        return Part(kind.__name__, adapt=lambda module: nn.Sequential(module, kind()))

    adapted = Method((wrap(nn.ReLU), wrap(nn.Tanh))).adapt(nn.Identity())
    kinds = [type(layer).__name__ for layer in adapted.modules() if not isinstance(layer, nn.Sequential)]
    assert kinds == ["Identity", "ReLU", "Tanh"]


@pytest.mark.parametrize(
    ("looks", "changes"),
    [
        ("logit_adjustment", "ldam"),
        ("ccvr", "ldam"),
        ("tau_norm", "dot_regression"),
        ("crt", "etf_projection"),
        ("private_head", "etf_projection"),
        ("aggregation_balancer", "realigned_heads"),
    ],
)
def test_a_part_is_refused_beside_one_that_takes_its_layer_whichever_is_first(
    looks: str, changes: str
) -> None:
    with pytest.raises(ConfigError, match="must have"):
        build_method(["fedavg", changes, looks]).adapt(small_model())
    with pytest.raises(ConfigError, match=f"{looks} does not go with {changes}, .* must have"):
        build_method(["fedavg", looks, changes]).adapt(small_model())


@pytest.mark.parametrize("looks", ["moon", "crt", "aggregation_balancer"])
def test_a_part_whose_layer_is_changed_into_one_that_will_do_stays(looks: str) -> None:
    assert isinstance(build_method([looks, "ldam"]).adapt(small_model()).head, CosineHead)


def test_a_part_changes_the_model_once_whatever_later_ones_change() -> None:
    def halve(module: Any) -> nn.Module:
        module.dropout /= 2
        return module  # type: ignore[no-any-return]

    module = small_model()
    module.dropout = 0.5
    adapted: Any = Method((Part("halve", adapt=halve), PARTS.build("ldam"))).adapt(module)
    assert adapted.dropout == 0.25


def test_a_part_lists_the_hooks_it_fills() -> None:
    assert PARTS.build("sam").hooks() == ["gradient"]
    assert Part("nothing").hooks() == []
