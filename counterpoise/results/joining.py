"""Is joining worth it? Each client by its name: its score alone, with the shared model, and with a model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from counterpoise.core.method import build_method
from counterpoise.errors import first_few
from counterpoise.results.labels import Labels
from counterpoise.results.results import RunResult
from counterpoise.results.words import on_problem

SCORE = "client_balanced_accuracy"
OWN = ", own model"
Scores = dict[int, float | None]  # by number of a client


class Clients(NamedTuple):
    """The clients of a problem: name, training and held-out samples, and scores by column."""

    problem: str
    names: Sequence[str]
    samples: Sequence[int]
    held_out: Mapping[int, int]
    columns: Mapping[str, Scores]  # method, or "method, own model"
    alone: str  # the column of clients that train alone; empty where there is none
    seeds: Sequence[int]  # over which scores are means
    others: int = 0  # seeds that split the data in another way, and are left out

    @property
    def listed(self) -> list[int]:
        """Clients that hold samples out."""
        return sorted(self.held_out)

    @property
    def caption(self) -> str:
        many = f"mean over seeds {', '.join(map(str, self.seeds))}"
        seeds = many if len(self.seeds) > 1 else f"seed {self.seeds[0]}"
        others = ", since other seeds split the data in another way" if self.others else ""
        gone = [name for k, name in enumerate(self.names) if k not in self.held_out]
        without = f"; without {first_few(gone)}, which hold nothing out" if gone else ""
        place = on_problem(self.problem)
        return f"Balanced accuracy in percent on what each client holds out{place}, last round, {seeds}{others}{without}"

    def gains(self) -> list[str]:
        """For how many clients each way to join is better than training alone, in words."""
        return [self._gain(column) for column in self.columns if self.alone and column != self.alone]

    def _gain(self, column: str) -> str:
        mine, theirs = self.columns[column], self.columns[self.alone]
        pairs = [(mine.get(k), theirs.get(k)) for k in self.listed]
        known = [a - b for a, b in pairs if a is not None and b is not None]
        better, worse = sum(d > 0 for d in known), sum(d < 0 for d in known)
        mean = f", on average {100 * fmean(known):+.1f} points" if known else ""
        return f"{column} is better than {self.alone} for {better} of {len(known)} clients and worse for {worse}{mean}."


def clients_of(groups: Mapping[Labels, Sequence[RunResult]]) -> list[Clients]:
    """A table for each problem whose runs scored their clients (evaluate.clients, evaluate.personal)."""
    problems = list(dict.fromkeys(problem for problem, _ in groups))
    found = [_clients_on(problem, groups) for problem in problems]
    return [one for one in found if one is not None]


def _clients_on(problem: str, groups: Mapping[Labels, Sequence[RunResult]]) -> Clients | None:
    scored = {
        method: [run for run in runs if run.scored and _lists(run)]
        for (where, method), runs in groups.items()
        if where == problem
    }
    runs = [run for mine in scored.values() for run in mine]
    if not runs:
        return None
    # Client 3 of one seed is another one than client 3 of the next, unless both split the data alike.
    first = min(runs, key=lambda run: run.seed)
    split = first.record["data_sha256"]
    same = [run for run in runs if run.record["data_sha256"] == split]
    kept = {method: [run for run in mine if run in same] for method, mine in scored.items()}
    columns = {name: scores for method, mine in kept.items() for name, scores in _columns(method, mine)}
    held = {k: n for run in same for one in _lists(run).values() for k, n in _held_out(one).items()}
    alone = next((method for method, mine in kept.items() if mine and _trains_alone(mine[0])), "")
    seeds = sorted({run.seed for run in same})
    others = len({run.seed for run in runs}.difference(seeds))
    return Clients(problem, first.client_names, first.samples, held, columns, alone, seeds, others)


def _lists(run: RunResult) -> dict[str, Mapping[str, Sequence[int | float | None]]]:
    """The scores of single clients: of the shared model, and of their own."""
    last = run.scored[-1]
    return {which: last[which] for which in ("clients", "personal") if SCORE in last.get(which, {})}


def _held_out(one: Mapping[str, Sequence[int | float | None]]) -> dict[int, int]:
    return {int(k or 0): int(n or 0) for k, n in zip(one["client"], one["client_held_out"], strict=True)}


def _trains_alone(run: RunResult) -> bool:
    return build_method(run.config["method"]).alone is not None


def _columns(method: str, runs: Sequence[RunResult]) -> list[tuple[str, Scores]]:
    """The columns of a method: its shared model, and clients' own ones where they are others."""
    shared, own = (
        _means([lists[which] for run in runs if which in (lists := _lists(run))])
        for which in ("clients", "personal")
    )
    named = method if runs and _trains_alone(runs[0]) else f"{method}{OWN}"
    if not own or own == shared:
        return [(method, shared)] if shared else []
    return [*([(method, shared)] if shared else []), (named, own)]


def _means(lists: Sequence[Mapping[str, Sequence[int | float | None]]]) -> Scores:
    """Client -> its mean over runs; None where one of them has none."""
    found: dict[int, list[float | None]] = {}
    for one in lists:
        for client, score in zip(one["client"], one[SCORE], strict=True):
            found.setdefault(int(client or 0), []).append(score)
    return {
        k: None if None in scores else fmean(s for s in scores if s is not None)
        for k, scores in found.items()
    }
