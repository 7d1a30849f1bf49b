"""From a config to the things it names: data, clients, and a simulation ready to run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from counterpoise.core.codec import encode
from counterpoise.core.method import build_named
from counterpoise.data.augment import AUGMENTATIONS, Augmentation, compose
from counterpoise.data.dataset import DATASETS, Dataset
from counterpoise.data.federation import Federation
from counterpoise.data.prepare import apply_imbalance, split_federation
from counterpoise.experiment.config import DataTable, Experiment, Named
from counterpoise.functional import FunctionalModel
from counterpoise.metrics import shots_paper
from counterpoise.models.model import MODELS
from counterpoise.simulation import Simulation, build_simulation


def load_dataset(table: DataTable) -> Dataset:
    """The data set with its imbalance."""
    root = None if table.root is None else Path(table.root)
    whole = DATASETS.build(table.name, table.arguments)(root)
    return apply_imbalance(whole, table.imbalance, table.seed)


def load_federation(experiment: Experiment) -> Federation:
    """The data of an experiment, cut into clients."""
    table = experiment.partition
    return split_federation(
        load_dataset(experiment.data),
        table.name,
        table.clients,
        seed=experiment.seed if table.seed is None else table.seed,
        validation=table.validation,
        server_validation=experiment.data.validation,
        validation_seed=experiment.data.seed,
        **table.arguments,
    )


def assemble(
    experiment: Experiment, federation: Federation | None = None, model: nn.Module | None = None
) -> Simulation:
    """The simulation of an experiment; data and model may be the user's own."""
    federation = federation or load_federation(experiment)
    shape, classes = federation.input_shape, len(federation.classes)
    builder = MODELS.build(experiment.model.name, experiment.model.arguments)
    module = model or builder(shape, classes)
    return build_simulation(
        federation,
        experiment.build_method(),
        module,
        rounds=experiment.rounds,
        local=experiment.build_local(FunctionalModel(module).has_batch_norm),
        cohort=experiment.build_cohort(),
        seed=experiment.seed,
        engine=experiment.engine_settings(),
        augment=build_augmentation(experiment.data.augment),
        shots=shots_paper(federation.name) if experiment.evaluate.shots == "paper" else None,
        dtype=getattr(torch, experiment.engine.dtype),
        draw_parameters=model is None,
    )


def build_augmentation(specs: Sequence[Named]) -> Augmentation | None:
    return compose(*(build_named(AUGMENTATIONS, spec) for spec in specs)) if specs else None


def fingerprint(federation: Federation) -> str:
    """SHA-256 of everything that is trained, tested and validated on, and of who holds it."""
    tree = {
        "train": federation.train._asdict(),
        "test": federation.test._asdict(),
        "validation": {} if federation.validation is None else federation.validation._asdict(),
        "clients": {str(k): rows for k, rows in enumerate(federation.clients)},
        "held_out": {str(k): rows for k, rows in enumerate(federation.held_out)},
    }
    return hashlib.sha256(encode(tree) + "\n".join(federation.classes).encode()).hexdigest()
