"""A rule that leaves out or shortens what few clients send is named where classes are rare, before the first round."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch
from federations import simulate, unequal_federation

import counterpoise as cp
from counterpoise.core.method import MethodSpec


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("rule", ["median", {"trimmed_mean": {"beta": 0.2}}, "krum", "clip_updates"])
def test_a_robust_rule_on_a_long_tail_warns_once(rule: MethodSpec, caplog: pytest.LogCaptureFixture) -> None:
    federation = cp.split(cp.load_data("digits", imbalance=50.0), "iid", clients=6, seed=0)
    cp.simulate(federation, ["fedavg", rule], rounds=2)  # type: ignore[list-item]
    [said] = warnings_of(caplog)
    counts = federation.counts().sum(0)
    name = rule if isinstance(rule, str) else "trimmed_mean"
    assert said.startswith(f"{name} leaves out or shortens what few clients send")
    assert f"{float(counts.max() / counts.min()):.0f} times" in said
    assert "tail" in said


@pytest.mark.parametrize("rules", [[], [{"trimmed_mean": {"beta": 0.0}}], ["balanced_softmax"]])
def test_rules_that_leave_nothing_out_do_not_warn(
    rules: list[MethodSpec], caplog: pytest.LogCaptureFixture
) -> None:
    federation = cp.split(cp.load_data("digits", imbalance=50.0), "iid", clients=6, seed=0)
    cp.simulate(federation, ["fedavg", *rules], rounds=1)  # type: ignore[list-item]
    assert warnings_of(caplog) == []


def test_classes_of_like_size_and_classes_that_nobody_holds_do_not_warn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    federation = unequal_federation()
    counts = federation.counts().sum(0)
    assert float(counts.max() / counts.min()) < 10
    simulate("fedavg", federation=federation).open()
    simulate(["fedavg", "median"], federation=federation).open()
    assert warnings_of(caplog) == []
    federation.train.y[federation.train.y == 3] = 2  # nobody holds class 3 now
    assert int((torch.bincount(federation.train.y, minlength=4) == 0).sum()) == 1
    simulate(["fedavg", "median"], federation=federation).open()
    assert warnings_of(caplog) == []


def test_classes_with_few_test_samples_are_noted_by_name_and_number() -> None:
    federation = unequal_federation()
    kept = torch.cat(
        [torch.nonzero(federation.test.y == c).flatten()[:n] for c, n in enumerate((5, 4, 0, 9))]
    )
    tested = replace(federation, test=federation.test.take(kept))
    names = federation.classes
    said = simulate("fedavg", federation=tested).notes
    assert said == {"test set": f"fewer than 5 test samples of class: {names[1]} (4), {names[2]} (0)"}
    assert simulate("fedavg", federation=federation).notes == {}
