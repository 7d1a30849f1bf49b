"""Pieces of a run that do not fit each other, told in one line before round 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import enroll
from counterpoise.core.local import Local
from counterpoise.core.method import Method
from counterpoise.core.rounds import counted
from counterpoise.core.tree import bytes_of
from counterpoise.data.federation import Federation
from counterpoise.engines.arithmetic import multiplies_bfloat16
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.rehearsal import try_questions
from counterpoise.engines.sums import check_sums
from counterpoise.engines.workplace import Workplace, check_replies_fit
from counterpoise.errors import ConfigError, short
from counterpoise.metrics.probe import ProbeSpec
from counterpoise.metrics.scoring import Scoring
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.server.cohort import Cohort
from counterpoise.system.capacity import check_fits

TABLES = 2 * 8  # bytes per cell of two int64 confusion tables: the total, and that of a batch


def check_pieces(federation: Any, model: Any) -> None:
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


def check_cohort_size(cohort: Cohort, federation: Federation) -> None:
    clients = len(federation.clients)
    if (cohort.size or 0) > clients:
        raise ConfigError(f"cohort.size must be at most {clients}, the number of clients, not {cohort.size}")


def check_apart(method: Method, privacy: PrivacySettings, probes: Sequence[ProbeSpec]) -> None:
    """Refuse what a run without one federated model cannot give."""
    if method.alone is not None and probes:
        raise ConfigError(
            f"evaluate.probes look at one model, and with {method.alone.name} every client has its own; leave them out"
        )
    if method.pools is not None and privacy.in_messages:
        raise ConfigError(
            f"{method.pools.name} puts all samples in one place, which [privacy] hides; use only one of them"
        )


def check_work(work: Workplace, cohort: Cohort) -> None:
    """Refuse a method that lacks what it needs of model, samples or cohort."""
    _check_search(work.method, work.federation, cohort)
    _check_server_samples(work.method, work.federation)
    _check_private(work.method, work.model)
    try_questions(work)
    check_sums(work)
    _check_cohort(work, cohort)


def check_scores(scoring: Scoring, patience: int | None, federation: Federation) -> None:
    """Refuse scores for which there are no samples."""
    _check_scoring(scoring, federation)
    _check_threshold(scoring, federation)
    _check_patience(patience, federation, scoring)


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


def check_sizes(local: Local, rounds: int, dtype: torch.dtype) -> None:
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


def check_precision(model: FunctionalModel, settings: EngineSettings, federation: Federation) -> None:
    device = federation.train.x.device
    if device.type == "cpu" and settings.precision == "tf32":
        raise ConfigError("engine.precision must be 'full' or 'bf16' on a CPU, not 'tf32', which needs a GPU")
    if device.type == "cpu" and settings.precision == "bf16" and not multiplies_bfloat16():
        raise ConfigError(
            "engine.precision must be 'full' on this CPU, not 'bf16', which needs a GPU or a processor with AVX-512 BF16 or AMX"
        )
    if model.half and model.dtype != torch.float32:
        raise ConfigError(f"engine.precision must be 'full' or 'tf32' with {model.dtype}, not 'bf16'")
