"""A simulated attack turns the updates of its clients round, in every engine, and changes nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from federations import LOOP, STACKED, ask_clients, distance, run_rounds, simulate

from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Replies
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.core.part import Census
from counterpoise.core.tree import take
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.parts.attacks import sign_flip_attack
from counterpoise.server.search import propose_tasks


def replies(spec: MethodSpec, engine: EngineSettings = LOOP, local: Local | None = None) -> Replies:
    """What all six clients answer in the first round."""
    sim = simulate(spec, engine=engine, local=local)
    state = sim.open()
    tasks = propose_tasks(sim.method, state.slots, 0, range(6))
    return sim.engine.train(tasks, Broadcast(0, 0.1, state.params, state.buffers, {}))


def attack(**arguments: float) -> Mapping[str, Any]:
    return {"sign_flip_attack": arguments}


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_first_clients_send_the_opposite_and_the_others_what_they_would(
    scale: float, momentum: float, engine: EngineSettings
) -> None:
    local = Local(lr=0.1, batch_size=12, momentum=momentum, epochs=2)
    fair = replies("fedavg", engine, local)
    found = replies(["fedavg", attack(share=0.34, scale=scale)], engine, local)  # two of six
    wanted = {name: torch.cat([-scale * d[:2], d[2:]]) for name, d in fair.delta.items()}
    assert distance(found.delta, wanted) < 1e-12
    assert distance(take(found.delta, slice(2, None)), take(fair.delta, slice(2, None))) < 1e-14


@pytest.mark.parametrize(("share", "attackers"), [(0.0, 0), (0.1, 0), (0.5, 3), (1.0, 6)])
def test_a_share_of_all_clients_attacks_rounded_down(share: float, attackers: int) -> None:
    sim = simulate(["fedavg", attack(share=share)])
    tasks = propose_tasks(sim.method, sim.open().slots, 0, range(6))
    assert [task.knobs["attacks"] for task in tasks] == [1.0] * attackers + [0.0] * (6 - attackers)


def test_a_fifth_of_sixty_is_twelve() -> None:
    init = sign_flip_attack(0.2).init
    assert init is not None
    assert int(init({}, Census(torch.ones(60), 10, 1), {})["attackers"]) == 12


def test_a_long_attack_is_shortened_as_any_long_update_is() -> None:
    sim = simulate(["fedavg", attack(share=0.17, scale=100.0)], cohort=None)
    _, outcome = sim.advance(sim.open())
    assert [one.client for one in outcome.clipped] == [0]


@pytest.mark.parametrize("rule", ["median", {"trimmed_mean": {"beta": 0.34}}])
def test_a_robust_rule_is_moved_less_than_the_mean(rule: MethodSpec) -> None:
    def moved(*rules: Any) -> float:
        base = [{"fedavg": {"weighting": "uniform"}}, *rules]
        ends = []
        for spec in (base, [*base, attack(share=0.17, scale=5.0)]):
            sim = simulate(spec, cohort=None)
            ends.append(ask_clients(sim, sim.open(), range(6))[0].params)
        return distance(*ends)

    assert moved() > moved(rule)


def test_it_goes_with_other_methods_and_not_with_another_source_of_gradients() -> None:
    for base in ("scaffold", "fednova", "moon"):
        attacked, fair = run_rounds(simulate([base, attack(share=0.5)])), run_rounds(simulate(base))
        assert distance(attacked.params, fair.params) > 1e-3
    with pytest.raises(ConfigError, match="gradient"):
        build_method(["fedsam", attack()])
