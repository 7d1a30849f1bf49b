"""Every part says what it makes the server learn: where it surveys, tallies or uploads, and only there."""

from __future__ import annotations

from typing import Any

import pytest
from federations import every_spec, simulate, spec_name
from judged import judged

from counterpoise.contracts.words import revealing_has_words, uploads_are_told
from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.run.learned import UNSAID, what_the_server_learns

SPECS: list[MethodSpec] = [
    *every_spec(),
    {"fedhoo": {"clusters": 2}},
    {"hoo": {"clusters": 2}},
    ["fedavg", {"resample": {"counts": "global"}}],
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_part_has_words_for_what_it_asks_before_round_0_and_no_others(spec: MethodSpec) -> None:
    revealing_has_words(spec)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_part_that_says_it_uploads_nothing_does_and_no_other(spec: MethodSpec) -> None:
    uploads_are_told(spec)


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
