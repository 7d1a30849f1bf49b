"""A sweep as runs: names, order, pairing by seed, and folders that hold something else."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeps import tiny_sweep

from counterpoise.core.codec import digest
from counterpoise.errors import ConfigError
from counterpoise.run.assemble import assemble, fingerprint, load_federation
from counterpoise.run.runner import start
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
