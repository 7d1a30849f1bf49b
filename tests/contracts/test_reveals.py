"""Every part says what it makes the server learn: where it surveys, tallies or uploads, and only there."""

from __future__ import annotations

from typing import Any

import pytest
from federations import every_spec, simulate, spec_name
from judged import judged

from counterpoise.core.messages import Replies
from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.run.learned import UNSAID, what_the_server_learns
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import announce

SPECS: list[MethodSpec] = [
    *every_spec(),
    {"fedhoo": {"clusters": 2}},
    {"hoo": {"clusters": 2}},
    ["fedavg", {"resample": {"counts": "global"}}],
]


def _replies(sim: Simulation) -> Replies:
    """Of the only round, which is also the last one, where some parts ask for more."""
    state = sim.open()
    return sim.engine.train(sim.tasks(state), announce(sim.method, state, 0.1))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_part_has_words_for_what_it_asks_before_round_0_and_no_others(spec: MethodSpec) -> None:
    for part in build_method(spec).parts:
        assert (part.survey is not None) == bool(part.reveals.survey), part.name
        assert (part.tally is not None) == bool(part.reveals.tally), part.name
        assert (part.finish is not None) == bool(part.reveals.upload), part.name


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_part_that_says_it_uploads_nothing_does_and_no_other(spec: MethodSpec) -> None:
    sim = simulate(spec, rounds=1)
    uploads = {name for name, tree in _replies(sim).upload.items() if tree}
    assert uploads == {part.name for part in sim.method.parts if part.reveals.upload not in ("", "nothing")}


def _asks_to_judge(spec: MethodSpec | Method) -> bool:
    """Whether clients are asked to score models in a round that no search needs them for."""
    sim, asked = simulate(spec, cohort=None), []
    engine: Any = sim.engine
    engine.measure = lambda pairs, *given: (
        asked.append(pairs) or EmbeddedEngine.measure(engine, pairs, *given)
    )
    sim.advance(sim.open())
    return bool(asked)


def test_a_rule_by_which_clients_judge_models_is_noticed() -> None:
    assert _asks_to_judge(judged())


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_part_by_which_clients_judge_models_says_so(spec: MethodSpec) -> None:
    method = build_method(spec)
    assert _asks_to_judge(spec) == any(part.reveals.judged for part in method.parts)


@pytest.mark.parametrize("spec", SPECS, ids=spec_name)
def test_nothing_that_the_server_learns_is_without_words(spec: MethodSpec) -> None:
    assert UNSAID not in {one.what for one in what_the_server_learns(build_method(spec))}
