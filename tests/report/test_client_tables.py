"""Clients by name: scores alone, shared and own, by hand-made rows; and the files of a run and a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_runs import made_run
from runs import tiny

from counterpoise.report.client_tables import ClientTable, render_csv, render_markdown, write_client_tables
from counterpoise.report.html.clients import joining
from counterpoise.report.html.study import Study
from counterpoise.results.joining import clients_of
from counterpoise.results.labels import Labels
from counterpoise.results.results import RunResult
from counterpoise.run.runner import start

NAMES = ["hospital_1", "hospital_2", "a|b"]


def _scored(clients: Sequence[float | None]) -> dict[str, Any]:
    given = {"client": [0, 1, 2], "client_held_out": [5, 6, 7]}
    return {**given, "client_accuracy": list(clients), "client_balanced_accuracy": list(clients)}


def _run(
    method: Any,
    seed: int,
    shared: Sequence[float | None],
    own: Sequence[float | None] = (),
    split: str = "same",
) -> RunResult:
    run = made_run(method, seed)
    run.rows[-1]["clients"] = _scored(shared)
    if own:
        run.rows[-1]["personal"] = _scored(own)
    data = {"name": "made", "client_names": NAMES, "classes": ["x", "y"]}
    return run._replace(record={"samples": [10, 20, 30], "data": data, "data_sha256": split})


def _groups(*runs: RunResult) -> dict[Labels, list[RunResult]]:
    found: dict[Labels, list[RunResult]] = {}
    for run in runs:
        found.setdefault(Labels("", run.method), []).append(run)
    return found


HANDMADE = _groups(
    _run("fedavg", 0, [0.5, 0.75, 0.5]),
    _run("fedavg", 1, [0.5, 0.25, 0.75]),
    _run("ditto", 0, [0.5, 0.75, 0.5], [0.75, 0.5, 1.0]),
    _run("local", 0, [0.25, 0.5, None], [0.25, 0.5, None]),
    _run("local", 1, [0.25, 0.75, 0.5], [0.25, 0.75, 0.5]),
)


def test_each_client_has_its_mean_under_every_model() -> None:
    [found] = clients_of(HANDMADE)
    assert found.columns == {
        "fedavg": {0: 0.5, 1: 0.5, 2: 0.625},
        "ditto": {0: 0.5, 1: 0.75, 2: 0.5},
        "ditto, own model": {0: 0.75, 1: 0.5, 2: 1.0},
        "local": {0: 0.25, 1: 0.625, 2: None},  # without a score in one seed
    }
    assert (found.alone, list(found.seeds), found.held_out) == ("local", [0, 1], {0: 5, 1: 6, 2: 7})


def test_joining_is_counted_against_training_alone() -> None:
    [found] = clients_of(HANDMADE)
    assert found.gains() == [
        "fedavg is better than local for 1 of 2 clients and worse for 1, on average +6.2 points.",
        "ditto is better than local for 2 of 2 clients and worse for 0, on average +18.8 points.",
        "ditto, own model is better than local for 1 of 2 clients and worse for 1, on average +18.8 points.",
    ]


def test_clients_of_seeds_that_split_otherwise_are_not_mixed() -> None:
    runs = _run("fedavg", 0, [0.5, 0.75, 0.5]), _run("fedavg", 1, [0.0, 0.0, 0.0], split="other")
    [found] = clients_of(_groups(*runs))
    assert found.columns == {"fedavg": {0: 0.5, 1: 0.75, 2: 0.5}}
    assert found.caption.endswith("seed 0, since other seeds split the data in another way")
    assert found.gains() == []


def test_tables_name_the_clients(tmp_path: Path) -> None:
    found = clients_of(HANDMADE)
    lines = render_markdown(found).splitlines()
    row = next(line for line in lines if line.startswith("| hospital_2"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "hospital_2", "20", "6", "50.0", "75.0", "50.0", "62.5",
    ]  # fmt: skip
    assert any("a\\|b" in line and "–" in line for line in lines)
    assert ",hospital_1,10,5,local,0.25" in render_csv(found)
    assert [path.name for path in write_client_tables(HANDMADE, tmp_path)] == ["clients.md", "clients.csv"]
    assert write_client_tables(_groups(made_run()), tmp_path) == []
    assert list(tmp_path.iterdir()) == []  # of earlier runs


def test_the_report_has_the_same_table() -> None:
    page = joining(Study([], None, HANDMADE, {}, {}))  # type: ignore[arg-type]
    assert "hospital_<wbr>1" in page
    assert "fedavg is better than local for 1 of 2 clients" in page
    assert page.count("<tr>") == 4


@pytest.mark.parametrize("personal", ["true", "false"])
def test_a_run_keeps_its_clients_in_its_folder(tmp_path: Path, personal: str) -> None:
    scored = "partition.validation=0.3", "evaluate.clients=true", f"evaluate.personal={personal}"
    start(tiny("rounds=1", "method=local", *scored), tmp_path / "run", [ClientTable()])
    head, *lines = (tmp_path / "run" / "clients.csv").read_text().splitlines()
    assert head == "client,model,held_out,accuracy,balanced accuracy"
    assert {line.split(",")[1] for line in lines} == ({"shared", "own"} if personal == "true" else {"shared"})
