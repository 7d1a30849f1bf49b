"""Rows, pairs, targets and what is left out of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import DOWN, SECONDS, UP, made_run, paired_runs

from counterpoise.errors import ConfigError
from counterpoise.results.cells import Cell
from counterpoise.results.comparison import Labels, compare_results


def test_cells_hold_values_by_seed_with_mean_and_sample_deviation() -> None:
    (row,) = compare_results(paired_runs({"fedavg": [0.4, 0.5, 0.6]})).rows
    assert row.seeds == (0, 1, 2)
    cell = row.cells["macro_f1"]
    assert cell.values == (0.4, 0.5, 0.6)
    assert cell.mean == pytest.approx(0.5)
    assert cell.deviation == pytest.approx(0.1)


def test_a_cell_knows_what_it_does_not_know() -> None:
    assert Cell((None, 0.3)).known == (0.3,)
    assert Cell((None, 0.3)).deviation is None
    assert Cell((None,)).mean is None


def test_seeds_stand_in_order_whatever_the_order_of_the_runs() -> None:
    runs = [made_run(seed=seed, scores=seed / 10) for seed in (2, 0, 1)]
    (row,) = compare_results(runs).rows
    assert row.seeds == (0, 1, 2)
    assert row.cells["accuracy"].values == (0.0, 0.1, 0.2)


@pytest.mark.parametrize(
    ("at", "value"), [("last", 0.4), ("best", 0.9), ("mean_last_10", (7 * 0.5 + 0.9 + 0.9 + 0.4) / 10)]
)
def test_moments(at: Any, value: float) -> None:
    scores = [0.1, *[0.5] * 7, 0.9, 0.9, 0.4]
    (row,) = compare_results([made_run(scores=scores)], at=at).rows
    assert row.cells["tail"].values == pytest.approx((value,))
    assert [row.cells[name].mean for name in ("last", "best")] == [0.4, 0.9]


def test_the_best_calibration_error_is_the_lowest() -> None:
    run = made_run(scores=[0.5, 0.5, 0.5], calibration=[0.3, 0.1, 0.2])
    (row,) = compare_results([run], score="calibration_error", at="best").rows
    assert row.cells["calibration_error"].mean == 0.1


def test_target_by_hand() -> None:
    """Best mean final score 0.8, so the target is 0.76: at the second evaluation, each two rounds apart."""
    runs = [
        made_run("fedavg", 0, [0.1, 0.2, 0.3], every=2),
        made_run("scaffold", 0, [0.2, 0.8, 0.9], every=2),
        made_run("scaffold", 1, [0.2, 0.6, 0.7], every=2),
    ]
    found = compare_results(runs)
    assert found.targets[""] == pytest.approx(0.76)
    fedavg, scaffold = found.rows
    wanted = {
        "rounds_to_target": [4, None],
        "bytes_to_target": [4 * (DOWN + UP), None],
        "seconds_to_target": [4 * SECONDS, None],
        "bytes": [6 * (DOWN + UP)] * 2,
        "seconds": [6 * SECONDS] * 2,
    }
    assert {name: list(scaffold.cells[name].values) for name in wanted} == wanted
    assert fedavg.cells["rounds_to_target"].known == ()


def test_a_target_that_is_given_holds_and_equality_reaches_it() -> None:
    found = compare_results([made_run(scores=[0.1, 0.2, 0.9])], target=0.2)
    assert found.rows[0].cells["rounds_to_target"].values == (2,)


def test_a_target_of_a_score_that_is_better_when_lower() -> None:
    runs = [made_run(scores=[0.5] * 3, calibration=[0.5, 0.2, 0.19])]
    found = compare_results(runs, score="calibration_error")
    assert found.targets[""] == pytest.approx(0.19 / 0.95)
    assert found.rows[0].cells["rounds_to_target"].values == (2,)


def test_runs_are_paired_by_seed_not_by_place() -> None:
    runs = [made_run("fedavg", seed, score) for seed, score in ((0, 0.1), (1, 0.5), (2, 0.9))]
    runs += [made_run("scaffold", seed, score) for seed, score in ((2, 0.95), (1, 0.6))]
    (verdict,) = compare_results(runs).verdicts
    assert verdict.pairs == 2
    assert verdict.difference == pytest.approx((0.05 + 0.1) / 2)


def test_what_did_not_finish_is_left_out_and_listed() -> None:
    runs = [
        made_run("fedavg", 0, 0.5),
        made_run("fedavg", 1, 0.9, failure="no space left", finished=False, folder="broken"),
        made_run("fedavg", 2, [0.9, 0.9], finished=False, rounds=7, folder="stopped"),
    ]
    found = compare_results(runs)
    assert found.rows[0].seeds == (0,)
    assert found.failures == (
        (Path("runs/broken"), "no space left"),
        (Path("runs/stopped"), "not finished: 2 of 7 rounds"),
    )


def test_a_failed_run_may_have_any_method() -> None:
    failed = made_run({"fedprox": {"mu": -1}}, failure="mu = -1 is not legal", finished=False)
    assert len(compare_results([made_run(), failed]).failures) == 1


def test_nothing_finished_is_a_comparison_without_rows() -> None:
    found = compare_results([made_run(finished=False)])
    assert (found.rows, found.verdicts, found.ranking) == ((), (), None)
    assert len(found.failures) == 1


def test_missing_seeds_are_noted() -> None:
    runs = paired_runs({"fedavg": [0.1, 0.2, 0.3], "scaffold": [0.1]})
    assert compare_results(runs).notes == ("scaffold has no finished run of seed 1, 2.",)


def test_of_runs_with_the_same_seed_the_first_stands_and_it_is_noted() -> None:
    found = compare_results([made_run(scores=0.1, folder="a"), made_run(scores=0.2, folder="b")])
    assert found.rows[0].cells["accuracy"].values == (0.1,)
    assert "1 runs repeat" in found.notes[0]


def test_the_best_round_is_said_to_be_too_good() -> None:
    assert "too good" in compare_results([made_run()], at="best").notes[0]


def test_the_baseline_is_fedavg_or_else_the_first() -> None:
    assert compare_results(paired_runs({"scaffold": [0.1], "fedavg": [0.1]})).baseline == "fedavg"
    assert compare_results(paired_runs({"scaffold": [0.1], "fedcm": [0.1]})).baseline == "scaffold"


def test_a_baseline_by_name_or_label() -> None:
    runs = [made_run({"fedprox": {"mu": mu}}, scores=mu) for mu in (0.1, 0.2)] + [made_run("scaffold")]
    assert compare_results(runs, baseline="fedprox(mu=0.2)").baseline == "fedprox(mu=0.2)"
    assert compare_results(runs, baseline="scaffold").baseline == "scaffold"
    with pytest.raises(ConfigError, match=r"'fedprox' is not one method.*fedprox\(mu=0.1\)"):
        compare_results(runs, baseline="fedprox")


def test_a_baseline_that_failed_is_noted_not_refused() -> None:
    runs = [made_run("scaffold"), made_run("fedavg", finished=False)]
    found = compare_results(runs, baseline="fedavg")
    assert found.verdicts == ()
    assert "baseline fedavg has no finished run" in found.notes[0]


def test_a_baseline_that_failed_may_go_by_its_label() -> None:
    failed = made_run("fedavg", finished=False)
    labels = {failed.path: Labels("digits", "tuned baseline")}
    assert (
        compare_results([made_run("scaffold"), failed], baseline="tuned baseline", labels=labels).verdicts
        == ()
    )


def test_wrong_words_are_refused_with_the_legal_ones() -> None:
    with pytest.raises(ConfigError, match="did you mean 'balanced_accuracy'"):
        compare_results([made_run()], score="balanced_acuracy")
    with pytest.raises(ConfigError, match="no run has the score 'loss'"):
        compare_results([made_run()], score="loss")
    with pytest.raises(ConfigError, match="at must be one of last, best, mean_last_10, not"):
        compare_results([made_run()], at="first")  # type: ignore[arg-type]


def test_labels_that_are_given_pair_what_configs_do_not() -> None:
    runs = [
        made_run({"fedprox": {"mu": 0.1}}, 0, 0.7, local={"lr": 0.1}, folder="a"),
        made_run({"fedprox": {"mu": 0.3}}, 1, 0.8, local={"lr": 0.5}, folder="b"),
        *paired_runs({"fedavg": [0.5, 0.5]}, local={"lr": 0.2}),
    ]
    labels = {run.path: Labels("digits", run.method) for run in runs}
    found = compare_results(runs, labels=labels)
    assert [(row.problem, row.method, row.seeds) for row in found.rows] == [
        ("digits", "fedprox", (0, 1)),
        ("digits", "fedavg", (0, 1)),
    ]
    assert found.verdicts[0].difference == pytest.approx(0.25)
