"""A simulation from its pieces, after checking that they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.probing import names_given
from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.data.augment import Augmentation
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings, build_engine, choose_device, resolve_engine
from counterpoise.engines.workplace import Engine, Workplace
from counterpoise.metrics import Shots, shots_of_counts
from counterpoise.metrics.probe import ProbeSpec, build_probes
from counterpoise.metrics.scoring import Scoring
from counterpoise.models.heads import Head
from counterpoise.parts.optimizer import with_local
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.registry.schema import Count, Seed
from counterpoise.registry.settings import check_arguments, settings_of
from counterpoise.run.checks import (
    check_apart,
    check_cohort_size,
    check_pieces,
    check_precision,
    check_scores,
    check_sizes,
    check_work,
)
from counterpoise.run.first_model import Start, first_module, fit_inputs
from counterpoise.run.pooling import pool
from counterpoise.run.simulation import Simulation
from counterpoise.server.cohort import Cohort

Connect = Callable[[EngineSettings, Workplace], Engine]  # resolved settings, workplace -> engine


def build_simulation(
    federation: Federation,
    method: MethodSpec | Method,
    model: str | nn.Module = "mlp",
    *,
    rounds: Count,
    local: Local | Mapping[str, Any] | None = None,
    cohort: Cohort | Mapping[str, Any] | int | None = None,
    seed: Seed = 0,
    engine: EngineSettings | Mapping[str, Any] | str | None = None,
    augment: Augmentation | None = None,
    scoring: Scoring | None = None,
    draw_parameters: bool = False,
    weights: str | Path | None = None,
    freeze: tuple[str, ...] = (),
    head: Head | None = None,
    privacy: PrivacySettings | Mapping[str, Any] | None = None,
    probes: Sequence[ProbeSpec] = (),
    patience: Count | None = None,
    connect: Connect = build_engine,
) -> Simulation:
    """Put the pieces together, checking that they fit; `connect` makes the engine, by default one in this process.

    A model given by name starts from parameters drawn for the seed; a module starts as it is, unless `draw_parameters`.
    `weights`, `freeze` and `head` are those of [model] in a config; frozen parameters of a module stay frozen.
    `probes` and `patience` are those of [evaluate], `privacy` is the table of this name.
    Settings may be a dict, as in a config; an engine may be its name and a cohort its size.
    """
    check_pieces(federation, model)
    plain = {"rounds": rounds, "seed": seed, "weights": weights, "freeze": freeze, "head": head}
    rounds, seed, weights, freeze, head, patience = check_arguments(
        "simulate", build_simulation, **plain, patience=patience
    )
    engine, cohort = settings_of(EngineSettings, engine, "name"), settings_of(Cohort, cohort, "size")
    local, privacy = settings_of(Local, local), settings_of(PrivacySettings, privacy)
    dtype: torch.dtype = getattr(torch, engine.dtype)
    check_sizes(local, rounds, dtype)
    check_cohort_size(cohort, federation)
    method = method if isinstance(method, Method) else build_method(method)
    check_apart(method, privacy, probes)
    method, federation = pool(method, federation, cohort, local, seed)
    federation = federation.to(choose_device(engine.device), dtype)
    composed = with_local(method, local)
    start = Start(draw_parameters, weights, freeze, head)
    module = first_module(composed, model, federation, dtype, seed, start)
    federation, trial = fit_inputs(module, federation, dtype, local.batch_size)
    functional = FunctionalModel(module, half=engine.precision == "bf16", **trial._asdict())
    check_precision(functional, engine, federation)
    local = local.resolve_batching(functional.mixes)
    work = Workplace(composed, functional, local, federation, seed, augment, privacy)
    check_work(work, cohort)
    resolved = resolve_engine(engine, work, cohort.size or len(federation.clients), rounds)
    scoring = scoring or Scoring(shots_by_counts(federation), federation.classes)
    check_scores(scoring, patience, federation)
    built = build_probes(probes)
    names_given(functional, federation, built)
    return Simulation(work, connect(resolved, work), resolved, cohort, rounds, scoring, built, patience)


def shots_by_counts(federation: Federation) -> Shots:
    """Head, medium and tail classes by the training samples of all clients, where such groups mean something."""
    counts = federation.class_counts()
    assert counts is not None  # a run whose groups go by the counts asks its clients for their sum
    return shots_of_counts(counts.tolist())
