"""A rule that counts on held-out samples goes on without them, and the run notes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from federations import simulate, unequal_federation
from runs import call, tiny, write_tiny

from counterpoise.core.method import METHODS, PARTS, MethodSpec
from counterpoise.report.html.page import render
from counterpoise.report.html.study import study
from counterpoise.results.results import read_results
from counterpoise.run.runner import start

NOTE = "prediction_sensitive and prioritised_weighting: 5 of 5 clients hold nothing out (partition.validation), so their training samples are counted"


def test_the_parts_that_count_say_so() -> None:
    assert {name for name in PARTS.names() if PARTS.build(name).held_out} == {
        "prediction_sensitive",
        "prioritised_weighting",
    }
    assert METHODS.build("fedsat").owner("weigh").held_out  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spec", "without", "words"),
    [
        ("fedsat", 6, "6 of 6 clients hold nothing out"),
        ("fedsat", 2, "2 of 6 clients hold nothing out"),
        ("fedsat", 0, None),
        ("scaffold", 6, None),
        ({"fedsat": {"sensitive": False, "prioritised": False}}, 6, None),
        (["fedavg", "prioritised_weighting"], 1, "1 of 6 clients hold nothing out"),
    ],
    ids=str,
)
def test_a_federation_is_noted_only_where_somebody_counts_on_training_samples(
    spec: MethodSpec, without: int, words: str | None
) -> None:
    whole = unequal_federation()
    held_out = tuple(rows[:0] if client < without else rows for client, rows in enumerate(whole.held_out))
    notes = simulate(spec, federation=replace(whole, held_out=held_out)).work.federation.notes
    assert [words in note for note in notes] == ([True] if words else [])


def test_the_note_is_in_the_plan_the_record_and_the_report(tmp_path: Path) -> None:
    given = "method=fedsat", "partition.clients=5", "rounds=1"
    assert f"note       {NOTE}" in call("validate", write_tiny(tmp_path, *given)).out
    start(tiny(*given), tmp_path / "run")
    assert NOTE in json.loads((tmp_path / "run" / "record.json").read_text())["data"]["notes"]
    assert NOTE in render(study(read_results([tmp_path / "run"])))
    held = call("validate", write_tiny(tmp_path, *given, "partition.validation=0.2"))
    assert "hold nothing out" not in held.out
