"""Which candidates are proposed, from figures made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.advice.figures import Figures, figures_of
from counterpoise.advice.rules import RULES, Candidate, candidates_for
from counterpoise.advice.trials import Course, trials_of
from counterpoise.core.local import Local
from counterpoise.core.method import build_method
from counterpoise.data.prepare import load_data, split_federation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.sweep.specs import label_of

EVEN = Figures(1000, 4, 10, 5, 1.2, "a", "d", 220, 0.01, 0.0, 80, 120)
BALANCED = "balanced_softmax(counts=global)"


def proposed(**figures: Any) -> set[str]:
    return {label_of(one.method) for one in candidates_for(EVEN._replace(**figures))}


def test_the_baseline_comes_first_whatever_the_data() -> None:
    for data in (EVEN, EVEN._replace(imbalance=100.0), EVEN._replace(divergence=0.6, missing=0.9)):
        assert candidates_for(data)[0].method == "fedavg"


def test_even_classes_need_no_remedy_for_imbalance() -> None:
    assert proposed() == {"fedavg", "fedavgm"}
    drifting = {
        "fedavg",
        "fedavgm",
        "fedavg+balanced_softmax",
        "counterpoise",
        "scaffold",
        "fedcm",
        "fedprox",
    }
    assert proposed(divergence=0.3) == drifting


def test_imbalance_brings_its_remedies() -> None:
    found = proposed(imbalance=5.0)
    assert {f"fedavg+{BALANCED}", f"fedavgm+{BALANCED}", "fedavg+logit_adjustment", "fedavg+crt"} <= found
    assert "fedavg+balanced_sampler" in found
    assert not {"fedcgnm+resample", "fedrela", "fedwcm"} & found  # the tail is not long
    assert not any("scaffold" in name or "fedcm" in name for name in found)  # clients do not differ


def test_clients_with_one_class_are_not_told_to_draw_classes_equally_often() -> None:
    assert "fedavg+balanced_sampler" not in proposed(imbalance=5.0, missing=0.75)


def test_a_long_tail_on_clients_that_differ_brings_all_of_them() -> None:
    found = proposed(imbalance=50.0, divergence=0.3)
    assert {"fedcgnm+resample", "fedrela", "fedwcm", f"scaffold+{BALANCED}", f"fedcm+{BALANCED}"} <= found


def test_clients_that_are_seldom_asked_get_no_control_variates() -> None:
    found = proposed(imbalance=50.0, divergence=0.3, clients=100, asked=5)
    assert not {f"scaffold+{BALANCED}", "counterpoise"} & found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: label_of(rule.method))
def test_every_rule_names_a_method_and_promises_nothing(rule: Any) -> None:
    build_method(rule.method)
    words = rule.why.format(**EVEN._asdict())
    assert "{" not in words
    assert not any(promise in words for promise in ("point", "%", "will ", "improve", "better"))
    assert len(set(rule.rates)) == len(rule.rates) == 3


def test_a_method_without_local_momentum_steps_as_far_as_with_it() -> None:
    data = EVEN._replace(imbalance=5.0, divergence=0.3)
    trials = trials_of(candidates_for(data), Local(lr=0.1, momentum=0.9), 1)
    [own] = [trial for trial in trials if trial.label.startswith("scaffold")]
    assert own.setting == {"local.lr": 1.0, "local.momentum": 0.0}
    assert trials[0].setting == {"local.lr": 0.1}


def test_all_candidates_are_tried_at_their_first_rate_before_any_at_its_second() -> None:
    candidates = candidates_for(EVEN._replace(imbalance=5.0))
    trials = trials_of(candidates, Local(lr=0.1), 2)
    assert [trial.label for trial in trials] == 2 * [label_of(one.method) for one in candidates]
    assert trials[len(candidates)].setting == {"local.lr": 0.3}


def test_every_run_has_a_folder_of_its_own() -> None:
    """Of long names the seed was cut off: three runs were one, which counted three times."""
    experiment = make_experiment({"seed": 10, "local": {"lr": 0.01, "momentum": 0.7}})
    everyone = [Candidate(rule.method, "", rule.rates, rule.momentum) for rule in RULES]
    course, trials = Course(experiment, held=0.25), trials_of(everyone, experiment.local, 3)
    names = [job.name for job in course.jobs(trials, 1000, course.seeds(3, final=False))]
    assert len(names) == 3 * len(trials) == len(set(names))


def test_figures_are_those_of_the_data() -> None:
    federation = split_federation(load_data("digits", 20.0), "iid", 4)
    data = figures_of(federation, 2)
    totals = federation.counts().sum(0).tolist()
    assert (data.samples, data.classes, data.clients, data.asked) == (sum(totals), 10, 4, 2)
    assert data.imbalance == pytest.approx(max(totals) / min(totals))
    assert (data.largest, data.rarest, data.rarest_samples) == ("0", "9", min(totals))
    assert data.divergence < 0.1
    assert f"{sum(totals):,} training samples of 10 classes on 4 clients" in next(iter(data.words))
