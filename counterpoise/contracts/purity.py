"""Hooks give what they must and leave what they are given: neither the numbers of a tensor nor the keys of a tree change."""

from __future__ import annotations

from counterpoise.contracts.contract import ContractError
from counterpoise.contracts.small import run_rounds, simulate
from counterpoise.core.checked import checked
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.core.unchanged import first_changed, hold


def hooks_are_sound(spec: MethodSpec) -> None:
    """Two rounds by hooks that are checked with copies of what they are given; a HookError names the hook."""
    sim = simulate(checked(build_method(spec), exact=True), rounds=2)
    sim.presented(run_rounds(sim))


def state_stays(spec: MethodSpec) -> None:
    """A round leaves the state before it as it was, so that it can be repeated from there."""
    sim = simulate(spec, rounds=2)
    before = run_rounds(sim, rounds=1)
    held = hold(["the state"], [before.to_tree()], exact=True)
    sim.advance(before)
    if changed := first_changed(held):
        raise ContractError(f"a round changes {changed} before it, which a run that is resumed begins with")
