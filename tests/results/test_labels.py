"""Labels say what tells runs apart, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from made_runs import made_run

from counterpoise.core.method import find_entry
from counterpoise.results.labels import label_methods, label_problems, label_runs, show


def methods_of(*specs: Any) -> list[str]:
    return label_methods([made_run(spec, folder=str(place)) for place, spec in enumerate(specs)])


def problems_of(*tables: dict[str, Any]) -> list[str]:
    return label_problems([made_run(**table) for table in tables])


def test_a_method_is_its_name() -> None:
    assert methods_of("fedavg", {"fedprox": {"mu": 0.1}}, ["fedavg", "balanced_softmax"]) == [
        "fedavg",
        "fedprox",
        "fedavg+balanced_softmax",
    ]


def test_arguments_show_where_methods_of_one_name_differ() -> None:
    assert methods_of({"fedprox": {"mu": 0.1}}, {"fedprox": {"mu": 1}}, "fedavg") == [
        "fedprox(mu=0.1)",
        "fedprox(mu=1)",
        "fedavg",
    ]


def test_arguments_show_at_the_piece_that_has_them() -> None:
    assert methods_of(["fedavg", {"focal": {"gamma": 1.0}}], ["fedavg", {"focal": {"gamma": 5.0}}]) == [
        "fedavg+focal(gamma=1)",
        "fedavg+focal(gamma=5)",
    ]


def test_a_default_that_is_written_out_changes_nothing() -> None:
    default = find_entry("fedprox").parameters["mu"].default
    assert methods_of({"fedprox": {"mu": default}}, "fedprox") == ["fedprox", "fedprox"]
    assert methods_of("fedprox", {"fedprox": {"mu": 0.77}}) == [
        f"fedprox(mu={default:g})",
        "fedprox(mu=0.77)",
    ]
    assert methods_of("fedprox", {"fedprox": {}}, ["fedprox"]) == ["fedprox"] * 3


def test_whole_numbers_serve_as_numbers() -> None:
    assert methods_of({"fedprox": {"mu": 1}}, {"fedprox": {"mu": 1.0}}) == ["fedprox", "fedprox"]


def test_the_old_name_of_an_argument_is_the_same_argument() -> None:
    assert methods_of({"fedavg": {"server": 0.5}}, {"fedavg": {"server_lr": 0.5}}) == ["fedavg", "fedavg"]


def test_one_problem_needs_no_label() -> None:
    assert problems_of({"seed": 0}, {"seed": 1}, {"method": "scaffold"}) == ["", "", ""]


def test_how_a_run_is_executed_is_no_problem() -> None:
    assert problems_of({"engine": {"name": "loop"}}, {"engine": {"name": "stacked"}}) == ["", ""]


def test_keys_that_differ_make_the_label_and_are_short_where_that_is_clear() -> None:
    digits = {"data": {"name": "digits", "imbalance": 20.0}}
    fashion = {"data": {"name": "fashion_mnist", "imbalance": 100.0}}
    assert problems_of(digits, fashion) == [
        "data.name=digits, imbalance=20",
        "data.name=fashion_mnist, imbalance=100",
    ]


def test_a_key_that_only_some_have() -> None:
    dirichlet = {"partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3}}
    assert problems_of(dirichlet, {"partition": {"name": "iid", "clients": 20}}) == [
        "partition.name=dirichlet, alpha=0.3",
        "partition.name=iid, alpha=none",
    ]


def test_top_level_keys_count() -> None:
    assert problems_of({"rounds": 5}, {"rounds": 9}) == ["rounds=5", "rounds=9"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (20.0, "20"),
        (3, "3"),
        (True, "true"),
        (None, "none"),
        ("cosine", "cosine"),
        (["flip", "crop"], "[flip crop]"),
        ({"step": {"factor": 10.0, "share": 0.5}}, "step(factor=10, share=0.5)"),
        ({"head": [0], "tail": [1, 2]}, "head=[0] tail=[1 2]"),
    ],
)
def test_values_in_few_letters(value: Any, text: str) -> None:
    assert show(value) == text


def test_runs_that_differ_in_a_label_differ_in_what_they_are() -> None:
    results = [
        made_run(method, seed, data={"name": name})
        for method in ("fedavg", {"fedprox": {"mu": 0.1}}, {"fedprox": {"mu": 0.2}})
        for name in ("digits", "mnist")
        for seed in (0, 1)
    ]
    assert len(set(label_runs(results))) == 6
