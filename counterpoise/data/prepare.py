"""From a data set to a federation: imbalance, the server's validation share, the partition, the clients' own share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from counterpoise.core.method import build_named
from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import DATASETS, Assignment, Dataset, Samples
from counterpoise.data.federation import Federation
from counterpoise.data.held_out import hold_out, take_share, validation_notes
from counterpoise.data.imbalances import IMBALANCES, Imbalance, imbalance_ratio
from counterpoise.data.partition import NATURAL, PARTITIONS, usual_clients
from counterpoise.data.skew import class_sizes, imbalance_of
from counterpoise.data.types import Labels
from counterpoise.errors import ConfigError, short
from counterpoise.registry.schema import ProperFraction, Seed
from counterpoise.registry.settings import check_arguments


def load_data(
    name: Any,
    imbalance: float | str | Mapping[str, Any] = 1.0,
    root: Path | str | None = None,
    imbalanced_test: bool = False,
    seed: Seed = 0,
    **arguments: Any,
) -> Dataset:
    """A data set by name, with an imbalance: the factor of a long tail, or ``{"step": {"factor": 10.0}}``.

    Or what a program holds: ``load_data(frame, label="outcome", client="hospital")``, a torch data set with `test` or
    `test_share`, a Hugging Face data set with `label`, or the ``Path`` of a file or folder.
    With `imbalanced_test` the test set has it too; else that stays as it is. `seed` draws which samples are kept, and
    the test set, where the data comes without one.
    """
    imbalance, seed = check_arguments("load_data", load_data, imbalance=imbalance, seed=seed)
    if isinstance(name, str):  # always a name: that of a config must not open files
        if Path(name).suffix:
            raise ConfigError(f"load_data: no data set {short(name)}; a file is given as Path({short(name)})")
        drawn = {"seed": seed} if "seed" in DATASETS.entry(name).parameters else {}
        whole = DATASETS.build(name, arguments | drawn)(None if root is None else Path(root))
    else:
        from counterpoise.data.own.in_memory import in_memory  # which needs Pillow and others

        whole = in_memory(name, arguments, seed)
    return apply_imbalance(whole, imbalance, seed, imbalanced_test)


def apply_imbalance(
    data: Dataset, imbalance: float | str | Mapping[str, Any], seed: int = 0, test: bool = False
) -> Dataset:
    """Keep the training rows that an imbalance keeps; a number is the factor of an exponential long tail.

    `test`: the test set too, as FedCGNM does with Adult; else it stays as it is.
    """
    data, asked = data.fitted(), None
    if isinstance(imbalance, float | int):
        if not imbalance > 0:
            raise ConfigError(
                f"data.imbalance must be above 0, largest over smallest class, not {imbalance!r}"
            )
        asked = imbalance_ratio(imbalance)
        if asked == 1:
            return data
        imbalance = {"longtail": {"factor": asked}}
    rule = build_named(IMBALANCES, imbalance)
    if data.official and imbalance != "natural":
        _check_enough(data, rule, seed, imbalance if asked is None else asked)
    kept = data.keep(torch.from_numpy(rule(labels_of(data), numpy_generator(seed, "imbalance"))))
    notes = (*data.notes, f"imbalance: {imbalance}" if asked is None else _tail_note(kept, asked))
    if not test:
        return replace(kept, notes=notes)
    labels = Labels(data.test.y.numpy(), len(data.classes))
    rows = torch.from_numpy(rule(labels, numpy_generator(seed, "imbalance-test")))
    return replace(kept, test=data.test.take(rows), notes=(*notes, "the test set has the same imbalance"))


def _check_enough(data: Dataset, rule: Imbalance, seed: int, imbalance: Any) -> None:
    """Refuse an imbalance that keeps more of the official set than is here: it would silently be another one."""
    whole = np.repeat(np.arange(len(data.classes)), data.official)
    kept = rule(Labels(whole, len(data.classes)), numpy_generator(seed, "imbalance"))
    wanted, here = np.bincount(whole[kept], minlength=len(data.classes)), class_sizes(labels_of(data))
    lacking = np.flatnonzero(wanted > here)
    if len(lacking):
        first = lacking[0]
        raise ConfigError(
            f"data.imbalance = {short(imbalance)} needs {wanted[first]:,} training samples of class {data.classes[first]!r}, "
            f"but this part of {data.name} has {here[first]:,}; needs a long tail of at least its own {imbalance_of(here):g}, or natural"
        )


def labels_of(data: Dataset) -> Labels:
    groups = None if data.clients is None else data.clients.numpy()
    return Labels(data.train.y.numpy(), len(data.classes), groups)


def split_federation(
    data: Dataset,
    partition: str = "dirichlet",
    clients: int | None = None,
    *,
    seed: Seed = 0,
    validation: ProperFraction = 0.0,
    server_validation: ProperFraction = 0.0,
    validation_seed: Seed = 0,
    **arguments: Any,
) -> Federation:
    """Split the training set among clients: the server's validation share is taken before, the clients' held-out shares after.

    `clients` is 10 where it is not given, and with the partition natural all that the data has.
    """
    data = _ready_to_split(data)
    clients = usual_clients(partition) if clients is None else clients
    check_arguments("split", split_federation, partition=partition, clients=clients, seed=seed)
    shares = {"validation": validation, "server_validation": server_validation}
    check_arguments("split", split_federation, **shares, validation_seed=validation_seed)
    if data.assignment is not None:
        raise ConfigError(f"{data.name} is split among clients already; use it without a partition")
    kept, server = take_share(data, server_validation, validation_seed)
    split = PARTITIONS.build(partition, arguments)(
        labels_of(kept), clients, numpy_generator(seed, "partition")
    )
    rows = [torch.from_numpy(np.sort(client)) for client in split.clients]
    parts = [hold_out(client, validation, seed, index) for index, client in enumerate(rows)]
    return Federation(
        train=kept.train,
        test=kept.test,
        classes=kept.classes,
        scaling=kept.scaling,
        clients=tuple(train for train, _ in parts),
        held_out=tuple(held for _, held in parts),
        validation=server,
        name=kept.name,
        client_names=_names_of(kept) if partition == NATURAL else (),
        files=kept.files,
        notes=(*kept.notes, *validation_notes(kept.classes, server), *split.repairs),
        source=kept.source,
    )


def assigned_federation(data: Dataset) -> Federation:
    """The clients that a data set came with."""
    assert data.assignment is not None
    clients, held_out, validation = data.assignment
    return Federation(
        train=data.train,
        test=data.test,
        classes=data.classes,
        scaling=data.scaling,
        clients=tuple(torch.from_numpy(rows) for rows in clients),
        held_out=tuple(torch.from_numpy(rows) for rows in held_out),
        validation=None if validation is None else data.train.take(torch.from_numpy(validation)),
        name=data.name,
        client_names=data.client_names,
        files=data.files,
        notes=data.notes,
        source=data.source,
    )


def pack_federation(federation: Federation) -> Dataset:
    """A federation as a data set with a fixed assignment to clients: the content of a pack."""
    train, rows, server = federation.train, [*federation.clients, *federation.held_out], federation.validation
    validation = None
    if server is not None:
        validation = np.arange(len(train.y), len(train.y) + len(server.y))
        train = Samples(torch.cat([train.x, server.x]), torch.cat([train.y, server.y]))
    count = len(federation.clients)
    assignment = Assignment([r.numpy() for r in rows[:count]], [r.numpy() for r in rows[count:]], validation)
    whole = Dataset(
        federation.name,
        train,
        federation.test,
        federation.classes,
        federation.scaling,
        client_names=federation.client_names,
        files=federation.files,
        notes=federation.notes,
        source=federation.source,
    )
    return whole.assigned(assignment)


def _ready_to_split(given: Any) -> Dataset:
    if not isinstance(given, Dataset):
        kind = type(given)
        home = f"{kind.__module__.partition('.')[0]}." if kind.__name__ == "Dataset" else ""
        raise ConfigError(
            f"split: data must be a Dataset, such as load_data returns, not {home}{kind.__name__}"
        )
    data = given.fitted()
    data.check_finite()
    return data


def _tail_note(kept: Dataset, asked: float) -> str:
    """The ratio that was reached, which rounding and the minimum of one sample per class may change."""
    reached = float(imbalance_of(class_sizes(labels_of(kept))))
    note = f"long tail: largest over smallest class {reached:g}, smallest over largest {1 / reached:g}"
    return note if f"{reached:g}" == f"{asked:g}" else f"{note} (asked for: {asked:g}, {1 / asked:g})"


def _names_of(data: Dataset) -> tuple[str, ...]:
    """Names of the clients that still have samples, in the order of their ids."""
    if data.clients is None or not data.client_names:
        return ()
    return tuple(data.client_names[group] for group in torch.unique(data.clients).tolist())
