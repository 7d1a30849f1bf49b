"""A sweep as runs: names, order, pairing by seed, and folders that hold something else."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeps import run_here, tiny_sweep

from counterpoise.core.codec import digest
from counterpoise.errors import ConfigError
from counterpoise.results.comparison import compare_results
from counterpoise.results.labels import Labels, label_problems
from counterpoise.results.repeats import overlaps
from counterpoise.results.results import read_result
from counterpoise.run.assemble import assemble, fingerprint, load_federation
from counterpoise.run.runner import start
from counterpoise.run.store.folder import ADVICE, SWEEP
from counterpoise.sweep.estimate import plan_sweep
from counterpoise.sweep.jobs import Job, check_folders, expand, is_done
from counterpoise.sweep.specs import as_name, flat_grid, merge, put


def test_runs_are_methods_by_problems_by_seeds() -> None:
    sweep = tiny_sweep(vary={"partition.alpha": [0.1, 1.0], "data.imbalance": [5.0]}, seeds=[4, 2])
    jobs = expand(sweep)
    assert [(job.problem, job.experiment.seed, job.method) for job in jobs] == [
        (f"alpha={alpha} imbalance=5", seed, method)
        for alpha in ("0.1", "1")
        for seed in (4, 2)
        for method in ("fedavg", "fedavg+balanced_softmax")
    ]
    assert jobs[0].name == "fedavg-alpha=0.1-imbalance=5-seed4"
    assert jobs[0].experiment.partition.arguments == {"alpha": 0.1}
    assert jobs[0].experiment.data.imbalance == 5.0
    assert expand(sweep) == jobs


def test_problems_may_be_given_one_by_one() -> None:
    problems = [{"name": "easy", "data": {"imbalance": 1.0}}, {"partition": {"alpha": 9.0}, "rounds": 7}]
    easy, *_, last = expand(tiny_sweep(problems=problems))
    assert (easy.problem, easy.experiment.data.imbalance, easy.experiment.data.name) == (
        "easy",
        1.0,
        "digits",
    )
    assert (last.problem, last.experiment.rounds, last.experiment.data.imbalance) == ("problem2", 7, 10.0)


def test_a_method_may_have_local_settings_of_its_own() -> None:
    methods = ["fedavg", {"name": "slow", "method": "fedavg", "local": {"lr": 0.001}}]
    fast, slow, *_ = expand(tiny_sweep(methods=methods))
    assert (fast.experiment.local.lr, slow.experiment.local.lr) == (0.1, 0.001)
    assert slow.experiment.local.batch_size == fast.experiment.local.batch_size == 64
    assert slow.name == "slow-seed0"


def test_names_that_would_be_the_same_carry_a_hash() -> None:
    methods = [{"name": "a b", "method": "fedavg"}, {"name": "a/b", "method": "fedcm"}, {"name": "A-B", "method": "fedprox"}, "scaffold"]  # fmt: skip
    names = [job.name for job in expand(tiny_sweep(methods=methods, seeds=1))]
    assert len({name.lower() for name in names}) == 4
    assert names[3] == "scaffold-seed0"
    assert all(name.lower().startswith("a-b-seed0-") for name in names[:3])


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_no_name_leads_out_of_the_folder(text: str) -> None:
    name = as_name(f"{text} seed0")
    path = Path("runs") / name
    assert path.parent == Path("runs")
    assert ".." not in path.parts
    assert len(name) <= 80


def test_values_are_put_in_at_dotted_keys() -> None:
    tables = {"method": ["fedavg", {"focal": {"gamma": 1.0}}], "local": {"lr": 1.0}}
    assert put(tables, "local.epochs", 3)["local"] == {"lr": 1.0, "epochs": 3}
    assert put(tables, "method.focal.gamma", 2.0)["method"] == ["fedavg", {"focal": {"gamma": 2.0}}]
    assert put(tables, "method.fedavg.weighting", "uniform")["method"][0] == {
        "fedavg": {"weighting": "uniform"}
    }
    assert put({}, "a.b.c", 1) == {"a": {"b": {"c": 1}}}
    assert tables["local"] == {"lr": 1.0}
    assert merge({"data": {"imbalance": {"a": {}}, "name": "x"}}, {"data": {"imbalance": {"b": {}}}}) == {
        "data": {"imbalance": {"b": {}}, "name": "x"}
    }
    assert flat_grid({"a": {"b": [1]}, "c.d": [{"x": {}}]}) == {"a.b": [1], "c.d": [{"x": {}}]}


def pairing(job: Job) -> tuple[str, str, list[list[int]]]:
    """What methods of one seed must share: the partition, the first model and all cohorts."""
    federation = load_federation(job.experiment)
    with closing(assemble(job.experiment, federation)) as simulation:
        state = simulation.open()
        samples = federation.samples()
        cohorts = [simulation.cohort.draw(job.experiment.seed, number, samples) for number in range(20)]
        return fingerprint(federation), digest({"params": state.params, "buffers": state.buffers}), cohorts


def test_methods_of_one_seed_share_partition_first_model_and_cohorts() -> None:
    methods = ["fedavg", ["scaffold", "balanced_softmax", "sam"]]
    jobs = expand(tiny_sweep(methods=methods, base={"partition": {"clients": 6}, "cohort": {"size": 3}}))
    one, other, next_one, next_other = (pairing(job) for job in jobs)
    assert one == other
    assert next_one == next_other
    assert all(a != b for a, b in zip(one, next_one, strict=True))


def test_a_folder_with_another_config_is_refused_and_left_alone(tmp_path: Path) -> None:
    job = expand(tiny_sweep())[0]
    start(job.experiment, job.path(tmp_path))
    check_folders(expand(tiny_sweep()), tmp_path)
    assert is_done(job, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    changed = expand(tiny_sweep(base={"local": {"lr": 0.5, "batch_size": 64}}))
    with pytest.raises(
        ConfigError, match=r"fedavg-seed0 holds a run of another config: local.lr was 0.1 and is 0.5"
    ):
        check_folders(changed, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_refused_sweep_leaves_the_file_of_the_one_before(tmp_path: Path) -> None:
    """Later reports followed the refused file."""
    run_here(tiny_sweep(), tmp_path)
    before = (tmp_path / SWEEP).read_bytes()
    with pytest.raises(ConfigError, match="another config"):
        run_here(tiny_sweep(base={"rounds": 3}), tmp_path)
    assert (tmp_path / SWEEP).read_bytes() == before


def test_a_run_and_a_sweep_do_not_share_a_folder(tmp_path: Path) -> None:
    job = expand(tiny_sweep())[0]
    start(job.experiment, tmp_path / "run")
    with pytest.raises(ConfigError, match="holds a run, whose pictures"):
        run_here(tiny_sweep(), tmp_path / "run")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / SWEEP).write_text("")
    with pytest.raises(ConfigError, match="holds a sweep"):
        start(job.experiment, tmp_path / "sweep")


def test_neither_a_run_nor_a_sweep_takes_the_folder_of_advice(tmp_path: Path) -> None:
    """After a run in it the advice could not go on; a sweep wrote its page over that of the advice."""
    (tmp_path / ADVICE).write_text("{}")
    with pytest.raises(ConfigError, match="holds advice"):
        start(expand(tiny_sweep())[0].experiment, tmp_path)
    with pytest.raises(ConfigError, match="holds advice"):
        run_here(tiny_sweep(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [ADVICE]


@pytest.mark.parametrize("table", ["table", "tune"])
@pytest.mark.parametrize("score", ["positive_f1", "threshold_recall"])
def test_a_score_that_no_run_will_have_is_refused_before_any(table: str, score: str, tmp_path: Path) -> None:
    """All runs were trained first."""
    tune = {"tune": {"grid": {"local.lr": [0.1]}}} if table == "tune" else {}
    base = {"data": {"name": "digits", "validation": 0.2}}
    sweep = tiny_sweep(base=base, **{**tune, table: {**tune.get("tune", {}), "score": score}})
    for begin in (run_here, plan_sweep):
        with pytest.raises(ConfigError, match=f"{table}.score = {score} needs"):
            begin(sweep, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_choices_left_open_agree_with_what_a_run_settled(tmp_path: Path) -> None:
    base = {"partition": {"name": "iid", "clients": 4}, "engine": {"name": "loop"}}
    job = expand(tiny_sweep(base=base))[0]
    start(job.experiment, job.path(tmp_path))
    check_folders([job], tmp_path)
    other = job._replace(
        experiment=expand(tiny_sweep(base=base | {"engine": {"name": "stacked"}}))[0].experiment
    )
    with pytest.raises(ConfigError, match=r"engine\.name was 'loop' and is 'stacked'"):
        check_folders([other], tmp_path)


def test_every_run_has_a_folder_of_its_own() -> None:
    sweep = tiny_sweep(vary={"data.imbalance": [1.0, 1.00000001, {"step": {"factor": 2.0}}]})
    assert max(Counter(job.name for job in expand(sweep)).values()) == 1


def own_table(folder: Path, **keys: object) -> dict[str, object]:
    """A base on a table of the user's own."""
    rows = [f"{i % 7},{i % 5},{'pq'[i % 2]},{i}" for i in range(60)]
    (folder / "t.csv").write_text("\n".join(["a,b,label,when", *rows]) + "\n")
    data = {"name": "table", "path": str(folder / "t.csv"), "label": "label", **keys}
    return {"rounds": 1, "data": data, "partition": {"clients": 2}}


