"""From a config to the things it names: data, clients, and a simulation ready to run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from counterpoise.core.codec import encode
from counterpoise.core.method import build_named
from counterpoise.data.augment import AUGMENTATIONS, Augmentation, compose
from counterpoise.data.dataset import Dataset
from counterpoise.data.federation import Federation
from counterpoise.data.prepare import assigned_federation, load_data, split_federation
from counterpoise.engines.choose import build_engine
from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.metrics import shots_from_sets, shots_paper
from counterpoise.metrics.scoring import Scoring
from counterpoise.registry.schema import Named
from counterpoise.run.build import Connect, build_simulation, shots_by_counts
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.config.tables import DataTable, EvaluateTable, PartitionTable, ThresholdTable
from counterpoise.run.first_model import build_named_model
from counterpoise.run.simulation import Simulation


def load_dataset(table: DataTable) -> Dataset:
    """The data set of a config with its imbalance."""
    given = table.imbalance, table.root, table.imbalanced_test, table.seed
    return load_data(table.name, *given, **table.arguments)


def load_federation(experiment: Experiment, data: Dataset | None = None) -> Federation:
    """The data of an experiment, cut into clients; `data` where it is loaded already."""
    data = load_dataset(experiment.data) if data is None else data
    table = experiment.partition
    if data.assignment is not None:
        _check_assigned(experiment, data)
        return assigned_federation(data)
    return split_federation(
        data,
        table.name,
        table.clients,
        seed=experiment.seed if table.seed is None else table.seed,
        validation=table.validation,
        server_validation=experiment.data.validation,
        validation_seed=experiment.data.seed,
        **table.arguments,
    )


def _check_assigned(experiment: Experiment, data: Dataset) -> None:
    """A pack is prepared already: settings that prepare data would silently do nothing."""
    assert data.assignment is not None
    packed = {"name": "packed", "clients": len(data.assignment.clients)}
    given = experiment.partition.given()
    if any(packed.get(key) != value for key, value in given.items() if value is not None and value != 0.0):
        raise ConfigError(
            f"partition = {short(given)} does not go with a pack, which is cut into clients already; leave [partition] out"
        )
    if experiment.data.imbalance != 1.0 or experiment.data.imbalanced_test or experiment.data.validation:
        raise ConfigError(
            "data.imbalance, data.imbalanced_test and data.validation do not go with a pack, which has its own; leave them out"
        )


def assemble(
    experiment: Experiment,
    federation: Federation | None = None,
    model: nn.Module | None = None,
    connect: Connect = build_engine,
) -> Simulation:
    """The simulation of an experiment; a federation or model given here replaces that of the config."""
    federation = federation or load_federation(experiment)
    shape, classes = federation.input_shape, len(federation.classes)
    named, seed = experiment.model, experiment.seed
    module, drawn = (
        (model, False)
        if model is not None
        else build_named_model(named.name, named.arguments, shape, classes, seed)
    )
    return build_simulation(
        federation,
        experiment.build_method(),
        module,
        rounds=experiment.rounds,
        local=experiment.local,
        cohort=experiment.cohort,
        seed=experiment.seed,
        engine=experiment.engine,
        augment=build_augmentation(experiment.data.augment),
        scoring=build_scoring(experiment.evaluate, federation, _positive(experiment, federation)),
        draw_parameters=drawn,
        weights=experiment.model.weights,
        freeze=tuple(experiment.model.freeze or ()),
        head=experiment.model.head,
        privacy=experiment.privacy,
        probes=tuple(experiment.evaluate.probes or ()),
        patience=experiment.evaluate.patience,
        connect=connect,
    )


def resolve(experiment: Experiment, simulation: Simulation) -> Experiment:
    """The experiment with every choice filled in (engine, batching, clients), as the run's config.toml keeps it."""
    local = replace(experiment.local, batching=simulation.work.local.batching)
    clients = len(simulation.work.federation.clients)
    packed = PartitionTable(name="packed", clients=clients)
    given = replace(experiment.partition, clients=clients)
    partition = packed if experiment.data.name == "pack" else given
    return replace(experiment, engine=simulation.settings, local=local, partition=partition)


def build_scoring(table: EvaluateTable, federation: Federation, positive: int | None = None) -> Scoring:
    """How models are scored, as the config says."""
    if isinstance(table.shots, str):
        rule = table.shots == "rule"
        shots = shots_by_counts(federation) if rule else shots_paper(federation.name)
    else:
        shots = shots_from_sets(**table.shots.tables(), classes=len(federation.classes))
    given = {"recall_weights": table.recall_weights, "precision_weights": table.precision_weights}
    for name, weights in given.items():
        if weights and len(weights) != len(federation.classes):
            raise ConfigError(
                f"evaluate.{name} must have {len(federation.classes)} numbers, one per class, not {len(weights)}"
            )
    return Scoring(
        shots,
        federation.classes,
        **given,
        clients=table.clients,
        personal=table.personal,
        positive=positive,
        threshold=table.threshold.precision
        if isinstance(table.threshold, ThresholdTable)
        else table.threshold,
    )


def _positive(experiment: Experiment, federation: Federation) -> int | None:
    """The positive class; a table's may be a number, which names a class as it is spelled."""
    given, classes = experiment.data.positive, federation.classes
    if given is None:
        return None
    name = str(given)
    if len(classes) != 2:
        raise ConfigError(
            f"data.positive = {short(name)} needs two classes; {federation.name} has {len(classes)}"
        )
    if name not in classes:
        raise ConfigError(f"data.positive: no class {short(name)}; {legal_words(name, classes)}")
    return classes.index(name)


def build_augmentation(specs: Sequence[Named]) -> Augmentation | None:
    return compose(*(build_named(AUGMENTATIONS, spec) for spec in specs)) if specs else None


def fingerprint(federation: Federation) -> str:
    """SHA-256 of all training, test and validation samples, and of which client holds which."""
    tree = {
        "scaling": federation.scaling._asdict(),
        "train": federation.train._asdict(),
        "test": federation.test._asdict(),
        "validation": {} if federation.validation is None else federation.validation._asdict(),
        "clients": {str(k): rows for k, rows in enumerate(federation.clients)},
        "held_out": {str(k): rows for k, rows in enumerate(federation.held_out)},
    }
    return hashlib.sha256(encode(tree) + "\n".join(federation.classes).encode()).hexdigest()
