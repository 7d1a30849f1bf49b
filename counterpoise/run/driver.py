"""The loop over rounds of every run: train, evaluate when due, stop when nothing improves or too many rounds were skipped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from counterpoise.errors import RunError
from counterpoise.run.early_stopping import EarlyStopping
from counterpoise.run.giving_up import Rows, SkippedRounds
from counterpoise.run.simulation import Simulation, advance, evaluate
from counterpoise.server.state import Outcome, ServerState


class Ended(NamedTuple):
    """One round of one run: the state after it, its row of the log, its seconds, and whether it was the last."""

    state: ServerState
    row: dict[str, Any]
    seconds: float
    last: bool


def drive(
    simulations: Sequence[Simulation],
    states: Sequence[ServerState],
    evaluate_every: int = 1,
    before: Sequence[Rows] | None = None,
) -> Iterator[list[Ended]]:
    """The rounds of one run, or of several joined ones; `before`: rows of the rounds already done, per run.

    A run that diverges does not stop the others; a RunError is raised only when all have skipped too many rounds in a row.
    Joined runs have no early stopping.
    """
    rounds, before = simulations[0].rounds, before or [()] * len(simulations)
    skipped = [
        SkippedRounds(sim.settings.max_skipped, rows) for sim, rows in zip(simulations, before, strict=True)
    ]
    stopping = EarlyStopping(simulations[0].patience, before[0])
    while states[0].round < rounds and not stopping.over:
        began = time.perf_counter()
        ended = advance(simulations, states)
        states = [state for state, _ in ended]
        _check_answered(states[0].round == rounds, [outcome for _, outcome in ended])
        due = states[0].round == rounds or states[0].round % evaluate_every == 0
        scores = evaluate(simulations, states) if due else _unscored(simulations, states)
        spent = (time.perf_counter() - began) / len(simulations)
        rows = [outcome.row() | found for (_, outcome), found in zip(ended, scores, strict=True)]
        stopping.see(rows[0])
        last = states[0].round == rounds or stopping.over
        yield [Ended(state, row, spent, last) for state, row in zip(states, rows, strict=True)]
        lost = [one.count(outcome) for one, (_, outcome) in zip(skipped, ended, strict=True)]
        if not last and all(lost):  # after the last round `conclude` says why
            raise RunError(lost[0])


def _unscored(simulations: Sequence[Simulation], states: Sequence[ServerState]) -> list[dict[str, Any]]:
    """What is recorded of every round."""
    return [sim.diagnostics(state, scored=False) for sim, state in zip(simulations, states, strict=True)]


def _check_answered(last: bool, outcomes: Sequence[Outcome]) -> None:
    """A last round without any reply is not recorded, so that a resumed run can still get a result."""
    if last and all(outcome.unanswered for outcome in outcomes):
        raise RunError(f"nobody answered in the last round, of {outcomes[0].asked} clients asked")
