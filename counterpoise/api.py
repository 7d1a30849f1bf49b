"""The package from Python: load data, cut it into clients, run a method."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec
from counterpoise.data.dataset import DATASETS, Dataset
from counterpoise.data.federation import Federation
from counterpoise.data.prepare import apply_imbalance, split_federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.registry.schema import Count, Seed
from counterpoise.registry.settings import check_arguments, read_parameters, refuse_unknown
from counterpoise.run.build import build_simulation
from counterpoise.run.store.record import summarise_rows
from counterpoise.server.cohort import Cohort


def load_data(
    name: str,
    imbalance: float | str | Mapping[str, Any] = 1.0,
    root: Path | str | None = None,
    imbalanced_test: bool = False,
    **arguments: Any,
) -> Dataset:
    """A data set by name, with an imbalance: the factor of a long tail, or ``{"step": {"factor": 10.0}}``.

    With `imbalanced_test` the test set has it too; else that stays as it is.
    """
    name, imbalance = check_arguments("load_data", load_data, name=name, imbalance=imbalance)
    whole = DATASETS.build(name, arguments)(None if root is None else Path(root))
    return apply_imbalance(whole, imbalance, test=imbalanced_test)


split = split_federation


@dataclass(frozen=True)
class Outcome(Mapping[str, Any]):
    """What a run came to: a summary by name, the rows of all rounds, and the trained module."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    module: nn.Module

    def __getitem__(self, key: str) -> Any:
        return self.summary[key]

    def __iter__(self) -> Any:
        return iter(self.summary)

    def __len__(self) -> int:
        return len(self.summary)


def simulate(
    federation: Federation,
    method: MethodSpec | Method = "fedavg",
    model: str | nn.Module = "mlp",
    *,
    rounds: Count = 50,
    seed: Seed = 0,
    evaluate_every: Count = 1,
    **settings: Any,
) -> Outcome:
    """Run a method on a federation in this process; ``settings`` are those of ``build_simulation``: local, cohort, engine."""
    legal = {*read_parameters(simulate), *read_parameters(build_simulation)}
    refuse_unknown("simulate", settings, legal, {"local": Local, "engine": EngineSettings, "cohort": Cohort})
    check_arguments("simulate", simulate, evaluate_every=evaluate_every)
    simulation = build_simulation(federation, method, model, rounds=rounds, seed=seed, **settings)
    rows, began = [], time.perf_counter()
    try:
        for state, outcome in simulation.run():
            due = state.round == simulation.rounds or state.round % evaluate_every == 0
            rows.append(outcome.row() | (simulation.evaluate(state) if due else {}))
    finally:
        simulation.close()
    summary = {
        "method": simulation.method.name,
        "seed": simulation.seed,
        "rounds": simulation.rounds,
        **summarise_rows(rows),
        "seconds": time.perf_counter() - began,
        "engine": simulation.settings.name,
        "device": simulation.settings.device,
        "params_sha256": digest({"params": state.params, "buffers": state.buffers}),
    }
    return Outcome(summary, rows, simulation.module(state))
