"""Clients with their own data: federations of which each side sees only its part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.client.probing import check_samples
from counterpoise.core.rng import numpy_generator
from counterpoise.data import check
from counterpoise.data.dataset import DATASETS, Dataset, Samples, Source, no_scaling
from counterpoise.data.faults import check_share
from counterpoise.data.federation import Federation
from counterpoise.data.form import IMAGE_DIMENSIONS, DataForm
from counterpoise.data.own import kind_of, open_data
from counterpoise.data.sets.own import TableFile
from counterpoise.data.split import stratified_split
from counterpoise.data.tables.cells import Table, names_of
from counterpoise.data.tables.delimited import class_codes
from counterpoise.data.tables.encoder import Encoder
from counterpoise.data.tables.identifiers import drop_key
from counterpoise.data.tables.table import fitted_table, open_table
from counterpoise.errors import ConfigError, DataError, RunError, listed
from counterpoise.flower.data_form import NAME, form_text, read_description, read_form
from counterpoise.flower.messages import Hello
from counterpoise.metrics.probe import build_probes
from counterpoise.run.assemble import load_dataset
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.config.tables import DataTable


class ServerData(NamedTuple):
    """The form that clients receive, and the test set that the server keeps."""

    form: DataForm
    test: Samples
    notes: tuple[str, ...] = ()  # how a table's columns were encoded
    warnings: tuple[str, ...] = ()  # columns of a table that look like a mistake


def describe_form(experiment: Experiment) -> str:
    """The form of the server's own data, as clients receive it; a probe needs samples of it."""
    own = server_data(experiment)
    for probe in build_probes(experiment.evaluate.probes or ()):
        check_samples(own.test, probe)
    return form_text(own.form)


def refuse_unused_keys(experiment: Experiment) -> None:
    """What would be done to data that the server does not have: left alone, it would seem to have been done."""
    table = experiment.data
    given = {
        "data.validation": table.validation > 0,
        "data.imbalance": table.imbalance != DataTable().imbalance,
        "data.imbalanced_test": table.imbalanced_test,
        "evaluate.threshold, which validation samples of the server would choose,": experiment.evaluate.threshold
        is not None,
    }
    for key, used in given.items():
        if used:
            raise ConfigError(
                f"{key} must be left out where clients bring their own data (flower.clients): the server has no training samples"
            )


def server_data(experiment: Experiment, drop: Callable[[str], str] = drop_key) -> ServerData:
    """All rows of a table are the test set; it is empty where the config describes the form.

    `drop` says in notes how to leave a column out.
    """
    if experiment.data.name == NAME:
        form = read_description(experiment.data.arguments)
        return ServerData(form, form.no_samples())
    if experiment.data.name == "table":
        return _server_table(experiment, drop)
    data = load_dataset(experiment.data)
    pixels = data.train.x.dtype == torch.uint8
    return ServerData(DataForm(data.classes, data.input_shape, pixels, data.scaling), data.test)


def _server_table(experiment: Experiment, drop: Callable[[str], str]) -> ServerData:
    """The encoder is fitted on the rows that `run` would train on, so that both encode a row the same way."""
    given = experiment.data.arguments
    for key in ("path", "label"):
        if key not in given:
            raise ConfigError(f"data.{key} is missing; needs the server's own table and its label column")
    file = DATASETS.entry("table").build({**given, "seed": experiment.data.seed}, owner="data")
    assert isinstance(file, TableFile)
    root = None if experiment.data.root is None else Path(experiment.data.root)
    fitted = fitted_table(*file.below(root), drop)
    form = DataForm(
        fitted.classes.names, (fitted.encoder.width,), False, no_scaling(), given["label"], fitted.encoder
    )
    return ServerData(form, fitted.samples, fitted.notes, fitted.warnings)


def own_federation(data: str, reading: Mapping[str, Any], text: str, number: int, clients: int) -> Federation:
    """A client's own files as a federation in which only this client has data."""
    form, path, share = read_form(text), Path(data), float(reading.get("test_share", 0.2))
    check_share(share)
    if kind_of(path) == "table":
        if form.columns is None:
            raise DataError(f"{path} is a table, but the server's data is not")
        samples = _encode(open_table(path), form.columns, form.classes, reading.get("label") or form.label)
        train, held_out = _split(samples.y, share)
    else:
        size = (form.shape[1], form.shape[2]) if len(form.shape) == IMAGE_DIMENSIONS else None
        samples, train, held_out = _from_dataset(open_data(path, size=size, test_share=share), form)
    _check_fit(path, samples, form)
    nothing = torch.empty(0, dtype=torch.int64)
    rows, held = ([nothing] * clients for _ in range(2))
    rows[number], held[number] = train, held_out
    test = samples.take(held_out if len(held_out) else train)  # that it is measured on
    return Federation(samples, test, form.classes, form.scaling, tuple(rows), tuple(held), name="own data")


