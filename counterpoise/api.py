"""The package from Python: load data, cut it into clients, run a method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import nn

from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec
from counterpoise.data.federation import Federation
from counterpoise.data.prepare import load_data, split_federation
from counterpoise.data.preprocessing import preprocessing_of
from counterpoise.engines.choose import EngineSettings
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.registry.schema import Count, Seed
from counterpoise.registry.settings import check_arguments, read_parameters, refuse_unknown
from counterpoise.report.outcome import Facts
from counterpoise.run.asked import asked_config
from counterpoise.run.build import build_simulation
from counterpoise.run.driver import drive
from counterpoise.run.giving_up import GivenUpError, why_given_up
from counterpoise.run.simulation import Simulation
from counterpoise.run.summary import summarise
from counterpoise.run.trained import TrainedModel, decision_of
from counterpoise.server.cohort import Cohort
from counterpoise.server.state import ServerState
from counterpoise.trained.outcome import RunOutcome

__all__ = ["SimulationResult", "load_data", "simulate", "split"]

split = split_federation

USE = "use it: .predict(x), .module, .rows, .confusion()"
_NESTED = {"local": Local, "engine": EngineSettings, "cohort": Cohort, "privacy": PrivacySettings}


@dataclass(frozen=True, repr=False)
class SimulationResult(RunOutcome):
    """The result of a run: summary by key, rows of all rounds, and the trained module, which takes data as in training."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    module: TrainedModel
    facts: Facts
    config: dict[str, Any]  # what was asked for, by which `table` tells runs apart


def simulate(
    federation: Federation,
    method: MethodSpec | Method = "fedavg",
    model: str | nn.Module = "mlp",
    *,
    rounds: Count = 50,
    seed: Seed = 0,
    evaluate_every: Count = 1,
    patience: Count | None = None,
    on_round: Callable[[Mapping[str, Any]], None] | None = None,
    progress: bool = False,
    **settings: Any,
) -> SimulationResult:
    """Run a method on a federation in this process; ``settings`` are those of ``build_simulation``: local, cohort, engine, privacy.

    `patience` ends the run after so many evaluations without a better balanced accuracy on validation samples; the model is
    that of the last round. `on_round` is called with the row of each round, `progress` shows a bar.
    """
    known = {*read_parameters(simulate), *read_parameters(build_simulation)}
    refuse_unknown("simulate", settings, known, _NESTED)
    check_arguments("simulate", simulate, evaluate_every=evaluate_every, progress=progress, on_round=on_round)
    simulation = build_simulation(
        federation, method, model, rounds=rounds, seed=seed, patience=patience, **settings
    )
    rows, seconds = [], 0.0
    with closing(simulation), _shown(simulation, progress) as show:
        state = simulation.open()
        for [ended] in drive([simulation], [state], evaluate_every):
            state = ended.state
            rows.append(ended.row)
            seconds += ended.seconds
            show(ended.row)
            if on_round is not None:
                on_round(deepcopy(ended.row))  # what a caller adds to it or changes stays the caller's
    if why := why_given_up(rows, simulation.settings.max_skipped, simulation.rounds):
        raise GivenUpError(f"simulate has no result: {why}")
    config = asked_config(simulation, federation, method, model, settings)
    return outcome_of(simulation, state, rows, seconds, config)


def outcome_of(
    simulation: Simulation,
    state: ServerState,
    rows: list[dict[str, Any]],
    seconds: float,
    config: dict[str, Any],
) -> SimulationResult:
    """The result of a simulation that has reached this state."""
    federation = simulation.work.federation
    module = simulation.module(state)
    name = type(module).__name__
    facts = Facts(federation.name or "own data", federation.classes, len(federation.clients), name, USE)
    summary, positive = summarise(simulation, state, rows, seconds), simulation.scoring.positive
    named = None if positive is None else federation.classes[positive]
    decision = decision_of(summary, federation.classes, named)
    trained = TrainedModel(module, preprocessing_of(federation), simulation.method, decision)
    return SimulationResult(summary, rows, trained, facts, config)


@contextmanager
def _shown(simulation: Simulation, progress: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Shows the row of each round in a bar, if one is wanted; Rich takes a while to import."""
    if not progress:
        yield lambda row: None
        return
    from counterpoise.run.progress import Live

    with Live() as bar:
        bar.say_notes(simulation)
        yield lambda row: bar.round_ended(row, simulation.rounds)
