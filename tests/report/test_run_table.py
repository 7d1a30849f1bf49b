"""The table of runs: one row per experiment, whatever differs, and seeds counted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import tiny

import counterpoise as cp
from counterpoise.api import SimulationResult
from counterpoise.errors import ConfigError
from counterpoise.run.runner import start

Shown = dict[str, str]  # label of a row -> seeds


@pytest.fixture(scope="module")
def data() -> cp.Dataset:
    return cp.load_data("digits", imbalance=10)


@pytest.fixture(scope="module")
def federation(data: cp.Dataset) -> cp.Federation:
    return cp.split(data, clients=4)


def run(federation: cp.Federation, method: Any = "fedavg", **given: Any) -> SimulationResult:
    return cp.simulate(federation, method, **{"rounds": 1, "engine": "loop"} | given)


def shown(*runs: Any) -> Shown:
    rows = [line.strip("| ").split(" | ") for line in cp.table(runs).splitlines()[2:]]
    return {row[0].strip(): row[1].strip() for row in rows}


def test_arguments_and_settings_that_differ_are_rows_of_their_own(federation: cp.Federation) -> None:
    proximal = [run(federation, {"fedprox": {"mu": mu}}) for mu in (0.0, 10.0)]
    assert shown(*proximal) == {"fedprox(mu=0)": "1", "fedprox(mu=10)": "1"}
    rates = [run(federation, local={"lr": lr}) for lr in (0.1, 0.2)]
    assert shown(*rates) == {"fedavg, lr=0.1": "1", "fedavg, lr=0.2": "1"}
    cohorts = [run(federation, cohort=size) for size in (2, 3)]
    assert shown(*cohorts) == {"fedavg, size=2": "1", "fedavg, size=3": "1"}


def test_two_federations_are_two_rows(data: cp.Dataset, federation: cp.Federation) -> None:
    fewer = cp.split(data, clients=2)
    assert [label[:17] for label in shown(run(federation), run(fewer))] == [
        "fedavg, clients=4",
        "fedavg, clients=2",
    ]
    even = cp.split(cp.load_data("digits"), clients=4)
    assert [*shown(run(federation), run(even)).values()] == ["1", "1"]
    other = cp.split(data, clients=4, seed=1)
    assert all("divergence=" in label for label in shown(run(federation), run(other)))


def test_seeds_are_one_row_also_where_each_has_its_own_split(
    data: cp.Dataset, federation: cp.Federation
) -> None:
    assert shown(*(run(federation, seed=seed) for seed in range(3))) == {"fedavg": "3"}
    splits = (run(cp.split(data, clients=4, validation=0.1, seed=seed), seed=seed) for seed in range(3))
    assert shown(*splits) == {"fedavg": "3"}


def test_a_run_that_is_given_again_counts_once(federation: cp.Federation) -> None:
    one = run(federation)
    assert shown(one, one, run(federation)) == {"fedavg": "1"}
    assert "±" not in cp.table([one, one])


def test_what_no_config_tells_apart_is_not_averaged(federation: cp.Federation) -> None:
    """Two methods that were put together by hand under one name."""
    made = [
        cp.compose(cp.build_method("fedavg"), cp.PARTS.build("prox", {"mu": mu}), name="mine")
        for mu in (0.0, 10.0)
    ]
    assert shown(*(run(federation, method, rounds=2) for method in made)) == {"mine": "1", "mine (2)": "1"}


def test_runs_of_folders_are_told_apart_by_their_configs(tmp_path: Path, federation: cp.Federation) -> None:
    for name, lr, seed in (("a", 0.1, 0), ("b", 0.2, 0), ("c", 0.2, 1)):
        start(tiny("rounds=1", f"local.lr={lr}", f"seed={seed}"), tmp_path / name)
    found = [cp.load_run(tmp_path / name) for name in "abc"]
    assert shown(*found) == {"fedavg, lr=0.1": "1", "fedavg, lr=0.2": "2"}
    assert shown(found[0], run(federation)) == {"fedavg, from a folder": "1", "fedavg, from simulate": "1"}


def test_what_is_no_list_of_outcomes_is_refused_in_one_line(federation: cp.Federation) -> None:
    for wrong in (run(federation), ["runs/001-fedavg"], []):
        with pytest.raises(ConfigError, match="table: runs must be a list of outcomes"):
            cp.table(wrong)  # type: ignore[arg-type]
