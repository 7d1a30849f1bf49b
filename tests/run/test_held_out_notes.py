"""A rule that counts on held-out samples goes on without them, and the run notes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from federations import simulate, unequal_federation
from runs import call, tiny, write_tiny

from counterpoise.core.method import MethodSpec
from counterpoise.run.runner import start

COUNTING = ["prediction_sensitive", "prioritised_weighting"]
FEDSAT = {"fedsat": {"reference": "control"}}  # which has no notes of its own
NOTE = "4 of 4 clients hold nothing out (partition.validation): there it counts on training samples"


@pytest.mark.parametrize(
    ("spec", "without", "noted"),
    [
        (FEDSAT, 6, COUNTING),
        (FEDSAT, 2, COUNTING),
        (FEDSAT, 0, []),
        ("scaffold", 6, []),
        ({"fedsat": {"sensitive": False, "prioritised": False}}, 6, []),
        (["fedavg", "prioritised_weighting"], 1, ["prioritised_weighting"]),
    ],
    ids=str,
)
def test_a_part_notes_how_many_clients_count_on_training_samples(
    spec: MethodSpec, without: int, noted: list[str]
) -> None:
    whole = unequal_federation()
    held_out = tuple(rows[:0] if client < without else rows for client, rows in enumerate(whole.held_out))
    notes = simulate(spec, federation=replace(whole, held_out=held_out)).notes
    assert list(notes) == noted
    assert all(note.startswith(f"{without} of 6 clients hold nothing out") for note in notes.values())


def test_a_federation_that_holds_nothing_out_at_all_is_noted() -> None:
    federation = replace(unequal_federation(), held_out=())
    assert simulate("fedsat", federation=federation).notes["prioritised_weighting"].startswith("6 of 6")


def test_the_note_is_in_the_plan_and_in_the_record(tmp_path: Path) -> None:
    given = 'method={ fedsat = { reference = "control" } }', "rounds=1"
    plan = call("validate", write_tiny(tmp_path, *given)).out
    assert all(f"{part} {NOTE}" in plan for part in COUNTING)
    start(tiny(*given), tmp_path / "run")
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["notes"] == dict.fromkeys(COUNTING, NOTE)
    held = call("validate", write_tiny(tmp_path, *given, "partition.validation=0.2"))
    assert "hold nothing out" not in held.out
