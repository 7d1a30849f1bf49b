"""Notes below a table: seeds that collapsed, and classes that a model never predicts; by hand-made counts."""

from __future__ import annotations

import io
import json

import pytest
from made_runs import made_run
from rich.console import Console

from counterpoise.report.html import overview
from counterpoise.report.html.study import study
from counterpoise.report.render import print_comparison, render_json, render_markdown
from counterpoise.results.comparison import compare_results
from counterpoise.results.results import RunResult


def _counted(seed: int, confusion: list[list[int]]) -> RunResult:
    run = made_run("fedavg", seed)
    data = {"name": "made", "classes": ["cat", "dog", "owl"], "class_counts": [9, 9, 9]}
    summary = {"seed": seed, "confusion": confusion}
    return run._replace(summary=summary, record={"data": data, "samples": [27], "clients": None})


SOUND = [[8, 1, 0], [1, 8, 0], [1, 0, 8]]
WITHOUT_OWL = [[8, 1, 0], [1, 8, 0], [4, 5, 0]]
ONE_CLASS = [[10, 0, 0], [10, 0, 0], [10, 0, 0]]


def test_a_class_that_is_never_predicted_is_named_with_its_seeds() -> None:
    notes = compare_results([_counted(0, SOUND), _counted(1, WITHOUT_OWL), _counted(2, WITHOUT_OWL)]).notes
    assert notes == ("fedavg never predicts class owl (2 of 3 seeds).",)


def test_seeds_that_ran_with_other_code_are_named() -> None:
    """A row that mixed two versions of somebody's own method looked like any other."""
    runs = [_counted(seed, SOUND) for seed in range(3)]
    codes = ("4965", "4965", "2b0a")
    runs = [
        run._replace(record=run.record | {"versions": {"torch": "2", "mine.py": code}})
        for run, code in zip(runs, codes, strict=True)
    ]
    assert compare_results(runs).notes == (
        "fedavg: seed 0, 1 and seed 2 ran with different versions of mine.py.",
    )


def test_a_plugin_that_only_later_seeds_had_made_no_difference() -> None:
    """It was called a different version, though a method that needs it would not have run without."""
    known: list[dict[str, str]] = [{"torch": "2"}, {"torch": "2", "other.py": "4965"}]
    runs = [
        run._replace(record=run.record | {"versions": versions})
        for run, versions in zip([_counted(seed, SOUND) for seed in range(2)], known, strict=True)
    ]
    assert compare_results(runs).notes == ()


def test_methods_that_ran_on_other_data_are_named_with_their_seeds() -> None:
    """Runs of a file that was changed since were paired with those of the new one."""
    data = {("fedavg", 0): "a", ("fedcm", 0): "a", ("fedavg", 1): "b", ("fedcm", 1): "c", ("fedavg", 2): "b"}
    data |= {("fedcm", 2): "c", ("fedprox", 2): "b", ("fedprox", 3): "d"}
    runs = [
        run._replace(record=run.record | {"data_sha256": sha256})
        for (method, seed), sha256 in data.items()
        for run in [made_run(method, seed)]
    ]
    found = [note for note in compare_results(runs).notes if "data" in note]
    assert found == [
        "fedavg against fedcm, seed 1: they ran on different data (by SHA-256), and differ not by the method alone.",
        "fedavg, fedprox against fedcm, seed 2: they ran on different data (by SHA-256), and differ not by the method alone.",
    ]


def test_seeds_with_other_code_are_listed_in_order() -> None:
    """Folders are read by name, where seed 10 comes before seed 2."""
    runs = [_counted(seed, SOUND) for seed in (10, 2, 3)]
    runs = [
        run._replace(record=run.record | {"versions": {"torch": "2.1" if run.seed == 3 else "2.0"}})
        for run in runs
    ]
    assert compare_results(runs).notes == (
        "fedavg: seed 2, 10 and seed 3 ran with different versions of torch.",
    )


def test_a_method_that_ran_with_other_code_than_the_baseline_is_named() -> None:
    """Each row was of one version, so the pairs of two versions looked like any others."""
    codes = {"fedavg": "2.0", "fedcm": "2.1", "fedprox": "2.1"}
    made = [made_run(method, seed) for method in codes for seed in range(2)]
    runs = [
        run._replace(record=run.record | {"versions": {"torch": codes[run.method], "numpy": "2"}})
        for run in made
    ]
    assert compare_results(runs).notes == ("fedcm, fedprox ran with other versions of torch than fedavg.",)


def test_classes_are_named_in_their_order() -> None:
    """Those of the first seed came first."""
    without_cat = [[0, 9, 0], [0, 9, 0], [0, 1, 8]]
    assert compare_results([_counted(0, WITHOUT_OWL), _counted(1, without_cat)]).notes == (
        "fedavg never predicts class cat (1 of 2 seeds), owl (1 of 2 seeds).",
    )


def test_a_class_without_test_samples_is_not_missed() -> None:
    assert compare_results([_counted(0, [[5, 4, 0], [1, 8, 0], [0, 0, 0]])]).notes == ()


def test_a_model_that_knows_one_class_only_has_collapsed() -> None:
    notes = compare_results([_counted(0, SOUND), _counted(1, ONE_CLASS)]).notes
    assert notes[0] == "fedavg, seed 1 collapsed: it answers 100 % of the test samples with class cat."


def test_one_answer_is_no_collapse_where_nearly_all_samples_are_of_that_class() -> None:
    assert not any("collapsed" in note for note in compare_results([_counted(0, [[99, 0], [1, 0]])]).notes)


@pytest.mark.parametrize(("found", "collapsed"), [(33, False), (10, False), (9, True), (0, True)])
def test_a_frequent_answer_is_no_collapse_where_the_rare_class_is_still_named(
    found: int, collapsed: bool
) -> None:
    """909 samples to 91, as in Adult at 10 to 1, where FedAvg gives 95 % the frequent class and finds a third of the other."""
    notes = compare_results([_counted(0, [[900, 9], [91 - found, found]])]).notes  # a fifth of 91 is 18.2
    assert any("collapsed" in note for note in notes) == collapsed


@pytest.mark.parametrize(("last", "expected"), [(0.39, 1), (0.41, 0)])
def test_a_run_that_ends_below_half_of_what_it_reached_has_collapsed(last: float, expected: int) -> None:
    notes = compare_results([made_run("fedavg", 0, [0.3, 0.8, last])]).notes
    assert sum("fell from 80.0 to" in note for note in notes) == expected


def test_a_seed_that_never_learned_what_the_others_did_has_collapsed() -> None:
    notes = compare_results(
        [made_run("fedavg", seed, end) for seed, end in enumerate([0.8, 0.82, 0.3, 0.81])]
    ).notes
    assert notes == (
        "fedavg, seed 2 collapsed: balanced accuracy is 30.0 %, and 81.0 % with the other seeds in the middle.",
    )
    assert (
        compare_results([made_run("fedavg", seed, end) for seed, end in enumerate([0.8, 0.82, 0.3])]).notes
        == ()
    )


def test_notes_stand_below_the_table_in_every_form() -> None:
    found = compare_results([_counted(0, SOUND), _counted(1, WITHOUT_OWL)])
    note = "fedavg never predicts class owl (1 of 2 seeds)."
    console = Console(width=200, record=True, file=io.StringIO())
    print_comparison(found, console)
    assert note in console.export_text()
    assert note in render_markdown(found)
    assert note in json.loads(render_json(found))["notes"]
    assert note in overview.verdicts(study([_counted(0, SOUND), _counted(1, WITHOUT_OWL)]))
