"""The package's own composition: what it is without each half, and that it is what its parts are together."""

from __future__ import annotations

import pytest
from federations import all_state, distance, run_rounds, simulate

from counterpoise.core.method import MethodSpec

UNIFORM: MethodSpec = {"fedavg": {"weighting": "uniform"}}
BASE: MethodSpec = {"fedsat": {"sensitive": False, "prioritised": False}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [UNIFORM, "balanced_softmax", "drift_correction"]),
        ({"tau": 0.0}, BASE),
        ({"gamma": 0.0}, [UNIFORM, "balanced_softmax"]),
        ({"counts": "global", "gamma": 0.0}, [UNIFORM, {"balanced_softmax": {"counts": "global"}}]),
        (
            {"server_lr": 0.5, "tau": 0.0},
            {"fedsat": {"sensitive": False, "prioritised": False, "server_lr": 0.5}},
        ),
    ],
    ids=str,
)
def test_it_is_its_halves_and_each_half_alone(given: dict[str, object], expected: MethodSpec) -> None:
    own, other = simulate({"counterpoise": given}), simulate(expected)
    assert distance(run_rounds(own).params, run_rounds(other).params) < 1e-12


def test_both_halves_matter() -> None:
    ends = [
        run_rounds(simulate({"counterpoise": given})).params for given in ({}, {"tau": 0.0}, {"gamma": 0.0})
    ]
    assert distance(ends[0], ends[1]) > 1e-3
    assert distance(ends[0], ends[2]) > 1e-3


def test_clients_remember_their_drift_and_nothing_else() -> None:
    sim = simulate("counterpoise")
    kept = all_state(sim, run_rounds(sim))["memory"]
    assert kept
    assert all(set(memory) == {"drift_correction"} for memory in kept.values())
