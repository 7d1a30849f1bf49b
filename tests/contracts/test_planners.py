"""Every method either plans for its number of rounds and says so by its slots, or its rounds are those of a longer run."""

from __future__ import annotations

import pytest
from federations import every_spec, simulate, spec_name

from counterpoise.contracts.agreement import longer_runs_begin_alike
from counterpoise.core.method import MethodSpec


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_method_that_does_not_plan_is_the_same_in_a_longer_run(spec: MethodSpec) -> None:
    longer_runs_begin_alike(spec)


@pytest.mark.parametrize(
    ("spec", "planner"),
    [
        ("fedavg", None),
        ("scaffold", None),
        (["fedcm", "focal"], None),
        (["fedavg", {"crt": {"start": 0.5}}], "crt"),
        (["fedavgm", "balanced_softmax", "deferred_reweighting"], "deferred_reweighting"),
        (["fedavg", {"relabel": {"at": 0.5}}], "relabel"),
        (["fedavg", {"relabel": {"at": 2}}], None),  # after a number of rounds, whatever their total
    ],
    ids=spec_name,
)
def test_parts_that_act_after_a_share_of_all_rounds_plan(spec: MethodSpec, planner: str | None) -> None:
    assert simulate(spec, rounds=3).planner(9) == planner
