"""Server rules on one number, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from loss_hooks import built

from counterpoise.core.messages import Replies
from counterpoise.core.part import Census, Exchange, Part
from counterpoise.core.tree import Params, Tree

CENSUS = Census(torch.tensor([10, 10]), 2, 5)


def _exchange(params: Params) -> Exchange:
    replies = Replies(torch.tensor([0]), torch.tensor([10]), {"w": torch.zeros(1, 1)}, {}, {}, torch.zeros(1))
    return Exchange(params, replies, torch.ones(1, dtype=torch.float64), 2)


def _moves(part: Part, deltas: list[float]) -> list[float]:
    """What the server adds to its model of one number in each round."""
    params = {"w": torch.zeros(1, dtype=torch.float64)}
    slot: Tree = part.init(params, CENSUS, {}) if part.init is not None else {}
    moves = []
    for delta in deltas:
        assert part.update is not None
        moved, slot = part.update({"w": torch.tensor([delta], dtype=torch.float64)}, slot, _exchange(params))
        moves.append(float(moved["w"]))
    return moves


def test_server_step_scales_the_mean_update() -> None:
    assert _moves(built("server_step", lr=0.25), [4.0, -2.0]) == [1.0, -0.5]


def test_server_momentum_adds_up() -> None:
    assert _moves(built("server_momentum", beta=0.5), [4.0, 2.0, 0.0]) == [4.0, 4.0, 2.0]


def test_adam_divides_by_the_root_of_the_running_square() -> None:
    part = built("server_adaptive", rule="adam", lr=0.1, beta1=0.5, beta2=0.75, tau=0.2)
    first = 0.75 * 0.04 + 0.25 * 4.0
    second = 0.75 * first + 0.25 * 1.0
    expected = [0.1 * 1.0 / (math.sqrt(first) + 0.2), 0.1 * (0.5 - 0.5) / (math.sqrt(second) + 0.2)]
    assert _moves(part, [2.0, -1.0]) == pytest.approx(expected, rel=1e-13)


def test_yogi_moves_its_square_towards_the_new_one_by_a_bounded_pace() -> None:
    part = built("server_adaptive", rule="yogi", lr=0.1, beta1=0.0, beta2=0.75, tau=0.2)
    first = 0.04 + 0.25 * 4.0  # the square is larger than v: v grows
    second = first - 0.25 * 0.01  # the square is smaller than v: v shrinks
    expected = [0.1 * 2.0 / (math.sqrt(first) + 0.2), 0.1 * 0.1 / (math.sqrt(second) + 0.2)]
    assert _moves(part, [2.0, 0.1]) == pytest.approx(expected, rel=1e-13)


def test_no_update_moves_nothing() -> None:
    for rule in ("adam", "yogi"):
        assert _moves(built("server_adaptive", rule=rule), [0.0, 0.0]) == [0.0, 0.0]
