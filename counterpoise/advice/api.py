"""Advice from Python, on a federation in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from counterpoise.advice.advise import advise_on, check_minutes
from counterpoise.advice.outlook import look
from counterpoise.advice.page import Advice, write_advice
from counterpoise.advice.race import Board
from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.data.own import write_pack
from counterpoise.data.prepare import pack_federation
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Count, Seed
from counterpoise.registry.settings import check_arguments
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.store.folder import ADVICE, check_alone
from counterpoise.sweep.run import default_execution

PACK = "data.safetensors"


def advise(
    federation: Federation | Experiment,
    minutes: float = 5.0,
    goal: str = "balanced_accuracy",
    *,
    model: str | Mapping[str, Any] = "mlp",
    rounds: Count = 50,
    seed: Seed = 0,
    processes: int | None = None,
    out: Path | str | None = None,
    show: Callable[[Board], None] = lambda board: None,
    **tables: Any,
) -> Advice:
    """Which method for this federation: candidates raced on validation samples, and a recommendation.

    `model` is a name, or a table with its arguments; further tables are those of an experiment: local, cohort.
    What runs is kept in `out`, by default a new temporary folder; the same call with the same folder goes on after a stop.
    """
    check_minutes(minutes)
    check_arguments("advise", advise, rounds=rounds, seed=seed)
    folder = Path(tempfile.mkdtemp(prefix="counterpoise-advice-") if out is None else out)
    if isinstance(federation, Experiment):
        experiment = federation
    else:
        named = {"name": model} if isinstance(model, str) else dict(model)
        given = {"rounds": rounds, "seed": seed, "model": named, **tables}
        experiment = make_experiment(given | {"data": _pack(federation, folder)}, "advise")
    outlook, course = look(experiment, goal)
    execution = default_execution(processes)
    return write_advice(advise_on(outlook, course, folder, minutes, execution, show), folder)


def _pack(federation: Federation, folder: Path) -> dict[str, Any]:
    """The federation as a file, which processes that run trials can read."""
    if not isinstance(federation, Federation):
        raise ConfigError(
            f"advise: federation must be a Federation, such as split returns, not {type(federation).__name__}"
        )
    federation.check_samples()
    check_alone(folder, ADVICE)
    folder.mkdir(parents=True, exist_ok=True)
    # A copy: a file takes no two tensors that share memory, such as halves of one array.
    packed = pack_federation(replace(federation, test=Samples(*(half.clone() for half in federation.test))))
    assert packed.assignment is not None
    write_pack(packed, packed.assignment, folder / PACK, {})
    return {"name": "pack", "path": str((folder / PACK).absolute())}
