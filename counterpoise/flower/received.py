"""What clients received, as each logs it on its own disk: clients that compare their logs find a server that sent them different models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from counterpoise.core.rounds import counted
from counterpoise.errors import ConfigError, DataError, SecurityError, listed, short
from counterpoise.flower.job import CLIENT_NAME
from counterpoise.run.store.folder import read_rows

LOG_NAME = "received.jsonl"
DIGEST = re.compile("[0-9a-f]{64}")
SHOWN = 12  # digits of a digest


class Received(NamedTuple):
    """A visit: the SHA-256 of all that a round sends to every client alike, as the client decoded it."""

    run: str
    client: str
    round: int
    sha256: str


Visits: TypeAlias = dict[tuple[str, int], dict[str, set[str]]]  # run and round -> SHA-256 -> who received it


class Compared(NamedTuple):
    """Clients, their rounds, and those that two or more of them were asked in."""

    clients: list[str]
    rounds: int
    common: int


def log_received(state: Path, received: Received) -> None:
    """Log a visit, before anything is done with it."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state / LOG_NAME).open("a") as stream:  # written at once, since simulated clients share a log
        stream.write(json.dumps(received._asdict()) + "\n")


def read_received(path: Path) -> list[Received]:
    """The visits in a client's log; a last row that was cut off by a kill is left out."""
    try:
        rows = read_rows(path) if path.is_file() else None
    except OSError as error:
        raise DataError(f"{short(path)} cannot be read: {error.strerror}") from None
    if rows is None:
        raise ConfigError(f"{short(path)} is no file; needs the {LOG_NAME} of a client's state folder")
    return [_checked(row, f"{short(path)}, row {number}") for number, row in enumerate(rows, 1)]


def _checked(row: Mapping[str, Any], source: str) -> Received:
    """Logs come from other machines: names are shown, so they must be what this program writes."""
    sound = (
        set(row) == set(Received._fields)
        and all(type(row[name]) is str for name in ("run", "client", "sha256"))
        and type(row["round"]) is int
        and bool(DIGEST.fullmatch(row["run"]) and DIGEST.fullmatch(row["sha256"]))
        and bool(CLIENT_NAME.fullmatch(row["client"]))
    )
    if not sound:
        raise DataError(f"{source}: not a row that a client logs of what it received")
    return Received(**row)


def compare_received(paths: Sequence[Path]) -> Compared:
    """Compare the logs of clients; a round in which they received different models is a SecurityError."""
    visits = _by_round(row for path in paths for row in read_received(path))
    clients = sorted({name for found in visits.values() for name in _everyone(found)})
    common = {key: found for key, found in visits.items() if len(_everyone(found)) > 1}
    if len(clients) < 2:
        raise DataError(
            f"the logs are of {listed(clients) or 'no client'}; needs those of two or more clients"
        )
    if not common:
        raise DataError(
            f"clients {listed(clients)} have no round of a run in common: nothing can be compared"
        )
    _refuse_different(common)
    return Compared(clients, len(visits), len(common))


def _by_round(rows: Iterable[Received]) -> Visits:
    visits: Visits = {}
    for row in rows:
        visits.setdefault((row.run, row.round), {}).setdefault(row.sha256, set()).add(row.client)
    return visits


def _everyone(found: Mapping[str, set[str]]) -> set[str]:
    return set().union(*found.values())


def _refuse_different(common: Visits) -> None:
    different = [key for key, found in common.items() if len(found) > 1]
    if not different:
        return
    (run, number), rest = min(different), len(different) - 1
    groups = [
        f"{listed(sorted(names))} received {sha256[:SHOWN]}"
        for sha256, names in sorted(common[run, number].items())
    ]
    more = f"; and so in {rest} more of {len(common)} rounds" if rest else ""
    raise SecurityError(
        f"run {run[:SHOWN]}, round {counted(number)}: clients received different models: {'; '.join(groups)}{more}"
    )
