"""Clients by name in the folders of runs and sweeps: clients.csv and clients.md."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.report.render.markdown import aligned, escape
from counterpoise.results.joining import Clients, clients_of
from counterpoise.results.labels import Labels
from counterpoise.results.results import RunResult, names_of
from counterpoise.run.giving_up import Rows
from counterpoise.run.listener import Listener
from counterpoise.run.store.stored import Run
from counterpoise.system.atomic import write_atomically

NAMES = ("clients.md", "clients.csv")
MODELS = {"clients": "shared", "personal": "own"}  # whose scores on what clients hold out
SCORES = {"client_accuracy": "accuracy", "client_balanced_accuracy": "balanced accuracy"}


def write_client_tables(groups: Mapping[Labels, Sequence[RunResult]], folder: Path) -> list[Path]:
    """The tables of a comparison, where its runs scored their clients; returns the paths written."""
    found, paths = clients_of(groups), [folder / name for name in NAMES]
    for path in paths:
        path.unlink(missing_ok=True)  # of earlier runs
    if not found:
        return []
    for path, text in zip(paths, (render_markdown(found), render_csv(found)), strict=True):
        write_atomically(path, text.encode(errors="backslashreplace"))
    return paths


def render_markdown(found: Sequence[Clients]) -> str:
    """A table per problem, and for how many clients joining is better than training alone."""
    return "\n".join(line for one in found for line in _lines(one)) + "\n"


def _lines(one: Clients) -> Iterator[str]:
    yield from [f"- {escape(words)}" for words in one.gains()]
    yield ""
    head = ["client", "samples", "held out", *map(escape, one.columns)]
    yield from aligned(head, [[*map(escape, row)] for row in rows_of(one)])
    yield from ["", escape(one.caption) + ".", ""]


def rows_of(one: Clients) -> list[list[str]]:
    """Name, training samples, samples held out, and a score per column in percent."""
    return [
        [one.names[k], str(one.samples[k]), str(one.held_out[k]), *(_cell(c.get(k)) for c in one.columns.values())]
        for k in one.listed
    ]  # fmt: skip


def _cell(score: float | None) -> str:
    return "–" if score is None else f"{100 * score:.1f}"


def render_csv(found: Sequence[Clients]) -> str:
    """One line per problem, client and model."""
    lines = [
        [one.problem, one.names[k], one.samples[k], one.held_out[k], model, _plain(scores.get(k))]
        for one in found
        for k in one.listed
        for model, scores in one.columns.items()
    ]
    return _csv([["problem", "client", "samples", "held_out", "model", "balanced_accuracy"], *lines])


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _plain(score: float | None) -> str:
    return "" if score is None else repr(score)


class ClientTable(Listener):
    """Writes clients.csv into a run's folder: a line per client and model, by the last evaluation."""

    def ended(self, run: Run, rows: Rows) -> None:
        federation = run.simulation.work.federation
        names = names_of(federation.client_names, len(federation.clients))
        last = next((row for row in reversed(rows) if "accuracy" in row), {})
        lines = [
            line for which, model in MODELS.items() for line in _of_run(last.get(which, {}), model, names)
        ]
        if lines:
            text = _csv([["client", "model", "held_out", *SCORES.values()], *lines])
            write_atomically(run.folder.path / NAMES[1], text.encode(errors="backslashreplace"))


def _of_run(scored: Mapping[str, Any], model: str, names: Sequence[str]) -> list[list[Any]]:
    if "client" not in scored:
        return []
    columns = zip(*(scored[key] for key in ("client", "client_held_out", *SCORES)), strict=True)
    return [[names[k], model, held, *map(_plain, scores)] for k, held, *scores in columns]
