"""A simulation from its pieces, after checking that they fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.probing import names_given
from counterpoise.client.round import enroll
from counterpoise.client.trial import refuse_lazy
from counterpoise.core.local import Local
from counterpoise.core.method import Method, MethodSpec, build_method
from counterpoise.core.rng import generator
from counterpoise.core.rounds import counted
from counterpoise.core.tree import bytes_of
from counterpoise.data.augment import Augmentation
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings, build_engine, choose_device, resolve_engine
from counterpoise.engines.rehearsal import try_questions
from counterpoise.engines.sums import check_sums
from counterpoise.engines.workplace import Engine, Workplace, check_replies_fit
from counterpoise.errors import ConfigError, short
from counterpoise.metrics import Shots, shots_of_counts
from counterpoise.metrics.probe import ProbeSpec, build_probes
from counterpoise.metrics.scoring import Scoring
from counterpoise.models.heads import Head
from counterpoise.parts.optimizer import with_local
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.registry.schema import Count, Seed
from counterpoise.registry.settings import check_arguments, settings_of
from counterpoise.run.first_model import adapt_model, build_named_model, first_inputs, fit_inputs, start_from
from counterpoise.run.pooling import pool
from counterpoise.run.simulation import Simulation
from counterpoise.server.cohort import Cohort
from counterpoise.system.capacity import check_fits

TABLES = 2 * 8  # bytes per cell of two int64 confusion tables: the total, and that of a batch
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
    _check_pieces(federation, model)
    rounds, seed = check_arguments("simulate", build_simulation, rounds=rounds, seed=seed)
    weights, freeze, head, patience = check_arguments(
        "simulate", build_simulation, weights=weights, freeze=freeze, head=head, patience=patience
    )
    settings = settings_of(EngineSettings, engine, "name")
    dtype: torch.dtype = getattr(torch, settings.dtype)
    local = settings_of(Local, local)
    _check_sizes(local, rounds, dtype)
    cohort = settings_of(Cohort, cohort, "size")
    _check_cohort_size(cohort, federation)
    method = method if isinstance(method, Method) else build_method(method)
    hidden = settings_of(PrivacySettings, privacy)
    _check_apart(method, hidden, probes)
    method, federation, cohort = pool(method, federation, cohort, local, seed)
    federation = federation.to(choose_device(settings.device), dtype)
    composed = with_local(method, local)
    if isinstance(model, str):
        shape, count = federation.input_shape, len(federation.classes)
        model, draw_parameters = build_named_model(model, {}, shape, count, seed)
    refuse_lazy(model)
    place = federation.train.x.device, dtype
    example, classes = partial(first_inputs, federation, place), len(federation.classes)
    stream = generator(seed, "init")
    module = adapt_model(composed, model, stream, draw_parameters, head, freeze, place, example, classes)
    start_from(module, weights)
    federation, draws = fit_inputs(module, federation, dtype, local.batch_size)
    functional = FunctionalModel(module, half=settings.precision == "bf16", draws=draws)
    local = local.resolve_batching(functional.has_batch_norm)
    _check_precision(functional, settings, federation)
    _check_search(composed, federation, cohort)
    _check_server_samples(composed, federation)
    _check_private(composed, functional)
    work = Workplace(composed, functional, local, federation, seed, augment, hidden)
    try_questions(work)
    check_sums(work)
    _check_cohort(work, cohort)
    resolved = resolve_engine(settings, work, cohort.size or len(federation.clients), rounds)
    scoring = scoring or Scoring(shots_by_counts(federation), federation.classes)
    _check_scoring(scoring, federation)
    _check_threshold(scoring, federation)
    _check_patience(patience, federation, scoring)
    looks = build_probes(probes)
    names_given(functional, federation, looks)
    return Simulation(
        composed, work, connect(resolved, work), resolved, cohort, rounds, seed, scoring, looks, patience
    )


def shots_by_counts(federation: Federation) -> Shots:
    """Head, medium and tail classes by the training samples of all clients, where such groups mean something."""
    counts = federation.class_counts()
    assert counts is not None  # a run whose groups go by the counts asks its clients for their sum
    return shots_of_counts(counts.tolist())


def _check_pieces(federation: Any, model: Any) -> None:
    if not isinstance(federation, Federation):
        raise ConfigError(
            f"simulate: federation must be a Federation, as split(data, ...) returns, not {type(federation).__name__}"
        )
    if not isinstance(model, str | nn.Module):
        raise ConfigError(f"simulate: model must be the name of a model or an nn.Module, not {short(model)}")
    federation.check_samples()
    count = len(federation.classes)
    check_fits(TABLES * count**2, f"{count:,} classes: the table of true and predicted classes")
    if not int(federation.samples().sum()):
        raise ConfigError("no client has any sample to train on")


def _check_cohort_size(cohort: Cohort, federation: Federation) -> None:
    clients = len(federation.clients)
    if (cohort.size or 0) > clients:
        raise ConfigError(f"cohort.size must be at most {clients}, the number of clients, not {cohort.size}")


def _check_apart(method: Method, privacy: PrivacySettings, probes: Sequence[ProbeSpec]) -> None:
    """Refuse what a run without one federated model cannot give."""
    if method.alone is not None and probes:
        raise ConfigError(
            f"evaluate.probes look at one model, and with {method.alone.name} every client has its own; leave them out"
        )
    if method.pools is not None and privacy.in_messages:
        raise ConfigError(
            f"{method.pools.name} puts all samples in one place, which [privacy] hides; use only one of them"
        )


def _check_scoring(scoring: Scoring, federation: Federation) -> None:
    asked = next((key for key in ("clients", "personal") if getattr(scoring, key)), None)
    if asked and not federation.holders():
        raise ConfigError(
            f"evaluate.{asked} needs samples that clients hold out: partition.validation must be above 0"
        )
    if not scoring.clients and not len(federation.test.y):
        raise ConfigError("there is no test set to score on; without one, evaluate.clients must be true")


def _check_threshold(scoring: Scoring, federation: Federation) -> None:
    if scoring.threshold is None:
        return
    if scoring.positive is None:
        raise ConfigError(
            "evaluate.threshold needs a positive class: data.positive must name one of two classes"
        )
    held = set() if federation.validation is None else {*federation.validation.y.tolist()}
    lacking = [name for place, name in enumerate(federation.classes) if place not in held]
    if lacking:
        raise ConfigError(
            f"evaluate.threshold is chosen on the server's validation samples, and there are none of class {short(lacking[0])}: data.validation must be {'above 0' if not held else 'larger'}"
        )


def _check_patience(patience: int | None, federation: Federation, scoring: Scoring) -> None:
    if patience is not None and federation.validation is None and not scoring.clients:
        raise ConfigError(
            f"patience = {patience} needs a validation score: data.validation above 0 (in Python: server_validation of split), or evaluate.clients"
        )


def _check_cohort(work: Workplace, cohort: Cohort) -> None:
    """Refuse a cohort whose replies do not fit in memory: one model per reply, and two copies of client memory."""
    if work.device.type != "cpu":  # on a GPU the engine stacks fewer clients when out of memory
        return
    asked = len(cohort.draw(work.seed, 0, work.federation.samples()))
    params, buffers = work.model.params(), work.model.buffers()
    kept = bytes_of(enroll(work.method, params, buffers, len(work.federation.classes)))
    check_replies_fit(asked, bytes_of(params) + bytes_of(buffers) + 2 * kept)


def _check_search(method: Method, federation: Federation, cohort: Cohort) -> None:
    """A search needs all clients, and validation samples that nobody trains on."""
    search, clients = method.owner("choose"), len(federation.clients)
    if search is None:
        return
    if cohort.size is not None and cohort.size < clients:
        raise ConfigError(
            f"{search.name} needs all {clients} clients in every round, not cohort.size = {cohort.size}; leave [cohort] out"
        )
    if federation.validation is None and not federation.holders():
        raise ConfigError(
            f"{search.name} needs samples to compare models on: data.validation or partition.validation must be above 0"
        )


def _check_server_samples(method: Method, federation: Federation) -> None:
    learner = next((part.name for part in method.parts if part.server_samples), None)
    if learner is not None and federation.validation is None:
        raise ConfigError(
            f"{learner} learns from samples of the server here: data.validation must be above 0"
        )


def _check_private(method: Method, model: FunctionalModel) -> None:
    guard, buffers = method.guard, sorted(model.buffers())
    if guard is not None and buffers:
        raise ConfigError(
            f'{guard.name} protects only the updates, and the model\'s running statistics ({buffers[0]}) would be averaged unprotected; use GroupNorm: model.norm = "group"'
        )


def _check_sizes(local: Local, rounds: int, dtype: torch.dtype) -> None:
    """Learning rates and weight decay must be finite in the model's dtype; a schedule is checked up to its last round."""
    last = local.rate(rounds - 1, rounds)
    given = {
        "lr": local.lr,
        "weight_decay": local.weight_decay,
        f"schedule: the rate of round {counted(rounds - 1)}": last,
    }
    most = torch.finfo(dtype).max if dtype.is_floating_point else math.inf
    for key, value in given.items():
        if not abs(value) <= most:
            raise ConfigError(
                f"local.{key} must be at most {most:.4g} in size with {str(dtype).removeprefix('torch.')}, not {value:g}"
            )


def _check_precision(model: FunctionalModel, settings: EngineSettings, federation: Federation) -> None:
    if settings.precision != "full" and not federation.train.x.is_cuda:
        raise ConfigError(
            f"engine.precision must be 'full' on {federation.train.x.device}, not {settings.precision!r}, which needs a GPU"
        )
    if model.half and model.dtype != torch.float32:
        raise ConfigError(f"engine.precision must be 'full' or 'tf32' with {model.dtype}, not 'bf16'")
