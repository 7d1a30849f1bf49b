"""A part gives the same run client by client, stacked in any chunks, in worker processes, and when it is run again."""

from __future__ import annotations

from dataclasses import replace

from counterpoise.contracts.contract import ContractError, require_close, require_same
from counterpoise.contracts.small import LOOP, STACKED, all_state, run_rounds, simulate
from counterpoise.core.checked import checked
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.core.tree import Tree
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.processes import can_fork
from counterpoise.errors import ConfigError, HookError

CLOSE = 1e-8
CHUNKS = (1, 2, 3)
STACKING = "a stacked hook has no Python `if` on a tensor, no .item(), and draws nothing"


def final_state(spec: MethodSpec, engine: EngineSettings = LOOP, local: Local | None = None) -> Tree:
    """All that a short run ends with."""
    sim = simulate(spec, engine=engine, local=local)
    try:
        return all_state(sim, run_rounds(sim))
    finally:
        sim.close()


def stacked_equals_loop(spec: MethodSpec) -> None:
    expected = final_state(spec)
    for chunk in CHUNKS:
        found = _stacked(spec, replace(STACKED, chunk=chunk))
        require_close(
            found, expected, CLOSE, f"stacked in chunks of {chunk} and one by one, clients train apart"
        )


def _stacked(spec: MethodSpec, engine: EngineSettings) -> Tree:
    try:
        return final_state(spec, engine)
    except HookError:
        raise
    except ConfigError as error:
        who = _who_does_not_stack(spec, engine) or error
        raise ContractError(f"{who}; {STACKING}") from error


def _who_does_not_stack(spec: MethodSpec, engine: EngineSettings) -> str:
    """The hook that torch.vmap refuses, in its words."""
    sim = simulate(checked(build_method(spec)), engine=engine)
    try:
        run_rounds(sim)
    except HookError as error:
        return str(error)
    return ""


def processes_equal_loop(spec: MethodSpec) -> None:
    found = final_state(spec, replace(LOOP, processes=2))
    require_same(found, final_state(spec), "in worker processes and in this one, clients train apart")


def without_processes(spec: MethodSpec) -> str:
    return "" if can_fork() else "no worker processes here: they need a system that can fork, and no GPU"


def second_build_repeats(spec: MethodSpec) -> None:
    require_same(
        final_state(spec), final_state(spec), "built twice with the same seed, a run does not repeat itself"
    )


def second_run_repeats(spec: MethodSpec) -> None:
    sim = simulate(spec)
    first = all_state(sim, run_rounds(sim))
    again = all_state(sim, run_rounds(sim))
    require_same(
        again, first, "run again from its start, a run does not repeat itself: something else is kept"
    )


def longer_runs_begin_alike(spec: MethodSpec) -> None:
    """A part that plans for the number of rounds says so by the slot that `init` gives."""
    short, long = simulate(spec, rounds=2), simulate(spec, rounds=9)
    if short.planner(9) is None:
        found = all_state(long, run_rounds(long, rounds=2))
        words = "the first rounds of a longer run are others, and no slot of `init` says so"
        require_same(found, all_state(short, run_rounds(short)), words)