def _encode(table: Table, columns: Encoder, classes: tuple[str, ...], label: str | None) -> Samples:
    """The rows of a client's table in the server's encoding; errors name a missing column or an unknown class."""
    if label is None or label not in table.columns:
        raise DataError(f"{table.path}: no column {label!r}, which the server's description has")
    coded = names_of(table, label)
    y = class_codes(np.array(coded.names)[coded.codes], classes, table.path)
    return Samples(torch.from_numpy(columns.transform(table).x), torch.from_numpy(y))


def _split(y: Tensor, share: float) -> tuple[Tensor, Tensor]:
    split = stratified_split(y.numpy(), share, numpy_generator(0, "test rows"))
    return torch.from_numpy(split.train), torch.from_numpy(split.test)


def _from_dataset(data: Dataset, form: DataForm) -> tuple[Samples, Tensor, Tensor]:
    """A data set with its classes renumbered as the server's; its test samples are held out."""
    unknown = [name for name in data.classes if name not in form.classes]
    if unknown:
        raise DataError(f"{data.name}: class {unknown[0]!r} must be one of {listed(form.classes)}")
    places = torch.tensor([form.classes.index(name) for name in data.classes])
    if data.assignment is not None:
        rows = [torch.cat([torch.from_numpy(r) for r in part]) for part in data.assignment[:2] if len(part)]
        held = rows[1] if len(rows) > 1 else torch.empty(0, dtype=torch.int64)
        return Samples(_coloured(data.train.x, form), places[data.train.y]), rows[0], held
    x, y = torch.cat([data.train.x, data.test.x]), torch.cat([data.train.y, data.test.y])
    count = len(data.train.y)
    return Samples(_coloured(x, form), places[y]), torch.arange(count), torch.arange(count, len(y))


def _coloured(x: Tensor, form: DataForm) -> Tensor:
    """Grey images repeated over the channels that the server's images have."""
    grey = x.dtype == torch.uint8 and x.dim() == 1 + IMAGE_DIMENSIONS and x.shape[1] == 1
    return x.expand(-1, form.shape[0], -1, -1).contiguous() if grey else x


def _check_fit(path: Path, samples: Samples, form: DataForm) -> None:
    fits = (
        check.is_whole(samples.x) if form.scaling.whole else (samples.x.dtype == torch.uint8) == form.pixels
    )
    if tuple(samples.x.shape[1:]) != form.shape or not fits:
        kind = "bytes" if form.pixels else "whole numbers" if form.scaling.whole else "floats"
        raise DataError(
            f"{path}: samples are {tuple(samples.x.shape[1:])} {samples.x.dtype}; needs {form.shape} {kind}"
        )


@dataclass(frozen=True)
class GreetedFederation(Federation):
    """A federation of which the server has the test set, its clients' sizes, and class counts where it asked for them."""

    sizes: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))  # [N]
    told: Tensor | None = None  # [N, C]
    total: Tensor | None = None  # [C]

    def samples(self) -> Tensor:
        return self.sizes

    def counts(self) -> Tensor:
        raise RunError("the server does not hold its clients' samples; what they told it is in client_counts")

    def client_counts(self) -> Tensor | None:
        return self.told

    def class_counts(self) -> Tensor | None:
        return self.total if self.told is None else self.told.sum(0)


def greeted_federation(experiment: Experiment, text: str, hellos: Sequence[Hello]) -> GreetedFederation:
    """What the server knows of its clients after their greetings."""
    form, own = read_form(text), server_data(experiment)
    test = own.test
    nothing = torch.empty(0, dtype=torch.int64)
    return GreetedFederation(
        train=Samples(test.x[:0], test.y[:0]),
        test=test,
        classes=form.classes,
        scaling=form.scaling,
        clients=(nothing,) * len(hellos),
        held_out=tuple(torch.arange(hello.held_out) for hello in hellos),
        name="clients' own data",
        notes=(*own.notes, *own.warnings),
        client_names=tuple(hello.client for hello in hellos),
        sizes=torch.tensor([hello.samples for hello in hellos]),
        source=Source(form.label, form.columns),
    )


def foreseen_federation(experiment: Experiment) -> GreetedFederation:
    """Before anybody has connected: clients of one sample each, and of each class one."""
    hellos = [Hello(name, 1, 1, share="", surveys={}) for name in experiment.flower.clients]
    foreseen = greeted_federation(experiment, describe_form(experiment), hellos)
    return replace(foreseen, total=torch.ones(len(foreseen.classes), dtype=torch.int64))