def test_seeds_may_repeat_the_split_and_methods_stay_paired(tmp_path: Path) -> None:
    keys = {"base": own_table(tmp_path, drop=["when"]), "seeds": [3, 8]}
    same, anew = expand(tiny_sweep(**keys)), expand(tiny_sweep(**keys, repeats="splits"))
    assert [job.name for job in same] == [job.name for job in anew]
    assert [job.experiment.data.seed for job in same] == [0] * 4
    assert [job.experiment.data.seed for job in anew] == [3, 3, 8, 8]
    tests = [fingerprint(replace(load_federation(job.experiment), clients=())) for job in anew]
    assert tests[0] == tests[1] != tests[2] == tests[3]


def test_seeds_may_be_the_folds_and_each_row_tests_once(tmp_path: Path) -> None:
    base = own_table(tmp_path, drop=["when"])
    jobs = expand(tiny_sweep(base=base, seeds=[3, 8, 9], methods=["fedavg", "fedavgm"], repeats="folds"))
    folds = [(job.experiment.seed, job.experiment.data.arguments["fold"]) for job in jobs]
    assert folds == [(3, 0), (3, 0), (8, 1), (8, 1), (9, 2), (9, 2)]
    tests = [load_federation(job.experiment).test for job in jobs[::2]]
    assert [len(test.y) for test in tests] == [20] * 3
    for job in jobs[::2]:
        start(job.experiment, job.path(tmp_path))
    found = compare_results([read_result(job.path(tmp_path)) for job in jobs[::2]])
    assert [row.seeds for row in found.rows] == [(3, 8, 9)]
    assert any("one fold, from the same data" in note for note in found.notes)


