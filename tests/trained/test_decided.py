"""A run that chose a threshold answers by it: predict, load_run and the exported programs, as the run was scored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import call, read_summary
from used_runs import Used, make_run, write_rows

import counterpoise as cp
from counterpoise.data.tables.table import fitted_table
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.metrics.confusion import confusion
from counterpoise.metrics.roc import histograms
from counterpoise.metrics.scoring import Scoring
from counterpoise.metrics.shots import Shots
from counterpoise.metrics.threshold import Decision, choose_threshold, confusion_at
from counterpoise.trained.load import LoadedRun

SCRIPTS = ("example_torch.py", "example_onnx.py")


def decided_run(folder: Path, positive: str, threshold: Any = "balanced_accuracy") -> Used:
    """A rare class that overlaps with the other: its best threshold is far from one half."""
    rng = np.random.default_rng(0)
    ill = rng.random(400) < 0.15
    rows = [
        [f"{x:.3f}", f"{z:.3f}", "ill" if y else "well"]
        for x, z, y in zip(rng.normal(size=400) + 1.2 * ill, rng.normal(size=400), ill, strict=True)
    ]
    path = write_rows(folder / "t.csv", ["x", "z", "state"], rows)
    split = fitted_table(path, ColumnUses("state")).split
    test = write_rows(folder / "test.csv", ["x", "z", "state"], [rows[row] for row in split.test.tolist()])
    data = {"name": "table", "path": str(path), "label": "state", "positive": positive, "validation": 0.3}
    return Used(make_run(folder / "run", data, evaluate={"threshold": threshold}), path, test)


@pytest.fixture(scope="module", params=["ill", "well"])
def decided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Used:
    return decided_run(tmp_path_factory.mktemp(request.param), request.param)


def predicted(used: Used, folder: Path) -> dict[str, Any]:
    finished = call("predict", used.run, used.test, "-o", folder / "p.csv", "--json")
    assert finished.code == 0, finished.err
    return dict(json.loads(finished.out))


def test_predict_gives_the_confusion_at_the_threshold_exactly(decided: Used, tmp_path: Path) -> None:
    found, summary = predicted(decided, tmp_path), read_summary(decided.run)
    assert found["confusion"] == summary["threshold_confusion"] != summary["confusion"]
    assert found["balanced_accuracy"] == pytest.approx(summary["threshold_balanced_accuracy"])
    assert found["per_class_recall"][found["positive"]] == pytest.approx(summary["threshold_recall"])
    assert found["threshold"] == summary["threshold"]
    run = cp.load_run(decided.run)
    assert run.confusion().counts.tolist() == found["confusion"]
    rows = pd.read_csv(decided.test)
    said = run.predict(rows.drop(columns="state"))
    assert said.labels == pd.read_csv(tmp_path / "p.csv")["class"].tolist()
    called = said.probabilities[:, list(said.classes).index(found["positive"])] >= found["threshold"]
    assert [label == found["positive"] for label in said.labels] == called.tolist()


def test_a_frame_of_classes_is_of_what_the_model_answers_and_says_so(decided: Used) -> None:
    """It had the recalls of the more probable class, beside confusion counts at the threshold."""
    run, summary = cp.load_run(decided.run), read_summary(decided.run)
    frame, counts = run.frame("classes"), run.confusion().counts
    assert frame["recall"].tolist() == pytest.approx((counts.diagonal() / counts.sum(1)).tolist())
    assert frame["precision"].tolist() == pytest.approx((counts.diagonal() / counts.sum(0)).tolist())
    positive = run.experiment.data.positive
    assert frame.loc[positive, "f1"] == pytest.approx(summary["threshold_f1"])
    assert frame["more_probable_recall"].tolist() == summary["per_class_recall"] != frame["recall"].tolist()
    assert frame["auroc"].tolist() == summary["per_class_auroc"]  # needs no answers
    assert f"at threshold {summary['threshold']:.4g}" in str(frame)


def test_a_run_shows_the_scores_of_the_model_that_answers(decided: Used) -> None:
    run = cp.load_run(decided.run)
    [line] = [line for line in repr(run).splitlines() if line.startswith("answers: called ")]
    assert f"balanced accuracy {100 * run['threshold_balanced_accuracy']:.1f} %" in line
    assert line.endswith("the scores above are of the more probable class")
    recall, precision = (f"{100 * run[f'threshold_{score}']:.1f} %" for score in ("recall", "precision"))
    found = f"recall {recall}, precision {precision}"
    assert found in line
    assert [repr(run).count(words) for words in (found, "probability of")] == [1, 1]


def test_the_terminal_says_from_which_probability_on(decided: Used, tmp_path: Path) -> None:
    said = call("predict", decided.run, decided.test, "-o", tmp_path / "p.csv").out
    assert "from a probability of 0." in said
    assert "the threshold that the run chose on validation samples" in said


def test_exported_programs_and_the_card_go_by_the_threshold(tmp_path: Path) -> None:
    used = decided_run(tmp_path, "ill")
    folder, answers = tmp_path / "exported", predicted(used, tmp_path)
    assert call("export", used.run, folder).code == 0
    how = json.loads((folder / "inputs.json").read_text())
    assert how["threshold"] == {"class": "ill", "probability": answers["threshold"]}
    printed = subprocess.run(
        [sys.executable, SCRIPTS[1], used.test], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    said = [line.split()[0] for line in printed.splitlines()]
    assert said == pd.read_csv(tmp_path / "p.csv")["class"].tolist()
    last = {(folder / script).read_text().splitlines()[-1] for script in SCRIPTS}
    assert len(last) == 1  # both answer by the same line
    card = (folder / "model-card.md").read_text()
    assert "a sample is called ill from a probability of 0." in card
    assert "At it, on the test set: recall " in card
    check_card(card, cp.load_run(used.run))


def check_card(card: str, run: LoadedRun) -> None:
    """The table of classes is of what the examples answer; the other scores are named for what they are."""
    counts = run.confusion().counts
    recalls = dict(zip(run.classes, counts.diagonal() / counts.sum(1), strict=True))
    for name, recall in recalls.items():
        [row] = [line for line in card.splitlines() if line.startswith(f"| {name} |")]
        assert f" {100 * recall:.1f} % |" in row
    assert "Recall at the threshold with Wilson's interval" in card
    assert "for the more probable class as the answer, without the threshold" in card
    assert "scores above" not in card
    worst = min(recalls, key=lambda name: recalls[name])
    assert f"The class {worst} is recognised least: {100 * recalls[worst]:.2f} %" in card


def test_where_no_threshold_does_the_more_probable_class_is_the_answer(tmp_path: Path) -> None:
    used = decided_run(tmp_path, "ill", {"precision": 1.0})
    found, summary = predicted(used, tmp_path), read_summary(used.run)
    if summary["threshold"] is None:
        assert "threshold_confusion" not in summary
        assert found["confusion"] == summary["confusion"]
        assert "threshold" not in found
    else:  # a threshold above all other samples reached it
        assert found["confusion"] == summary["threshold_confusion"]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["f1", "balanced_accuracy", 0.6]), st.integers(0, 1))
def test_answers_are_those_that_were_scored(seed: int, goal: Any, positive: int) -> None:
    stream = torch.Generator().manual_seed(seed)
    logits = torch.randn(60, 2, generator=stream) * (1 + seed % 40)
    y = torch.randint(2, (60,), generator=stream)
    counts = histograms(logits, y)[:, :, positive]
    threshold = choose_threshold(counts, goal)
    if threshold is None:
        return
    codes = Decision(positive, threshold.chance).codes(logits)
    found = confusion(torch.nn.functional.one_hot(codes, 2), y)
    wanted = confusion_at(counts, threshold).long()
    assert found.tolist() == (wanted if positive == 1 else wanted.flip(0, 1)).tolist()


def test_a_simulation_answers_by_its_threshold_too(decided: Used) -> None:
    data = cp.load_data("table", path=str(decided.data), label="state")
    federation = cp.split(data, clients=3, server_validation=0.3)
    scoring = Scoring(Shots((), (), ()), data.classes, positive=0, threshold="balanced_accuracy")
    result = cp.simulate(federation, rounds=3, scoring=scoring)
    said = result.module.predict_inputs(federation.test.x)
    found = confusion(torch.nn.functional.one_hot(said.codes, 2), federation.test.y)
    assert found.tolist() == result["threshold_confusion"] == result.confusion().counts.tolist()
    assert found.tolist() != result["confusion"]
