"""Every part says what it makes the server learn: where it surveys, tallies or uploads, and only there."""

from __future__ import annotations

import pytest
from federations import every_spec, simulate, spec_name

from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec, build_method
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
    sim = simulate(spec)
    uploads = {name for name, tree in _replies(sim).upload.items() if tree}
    assert uploads == {part.name for part in sim.method.parts if part.reveals.upload not in ("", "nothing")}


@pytest.mark.parametrize("spec", SPECS, ids=spec_name)
def test_nothing_that_the_server_learns_is_without_words(spec: MethodSpec) -> None:
    assert UNSAID not in {one.what for one in what_the_server_learns(build_method(spec))}