def test_clients_that_train_alone_do_not_change_the_share_of_test_samples(tmp_path: Path) -> None:
    """Each of their models answers for all test samples; p of every other method went by the sum."""
    base = own_table(tmp_path, drop=["when"])
    jobs = expand(tiny_sweep(base=base, seeds=2, methods=["fedavg", "local"], repeats="folds"))
    for job in jobs:
        start(job.experiment, job.path(tmp_path))
    runs = {
        Labels("p", method): {
            job.experiment.seed: read_result(job.path(tmp_path)) for job in jobs if job.method == method
        }
        for method in ("fedavg", "local")
    }
    assert overlaps(runs) == {"p": 1.0}  # half of the rows, and the other half


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"seeds": [1]}, 'repeats = "folds" needs 2 to 1000 seeds, one for each fold, not 1'),
        ({"data": {"fold": 1}}, 'data.fold does not go with repeats = "folds"'),
        (
            {"data": {"time": "when"}},
            'repeats = "folds" needs a test set that data.seed draws, and data.time',
        ),
    ],
)
def test_folds_that_seeds_cannot_be_are_refused(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    base = own_table(tmp_path, **keys.pop("data", {}))
    with pytest.raises(ConfigError, match=words):
        expand(tiny_sweep(base=base, repeats="folds", **keys))


@pytest.mark.parametrize(
    ("data", "tune", "words"),
    [
        ({"time": "when"}, None, "needs a test set that data.seed draws, and data.time gives it"),
        ({"seed": 1}, None, 'data.seed does not go with repeats = "splits"'),
        (None, None, "needs a test set that data.seed draws, and that of digits is fixed"),
        ({}, {"grid": {"local.lr": [0.1, 0.2]}}, r"does not go with \[tune\]"),
    ],
)
def test_splits_that_seeds_cannot_repeat_are_refused(
    tmp_path: Path, data: dict[str, object] | None, tune: dict[str, object] | None, words: str
) -> None:
    keys = {"base": own_table(tmp_path, **data)} if data is not None else {}
    with pytest.raises(ConfigError, match=words):
        expand(tiny_sweep(repeats="splits", **keys, **({"tune": tune} if tune else {})))


def test_runs_whose_seed_also_splits_are_one_problem(tmp_path: Path) -> None:
    base = own_table(tmp_path, drop=["when"])
    sweep = tiny_sweep(base=base, seeds=[0, 1], methods=["fedavg"], repeats="splits")
    for job in expand(sweep):
        start(job.experiment, job.path(tmp_path))
    results = [read_result(job.path(tmp_path)) for job in expand(sweep)]
    assert label_problems(results) == ["", ""]
    [note] = [note for note in compare_results(results).notes if "test rows" in note]
    assert note.startswith("Each seed has test rows of its own")
