"""What differs between two runs: config, versions, machine, data and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from counterpoise.core.rounds import counted
from counterpoise.metrics.catalogue import capital, headline
from counterpoise.results.results import HOW, RunResult, samples_of
from counterpoise.run.config.experiment import dotted
from counterpoise.run.summary import best_of

NAMED_KEYS = 3  # keys that are named; further ones are counted

Pair = tuple[Any, Any]
Pairs = dict[str, Pair]
Rows = list[dict[str, Any]]


class Difference(NamedTuple):
    """Values of both runs by key; config, versions, machine and data only where they differ."""

    config: Pairs
    versions: Pairs
    machine: Pairs
    data: Pairs
    rounds: Pair  # rounds done
    rounds_alike: int  # number of first rounds whose rows are equal
    same_model: bool | None  # None unless both are finished
    params_sha256: Pair
    scored_round: int | None  # last round that both evaluated, counted from 1; scores are compared there
    last: Pairs  # scores of that round
    best: Pairs  # best scores up to that round
    recorded: tuple[bool, bool]  # whether each run has recorded versions, machine and data

    @property
    def words(self) -> str:
        """The result of the comparison in a sentence."""
        causes = [_config_words(self.config), *_record_words(self)]
        return capital(f"{', '.join(causes)}: {self._result_words()}.")

    def _result_words(self) -> str:
        shorter = min(self.rounds)
        if not shorter:
            return "there are no two results to compare yet"
        if self.rounds_alike < shorter:
            return f"results differ from round {counted(self.rounds_alike)} on"
        if self.rounds[0] != self.rounds[1]:
            return f"same results as far as both got, which is {shorter} rounds"
        models = {True: ", and the same model", False: ", but another model", None: ""}[self.same_model]
        return f"same results in all {shorter} rounds{models}"


def difference(one: RunResult, other: RunResult) -> Difference:
    """How the second run differs from the first, as far as both got."""
    shas = _both(one.summary or {}, other.summary or {}, "params_sha256")
    recorded = bool(one.record), bool(other.record)
    records = (one.record, other.record) if all(recorded) else ({}, {})
    versions, machines, data = (
        [record.get(key, {}) if key else _data_facts(record) for record in records]
        for key in ("versions", "machine", "")
    )
    scored_round = _last_in_common(one, other)
    scored = [_scored_up_to(run, scored_round or 0) for run in (one, other)]
    return Difference(
        config=_differing(dotted(one.config), dotted(other.config)),
        versions=_differing(*versions),
        machine=_differing(*machines),
        data=_differing(*data),
        rounds=(len(one.rows), len(other.rows)),
        rounds_alike=count_alike(one.rows, other.rows),
        same_model=None if None in shas else shas[0] == shas[1],
        params_sha256=shas,
        scored_round=scored_round,
        last={key: (_last(scored[0], key), _last(scored[1], key)) for key in headline()},
        best={key: (best_of(scored[0], key), best_of(scored[1], key)) for key in headline()},
        recorded=recorded,
    )


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Pairs:
    keys = dict.fromkeys([*one, *other])
    pairs = {key: _both(one, other, key) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _both(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> Pair:
    return one.get(key), other.get(key)


def _data_facts(record: Mapping[str, Any]) -> dict[str, Any]:
    data = record.get("data", {})
    samples = samples_of(record)
    facts = {key: value for key, value in data.items() if key != "files"}
    files = {f"files.{name}": sha256 for name, sha256 in data.get("files", {}).items()}
    sizes = {"clients": len(samples), "samples": sum(samples)}
    return {**facts, **sizes, "sha256": record.get("data_sha256"), **files}


def count_alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _last_in_common(one: RunResult, other: RunResult) -> int | None:
    """The last round that both evaluated, counted from 1."""
    rounds = [{counted(row["round"]) for row in run.scored} for run in (one, other)]
    return max(rounds[0] & rounds[1], default=None)


def _scored_up_to(run: RunResult, round: int) -> Rows:
    return [row for row in run.scored if row["round"] < round]


def _last(scored: Rows, key: str) -> float | None:
    return scored[-1].get(key) if scored else None


def _config_words(config: Pairs) -> str:
    if not config:
        return "same config"
    what = [key for key in config if key.partition(".")[0] not in HOW]
    if not what:
        return f"same experiment, executed in another way ({_first(list(config))})"
    return f"other {what[0]}" if len(what) == 1 else f"config differs in {_first(what)}"


def _record_words(found: Difference) -> list[str]:
    if not all(found.recorded):
        return ["versions, machine and data not known of both"]
    words = [f"other {_first(list(found.versions))} version"] if found.versions else []
    words += ["other machine"] if found.machine else []
    return [*words, "other data or partition"] if "sha256" in found.data else words


def _first(keys: Sequence[str]) -> str:
    shown, rest = list(keys[:NAMED_KEYS]), len(keys) - NAMED_KEYS
    shown += [f"{rest} more"] if rest > 0 else []
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
