"""The report shows clients from the worst to the best, for each method."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from reported import CLIENTS, finished_in

from counterpoise.report.html.clients import MOST_PLACES, client_data
from counterpoise.report.html.page import render
from counterpoise.report.html.study import study
from counterpoise.results.results import RunResult

SHARED = "balanced accuracy, shared model"


def _with_scores(run: RunResult, scores: dict[str, Any] | None) -> RunResult:
    """The run as if it had listed these scores of its clients last; None: as if it had not scored them."""
    last = {key: value for key, value in run.rows[-1].items() if key != "clients"}
    listed = {} if scores is None else {"clients": run.rows[-1]["clients"] | scores}
    return run._replace(rows=[*run.rows[:-1], last | listed])


def test_places_hold_the_mean_over_seeds_of_the_sorted_scores(runs: Path) -> None:
    pair = [run for run in finished_in(runs) if run.method == "fedavg"]
    assert len(pair) == 2
    ranked = [sorted(run.scored[-1]["clients"]["client_balanced_accuracy"]) for run in pair]
    (found,) = client_data(study(pair))[SHARED]
    places, means, deviations = found["curve"]
    assert found["at"] == (0, 0)
    assert places == [1, 2, 3, 4] == list(range(1, CLIENTS + 1))
    assert means == pytest.approx([mean(both) for both in zip(*ranked, strict=True)], rel=1e-4)
    assert deviations == pytest.approx([stdev(both) for both in zip(*ranked, strict=True)], rel=1e-3)
    for one, value in zip(pair, ranked, strict=True):
        assert value[0] == one.scored[-1]["clients"]["worst_client_balanced_accuracy"]
        assert value[-1] == one.scored[-1]["clients"]["best_client_balanced_accuracy"]


def test_clients_without_a_score_have_no_place(runs: Path) -> None:
    run, other = (run for run in finished_in(runs) if run.method == "fedavg")
    known = [
        _with_scores(run, {"client_balanced_accuracy": [0.5, None, 0.1, 0.9]}),
        _with_scores(other, {"client_balanced_accuracy": [0.4, 0.2, 0.6, 0.8]}),
    ]
    (found,) = client_data(study(known))[SHARED]
    assert found["curve"][0] == [1, 2, 3]
    assert (found["curve"][1][0], found["curve"][1][-1]) == pytest.approx((0.15, 0.85))


def test_a_thousand_clients_are_thinned_and_keep_the_worst_and_the_best(runs: Path) -> None:
    run = finished_in(runs)[0]
    many = _with_scores(run, {"client_balanced_accuracy": [k / 999 for k in reversed(range(1000))]})
    (found,) = client_data(study([many]))[SHARED]
    places, means, deviations = found["curve"]
    assert len(places) == len(means) == MOST_PLACES
    assert (places[0], places[-1], means[0], means[-1]) == (1, 1000, 0, 1)
    assert deviations is None


def test_runs_that_did_not_score_their_clients_have_no_such_picture(runs: Path) -> None:
    plain = [_with_scores(run, None) for run in finished_in(runs)]
    assert client_data(study(plain)) == {}
    assert 'data-chart="clients"' not in render(study(plain))


def test_the_page_has_a_line_for_each_method(runs: Path, page: Path) -> None:
    text = page.read_text()
    assert 'data-chart="clients"' in text
    assert "clients: mountClients" in text
    found = re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    drawn = json.loads(found[1])["clients"]
    assert list(drawn) == [SHARED, "accuracy, shared model"]
    assert [one["at"][1] for one in drawn[SHARED]] == [0, 1, 2]


def test_own_models_and_accuracy_are_drawn_where_they_are_scored(runs: Path) -> None:
    run = finished_in(runs)[0]
    own = {"personal": {"client_balanced_accuracy": [0.2, 0.1], "client_accuracy": [0.4, 0.3]}}
    drawn = client_data(study([run._replace(rows=[*run.rows[:-1], run.rows[-1] | own])]))
    assert drawn["balanced accuracy, own model"][0]["curve"][:2] == [[1, 2], [0.1, 0.2]]
    assert drawn["accuracy, own model"][0]["curve"][:2] == [[1, 2], [0.3, 0.4]]
    accuracy = drawn["accuracy, shared model"][0]["curve"][1]
    assert accuracy == pytest.approx(sorted(run.scored[-1]["clients"]["client_accuracy"]), rel=1e-4)
