"""What the server knows of clients that bring their own data: from their greetings, and kept for a resumed run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from counterpoise.data.federation import Federation
from counterpoise.engines.sums import COUNTS, counting_parts
from counterpoise.errors import ConfigError, RunError
from counterpoise.flower.hello import share_digest
from counterpoise.flower.job import JobFolder, JobSettings
from counterpoise.flower.messages import Hello
from counterpoise.flower.own_data import greeted_federation
from counterpoise.flower.refusal import Refused
from counterpoise.flower.roster import Roster
from counterpoise.flower.server import FlowerEngine, RoundPolicy
from counterpoise.flower.workplaces import build_workplace
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.learned import CLASS_COUNTS, CLIENT_COUNTS
from counterpoise.system.atomic import write_atomically


class Counted(NamedTuple):
    """The class counts that a run asked its clients for."""

    of_each: Tensor | None = None  # [N, C]
    summed: Tensor | None = None  # [C]


class Known(NamedTuple):
    """What clients said at the start of a run, and how class counts were added up, if they were."""

    hellos: Mapping[str, Hello]
    counted: Counted = Counted()
    tallied: Mapping[str, Any] = {}


class Greeted(NamedTuple):
    """Clients that bring their own data, as the server knows them."""

    federation: Federation
    known_counts: Tensor | None = None  # [C] by the protocol of [privacy]: no sum is asked for twice
    tallied: Mapping[str, Any] = {}


def expected(names: Sequence[str], shared: Federation | None, folder: JobFolder) -> Callable[[Hello], None]:
    """Refuses a client with other samples than the server has for it, or with another number than at the run's start."""
    started = _read(folder.roster).hellos if shared is None else {}

    def check(hello: Hello) -> None:
        if shared is not None and hello.share != share_digest(shared, names.index(hello.client)):
            raise Refused("share")
        nothing = shared is None and not hello.samples  # a share may be empty: it is never asked to train
        if nothing or hello.samples != started.get(hello.client, hello).samples:
            raise Refused("samples")

    return check


def greeted(experiment: Experiment, settings: JobSettings, roster: Roster, folder: JobFolder) -> Greeted:
    """The federation as its clients describe it at the start, which holds for the whole run."""
    if not folder.roster.exists():
        known = Known(roster.hellos)
        work = build_workplace(experiment, _federation(experiment, settings, roster.names, known))
        policy = RoundPolicy(timeout=experiment.flower.timeout)
        engine = FlowerEngine(work, roster.grid, roster, str(settings["run"]), policy, spend=folder.spend)
        counted = ask_counts(engine)
        summed = engine.tallied if experiment.privacy.in_messages else {}
        _write(folder.roster, known._replace(counted=counted, tallied=summed))
    known = _read(folder.roster)
    federation = _federation(experiment, settings, roster.names, known)
    total = known.counted.summed if experiment.privacy.in_messages else None
    return Greeted(federation, total, known.tallied)


def _federation(
    experiment: Experiment, settings: JobSettings, names: Sequence[str], known: Known
) -> Federation:
    hellos = [known.hellos[name] for name in names]
    federation = greeted_federation(experiment, str(settings["form"]), hellos)
    return replace(federation, told=known.counted.of_each, total=known.counted.summed)


def ask_counts(engine: FlowerEngine) -> Counted:
    """The class counts that the run itself asks for, if any: of each client, or their sum."""
    everyone, samples = range(len(engine.roster.names)), engine.work.federation.samples()
    if engine.work.privacy.in_messages:  # which checks the sum, as far as noise and drop-outs allow
        asked = CLASS_COUNTS in counting_parts(engine.work)
        return Counted(summed=engine.sum_numbers(everyone, COUNTS)[COUNTS]["counts"] if asked else None)
    of_each = engine.survey(everyone).get(CLIENT_COUNTS, {}).get("counts")
    summed = engine.tally(everyone).get(CLASS_COUNTS, {}).get("counts")
    return Counted(_checked(of_each, samples), _checked(summed, samples.sum()))


def _checked(counts: Tensor | None, samples: Tensor) -> Tensor | None:
    """Nobody can check the counts of a client, but they must fit its number of samples."""
    if counts is None:
        return None
    counts = counts.cpu()
    if bool((counts < 0).any()) or not counts.sum(-1).equal(samples):
        total = int(samples.sum())  # the counts themselves are not for a log
        raise RunError(
            f"the class counts that clients gave must be 0 or more and add up to their {total} samples"
        )
    return counts


def _write(path: Path, known: Known) -> None:
    clients = {name: hello._replace(surveys={})._asdict() for name, hello in known.hellos.items()}
    counted = {key: None if t is None else t.tolist() for key, t in known.counted._asdict().items()}
    facts = {"clients": clients, "tallied": dict(known.tallied), **counted}
    write_atomically(path, json.dumps(facts).encode())


def _read(path: Path) -> Known:
    """Nothing before a run began."""
    if not path.exists():
        return Known({})
    found = json.loads(path.read_text())
    if set(found) != {"clients", "tallied", *Counted._fields}:
        raise ConfigError(
            f"{path} must be of this version, with {', '.join(Counted._fields)}; start a new run"
        )
    hellos = {name: Hello(**facts) for name, facts in found.pop("clients").items()}
    tallied = found.pop("tallied")
    counts = {key: None if numbers is None else torch.tensor(numbers) for key, numbers in found.items()}
    return Known(hellos, Counted(**counts), tallied)
