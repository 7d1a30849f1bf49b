"""FedBal is its two balancers, in the words of the paper or as released."""

from __future__ import annotations

from typing import Any

import pytest
from federations import distance, run_rounds, simulate

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method

RELEASED: list[Any] = [
    "fedavg",
    {"local_balancer": {"schedule": "released", "normalise": "sum"}},
    {"aggregation_balancer": {"scope": "classifier", "score": "exp", "deviation": "sample"}},
]
TWO_EPOCHS = Local(lr=0.1, batch_size=12, epochs=2)


def _apart(one: MethodSpec, other: MethodSpec) -> float:
    return distance(*(run_rounds(simulate(spec, local=TWO_EPOCHS)).params for spec in (one, other)))


def test_it_is_both_balancers() -> None:
    assert [part.name for part in build_method("fedbal").parts] == ["local_balancer", "aggregation_balancer"]
    assert _apart("fedbal", ["fedavg", "local_balancer", "aggregation_balancer"]) == 0


def test_the_released_variant_is_made_of_the_released_forms_of_both() -> None:
    assert _apart({"fedbal": {"variant": "released"}}, RELEASED) == 0
    assert _apart({"fedbal": {"variant": "released"}}, "fedbal") > 1e-6


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize(
    "changed", [{"strength": 60.0}, {"inverse": True}, {"temperature": 0.1}, {"beta": 0.0}]
)
def test_its_arguments_reach_both_balancers(variant: str, changed: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"variant": variant}
    assert _apart({"fedbal": plain}, {"fedbal": plain | changed}) > 1e-9


def test_weights_of_the_method_do_not_matter_where_they_are_replaced() -> None:
    assert _apart("fedbal", {"fedbal": {"weighting": "uniform"}}) == 0


def test_with_a_cosine_of_one_for_all_it_is_the_uniform_control() -> None:
    hot = {"fedbal": {"strength": 0.0, "temperature": 1e12}}
    assert _apart(hot, {"fedavg": {"weighting": "uniform"}}) < 1e-10
