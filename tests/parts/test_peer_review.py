"""Peer review: standings by hand, liars and silent judges, and an attack that it finds."""

from __future__ import annotations

import math

import pytest
import torch
from federations import STACKED, distance, run_rounds, simulate
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import counterpoise as cp
from counterpoise.core.codec import digest
from counterpoise.parts.peer_review import standing

ATTACK = {"sign_flip_attack": {"share": 0.2, "scale": 4.0}}


def test_standings_by_hand() -> None:
    balanced = torch.tensor([[0.9, 0.8, 0.1], [0.5, 0.6, 0.2], [1.0, 0.7, 0.4]], dtype=torch.float64)
    # Middles 0.8, 0.5, 0.7: apart (0.1, 0, -0.7), (0, 0.1, -0.3), (0.3, 0, -0.3); medians over judges.
    expected = torch.tensor([0.1, 0.0, -0.3], dtype=torch.float64)

    torch.testing.assert_close(standing(balanced), expected)


def test_a_judge_without_an_opinion_changes_nothing() -> None:
    balanced = torch.tensor([[0.9, 0.8, 0.1], [0.5, 0.6, 0.2], [1.0, 0.7, 0.4]], dtype=torch.float64)
    silent = torch.full((1, 3), math.nan, dtype=torch.float64)

    assert torch.equal(standing(torch.cat([balanced, silent])), standing(balanced))
    assert torch.equal(standing(silent), torch.zeros(3, dtype=torch.float64))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), lies=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_a_minority_of_liars_cannot_condemn_a_reply_that_all_others_find_in_the_middle(
    seed: int, lies: list[float]
) -> None:
    stream = torch.Generator().manual_seed(seed)
    honest = torch.rand(5, 1, generator=stream, dtype=torch.float64).expand(5, 4)  # all replies alike
    liars = torch.tensor([lies] * 2, dtype=torch.float64)

    assert torch.equal(standing(torch.cat([honest, liars])), torch.zeros(4, dtype=torch.float64))


def _params(spec: object, **given: object) -> dict[str, Tensor]:
    sim = simulate(spec, cohort=None, **given)  # type: ignore[arg-type]
    return run_rounds(sim).params


def test_with_tolerance_1_it_is_the_plain_mean() -> None:
    assert digest(_params(["fedavg", {"peer_review": {"tolerance": 1.0}}])) == digest(_params("fedavg"))


def test_engines_agree() -> None:
    spec = ["fedavg", {"peer_review": {"judges": 4, "tolerance": 0.0}}]

    assert distance(_params(spec), _params(spec, engine=STACKED)) < 1e-8


def test_clients_that_flip_their_update_are_left_out() -> None:
    federation = cp.split(cp.load_data("digits"), "iid", clients=10, validation=0.3, seed=0)
    runs = [
        cp.simulate(federation, ["fedavg", *rule, ATTACK], rounds=6, cohort=None, evaluate_every=6)
        for rule in ([], ["peer_review"])
    ]

    behind = runs[1].rows[-1]["diagnostics"]["peer_review"]["behind"]

    assert sorted(range(10), key=behind.__getitem__)[:2] in (
        [0, 1],
        [1, 0],
    )  # the attackers are the first two
    assert max(behind[:2]) < -0.1 < min(behind[2:])
    assert runs[1]["accuracy"] > runs[0]["accuracy"] + 0.2


@pytest.mark.parametrize("judges", [1, 6, 50])
def test_any_number_of_judges_gives_weights_that_sum_to_1(judges: int) -> None:
    params = _params(["fedavg", {"peer_review": {"judges": judges, "tolerance": 0.0}}])

    assert all(torch.isfinite(p).all() for p in params.values())
