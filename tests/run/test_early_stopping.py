"""A run with patience ends when its validation score no longer improves, to the same end after any stop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_runs import made_run
from runs import Hearing, assert_refused, call, read_summary, result, tiny, write_tiny

from counterpoise import load_data, simulate, split
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.results.notes import notes_of
from counterpoise.run.assemble import assemble
from counterpoise.run.early_stopping import EarlyStopping, validation_score
from counterpoise.run.joined import join
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import read_rows
from counterpoise.sweep.orders import Order, group

LONG = ("rounds=30", "data.validation=0.2", "local.lr=0.5")


def rows_of(*scores: float | None) -> list[dict[str, Any]]:
    """Rows whose validation has these scores; None: a round that was not evaluated."""
    scored = [{} if one is None else {"validation": {"balanced_accuracy": one}} for one in scores]
    return [{"round": number, "skipped": False, **one} for number, one in enumerate(scored)]


@pytest.mark.parametrize(
    ("scores", "over"),
    [
        ((0.5, 0.4, 0.45), True),
        ((0.5, 0.5, 0.5), True),  # equal is not better
        ((0.5, 0.4, 0.51), False),
        ((0.5, None, 0.4, None), False),  # only one evaluation since
        ((0.5, None, 0.4, None, 0.3), True),
        ((0.5, 0.4), False),
    ],
)
def test_two_evaluations_without_a_better_score_end_a_run_of_patience_two(
    scores: tuple[float | None, ...], over: bool
) -> None:
    assert EarlyStopping(2, rows_of(*scores)).over is over
    assert not EarlyStopping(None, rows_of(*scores)).over


def test_skipped_rounds_do_not_count() -> None:
    rows = rows_of(0.5, 0.5, 0.5)
    assert not EarlyStopping(2, [row | {"skipped": row["round"] > 0} for row in rows]).over


def test_the_words_count_rounds_from_one() -> None:
    words = EarlyStopping(2, rows_of(0.25, 0.5, 0.4, 0.3)).words(10)
    assert words.startswith("stopped after round 4 of 10: ")
    assert "best in round 2, 50.0%" in words
    assert EarlyStopping(2, rows_of(0.25, 0.5, 0.4, 0.3)).words(4) == ""


def first_end(rows: list[dict[str, Any]], patience: int) -> int:
    """The number of rounds after which the last `patience` scores are all not above the best before them."""
    scores = [row["validation"]["balanced_accuracy"] for row in rows]
    ends = (
        n
        for n in range(patience + 1, len(scores))
        if max(scores[n - patience : n]) <= max(scores[: n - patience])
    )
    return next(ends)


def test_a_run_ends_where_the_rows_of_a_full_run_say_and_keeps_its_model(tmp_path: Path) -> None:
    start(tiny(*LONG), tmp_path / "full")
    rows = read_rows(tmp_path / "full" / "metrics.jsonl")
    end = first_end(rows, 2)
    summary = start(tiny(*LONG, "evaluate.patience=2"), tmp_path / "short")
    assert (summary["rounds"], read_rows(tmp_path / "short" / "metrics.jsonl")) == (end, rows[:end])
    assert summary["stopped"].startswith(f"stopped after round {end} of 30: ")
    assert start(tiny(*LONG, f"rounds={end}"), tmp_path / "same")["params_sha256"] == summary["params_sha256"]
    assert "stopped" not in read_summary(tmp_path / "full")


def test_a_stopped_run_resumes_to_the_same_early_end(tmp_path: Path) -> None:
    setting = (*LONG, "evaluate.patience=2", "method=scaffold", "checkpoint.every=3")
    whole = start(tiny(*setting), tmp_path / "whole")
    assert whole["rounds"] < 30

    def stop(row: Mapping[str, Any], rounds: int) -> None:
        if row["round"] + 2 == whole["rounds"]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(tiny(*setting), tmp_path / "run", [Hearing(stop)])
    assert result(resume(tmp_path / "run")) == result(whole)
    again = resume(tmp_path / "whole")
    assert again == whole  # nothing is computed again


def test_the_command_says_that_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiny(tmp_path, *LONG, "evaluate.patience=1")
    ended = call("run", path, "--out", tmp_path / "run")
    assert ended.code == 0
    assert ended.err.startswith("note: stopped after round ")


def test_patience_without_validation_samples_is_refused(tmp_path: Path) -> None:
    refused = call("run", write_tiny(tmp_path), "evaluate.patience=2", "--out", tmp_path / "run")
    assert_refused(refused, 2, "patience = 2 needs a validation score", "data.validation")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("part", ["deferred_reweighting", "ccvr"])
def test_patience_with_a_part_that_plans_for_all_rounds_is_refused(tmp_path: Path, part: str) -> None:
    setting = (*LONG, "evaluate.patience=2", f'method=["fedavg", "{part}"]')
    with pytest.raises(ConfigError, match=f"patience = 2 does not go with {part}"):
        start(tiny(*setting), tmp_path / "run")


def test_runs_that_may_end_early_train_apart(tmp_path: Path) -> None:
    tables = tiny(*LONG, "engine.name=stacked", "evaluate.patience=2").given()
    orders = [Order(str(tmp_path / str(seed)), tables | {"seed": seed}, False) for seed in (0, 1)]
    assert [len(one) for one in group(orders)] == [1, 1]
    plain = [one._replace(config=one.config | {"evaluate": {}}) for one in orders]
    assert [len(one) for one in group(plain)] == [2]
    simulation = assemble(tiny(*LONG, "engine.name=stacked", "evaluate.patience=2"))
    with pytest.raises(ConfigError, match="runs that may end early"):
        join([simulation, simulation])


def test_a_comparison_notes_runs_that_stopped_early() -> None:
    ended = [made_run(seed=seed)._replace(summary={"rounds": rounds}) for seed, rounds in ((0, 12), (1, 9))]
    stopped = [run._replace(summary={**(run.summary or {}), "stopped": "why"}) for run in ended]
    notes = notes_of([], {("", "fedavg"): dict(enumerate(stopped))}, "last", "fedavg", 0)
    assert notes == ("fedavg: 2 of 2 runs stopped early, after 9 to 12 rounds.",)
    assert notes_of([], {("", "fedavg"): dict(enumerate(ended))}, "last", "fedavg", 0) == ()


def test_without_samples_of_the_server_what_clients_hold_out_decides() -> None:
    row = {"round": 0, "clients": {"mean_client_balanced_accuracy": 0.75}}
    assert validation_score(row) == 0.75
    assert validation_score({"round": 0, "accuracy": 0.9}) is None


@pytest.fixture(scope="module")
def federation() -> Federation:
    return split(load_data("digits", imbalance=10), "iid", clients=3, server_validation=0.2)


def test_simulate_has_patience_and_calls_after_each_round(federation: Federation) -> None:
    seen: list[Mapping[str, Any]] = []
    outcome = simulate(federation, rounds=30, patience=2, on_round=seen.append, local={"lr": 0.5})
    assert seen == outcome.rows
    assert outcome["rounds"] == len(seen) < 30
    assert outcome["stopped"].startswith(f"stopped after round {len(seen)} of 30")


def test_simulate_shows_a_bar_only_if_asked(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich then takes any stream for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    plain = simulate(federation, rounds=2)
    assert capsys.readouterr().err == ""
    shown = simulate(federation, rounds=2, progress=True)
    assert "round 2/2" in capsys.readouterr().err
    assert shown["params_sha256"] == plain["params_sha256"]
