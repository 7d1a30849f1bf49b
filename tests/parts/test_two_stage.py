"""cRT: the last layer is drawn anew and trains alone, on classes that come equally often."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate, visit

from counterpoise.core.local import Local
from counterpoise.core.method import PARTS
from counterpoise.core.part import ClientData
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params
from counterpoise.engines.choose import EngineSettings
from counterpoise.models.init import initialise

SPEC = ["fedavg", {"crt": {"start": 0.5}}]


def body(params: Params) -> Params:
    return {name: p for name, p in params.items() if not name.startswith("head.")}


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_before_the_switch_it_is_the_method_alone(engine: EngineSettings) -> None:
    two, plain = simulate(SPEC, rounds=6, engine=engine), simulate("fedavg", rounds=6, engine=engine)
    assert distance(run_rounds(two, rounds=2).params, run_rounds(plain, rounds=2).params) < 1e-12


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_after_it_the_rest_of_the_model_stays_and_the_head_trains(
    engine: EngineSettings, decay: float
) -> None:
    local = Local(lr=0.1, batch_size=12, weight_decay=decay, decoupled=True, momentum=0.5)
    sim = simulate(SPEC, rounds=6, engine=engine, local=local)
    switched = run_rounds(sim, rounds=3)
    last = run_rounds(sim, switched, 3)
    assert distance(body(switched.params), body(last.params)) == 0
    assert distance({"w": switched.params["head.weight"]}, {"w": last.params["head.weight"]}) > 1e-3


def test_the_head_is_drawn_anew_within_the_bounds_of_a_fresh_layer() -> None:
    sim = simulate(SPEC, rounds=6)
    before = run_rounds(sim, rounds=2)
    switched, again = run_rounds(sim, before, 1), run_rounds(sim, before, 1)
    head = switched.params["head.weight"]
    assert float(head.abs().max()) <= head.shape[1] ** -0.5
    assert torch.equal(head, again.params["head.weight"])  # by a stream of the round
    assert not torch.equal(head, before.params["head.weight"])
    other = simulate(SPEC, rounds=6, seed=7)
    assert not torch.equal(head, run_rounds(other, rounds=3).params["head.weight"])


def test_a_head_that_could_not_be_drawn_for_want_of_replies_is_drawn_after_the_next_round() -> None:
    """Of rounds 0 to 5 the last three are the second stage; nobody answers in round 2, and in another run not in 2 to 4."""
    sim = simulate(SPEC, rounds=6)
    skipped = replace(run_rounds(sim, rounds=2), round=3)
    drawn = run_rounds(sim, skipped, 1)
    last = run_rounds(sim, drawn, 2)
    head = drawn.params["head.weight"]
    fresh = torch.nn.Linear(head.shape[1], len(head))
    initialise(fresh, generator(sim.seed, "server crt", 3))
    assert torch.allclose(head, fresh.weight.detach().to(head), atol=1e-12)
    assert distance(body(skipped.params), body(last.params)) == 0
    assert 0 < distance({"w": head}, {"w": last.params["head.weight"]}) < 0.3
    too_late = run_rounds(sim, replace(skipped, round=5), 1).params["head.weight"]
    assert 0 < distance({"w": too_late}, {"w": skipped.params["head.weight"]}) < 0.1  # trained, not drawn


def test_classes_come_equally_often_in_the_second_stage() -> None:
    prepare = PARTS.build("crt").prepare
    assert prepare is not None
    data = ClientData(torch.arange(4), torch.tensor([0, 0, 0, 1]))
    on, _ = prepare(data, visit({"on": torch.tensor(True)}))
    off, _ = prepare(data, visit({"on": torch.tensor(False)}))
    assert on.chances is not None
    assert on.chances.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])
    assert off.chances is None


@pytest.mark.parametrize(("rounds", "first"), [(100, 90), (20, 18), (10, 9), (4, 3), (2, 1), (1, 1)])
def test_the_last_tenth_is_the_second_stage_and_of_several_rounds_at_least_one(
    rounds: int, first: int
) -> None:
    sim = simulate(["fedavg", "crt"], rounds=rounds)
    assert int(sim.open().slots["crt"]["first"]) == first


def test_a_start_at_the_end_is_the_method_alone() -> None:
    never, plain = simulate(["fedavg", {"crt": {"start": 1.0}}], rounds=4), simulate("fedavg", rounds=4)
    assert distance(run_rounds(never).params, run_rounds(plain).params) < 1e-12


@pytest.mark.parametrize("method", ["fedavgm", "fedadam", "feddyn"])
def test_momentum_of_the_server_does_not_move_the_rest_either(method: str) -> None:
    spec = [method, {"crt": {"start": 0.5}}]
    sim = simulate(spec, rounds=6)
    switched = run_rounds(sim, rounds=3)
    last = run_rounds(sim, switched, 3)
    assert distance(body(switched.params), body(last.params)) == 0
    assert distance(switched.params, last.params) > 0
