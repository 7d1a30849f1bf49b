"""`watch` shows how far tuning is, and `ls runs` shows sweeps, files and the best of each problem."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made_runs import made_run
from runs import assert_refused, call, read_strictly, read_summary, write_tiny
from sweeps import tiny_sweep

from counterpoise.metrics.catalogue import SCORES, find
from counterpoise.report.pictures import Pictures
from counterpoise.results.progress import Progress, read_progress
from counterpoise.results.results import find_runs
from counterpoise.run.listener import Listener
from counterpoise.run.store.folder import SWEEP
from counterpoise.sweep import standing, tune
from counterpoise.sweep.run import Execution, run_jobs, run_sweep
from counterpoise.sweep.standing import Standing
from counterpoise.sweep.sweep import write_sweep
from counterpoise.sweep.tune import choose, jobs_of, searches_of

RATES = [0.001, 0.3]
SWEPT = tiny_sweep(
    methods=["fedavg", "fedavgm"],
    seeds=2,
    base={"rounds": 1, "data": {"name": "digits", "imbalance": 10.0, "validation": 0.3}},
    tune={"grid": {"local.lr": RATES}, "budget": 2},
)


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pictures, "began", Listener.began)
        patch.setattr(Pictures, "ended", Listener.ended)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep, and two runs of their own: one from a file, one on another problem."""
    folder = tmp_path_factory.mktemp("listed") / "runs"
    run_sweep(SWEPT, folder / "tuned", Execution())
    path = write_tiny(folder.parent, "rounds=1")
    for name, change in (("one", "seed=5"), ("two", "seed=6"), ("other", "partition.alpha=0.1")):
        assert call("run", path, change, "--out", folder / name).code == 0
    return folder


def begin(out: Path, trials: int) -> Standing:
    """The standing after the first trials of a sweep."""
    out.mkdir()
    (out / SWEEP).write_text(write_sweep(SWEPT))
    run_jobs("tuning", jobs_of(searches_of(SWEPT))[:trials], out, Execution(), lambda tally: None)
    return Standing(out)


def test_each_method_says_which_trial_of_how_many_and_the_best_so_far(tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    begun = begin(out, 1)
    score = read_summary(next((out / "tuning").iterdir()))["balanced_accuracy"]
    assert begun.going_on
    assert list(begun.lines()) == [
        f"{out}: tuning, 1 of 4 trials done",
        f"  fedavg: trial 2 of 2, best so far lr=0.001: balanced {score:.1%}",
        "  fedavgm: 2 trials to come",
    ]
    run_jobs("tuning", jobs_of(searches_of(SWEPT))[:2], out, Execution(), lambda tally: None)
    best = choose(searches_of(SWEPT)[0], out, "balanced_accuracy").chosen
    assert best is not None
    shown = call("watch", out, "--once").out
    assert "tuning, 2 of 4 trials done" in shown
    assert f"fedavg: done, best so far lr={best['local.lr']}: balanced " in shown


def test_the_best_so_far_is_what_tuning_would_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last evaluation of the first trial lacks the score: what it had before does not count."""
    search, score = searches_of(SWEPT)[0], "balanced_accuracy"
    lost, known = (trial.jobs[0].path(tmp_path) for trial in search.trials)
    runs = {
        lost: made_run(scores=[0.9, 0.8])._replace(summary={score: None}),
        known: made_run(scores=[0.2, 0.3])._replace(summary={score: 0.3}),
    }
    runs[lost].rows[-1][score] = None
    monkeypatch.setattr(tune, "result_of", runs.get)
    assert choose(search, tmp_path, score).chosen == {"local.lr": RATES[1]}
    (tmp_path / SWEEP).write_text(write_sweep(SWEPT))
    for path in runs:
        path.mkdir(parents=True)
        (path / "config.toml").touch()
    monkeypatch.setattr(standing, "read_progress", lambda path: Progress(path, "done", 0.0, runs[path]))
    assert f"  fedavg: done, best so far lr={RATES[1]}: balanced 30.0%" in list(Standing(tmp_path).lines())


def test_a_sweep_that_is_tuned_shows_its_runs_alone(runs: Path) -> None:
    assert not Standing(runs / "tuned").going_on
    shown = call("watch", runs, "--once").out
    assert "tuning" not in shown
    assert "7 done" in shown


def test_runs_are_grouped_by_sweep_and_name_their_file(runs: Path) -> None:
    lines = call("ls", "runs", runs).out.splitlines()
    assert lines[0].strip() == "single runs: 3 of 3 done"
    assert lines[1].split()[:2] == ["run", "method"]
    assert "balanced" in lines[1]
    assert all("tiny.toml" in line for line in lines[2:5])
    heading = lines.index(next(line for line in lines if line.startswith("sweep ")))
    assert lines[heading].strip() == f"sweep {runs / 'tuned'}: 4 of 4 done"
    assert "file" not in lines[heading + 1].split()
    assert len(lines[heading + 2 :]) == 4


def test_runs_that_a_stopped_sweep_has_not_begun_count_too(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    (out / "runs").mkdir(parents=True)
    (out / SWEEP).write_text(write_sweep(SWEPT))
    assert f"{out}: no run yet, 4 to come; 0 of 4 rounds" in call("watch", out, "--once").out
    shutil.copytree(runs / "tuned" / "runs" / "fedavg-seed0", out / "runs" / "fedavg-seed0")
    assert f"{out}: 1 done, 3 to come; 1 of 4 rounds" in call("watch", out, "--once").out
    assert f"{tmp_path}: 1 done, 3 to come; 1 of 4 rounds" in call("watch", tmp_path, "--once").out
    assert f"sweep {out}: 1 of 4 done" in call("ls", "runs", out).out
    (out / SWEEP).write_text("damaged")
    assert f"{out}: 1 done; 1 of 1 rounds" in call("watch", out, "--once").out
    assert f"sweep {out}: 1 of 1 done" in call("ls", "runs", out).out


def test_headings_of_the_best_count_the_runs_that_are_not_shown(runs: Path) -> None:
    lines = [line.strip() for line in call("ls", "runs", runs, "--best").out.splitlines()]
    assert "single runs: 3 of 3 done" in lines
    assert f"sweep {runs / 'tuned'}: 4 of 4 done" in lines


def test_as_data_runs_have_file_and_sweep(runs: Path) -> None:
    told = read_strictly(call("ls", "runs", runs, "--json").out)
    by_name = {Path(run["folder"]).name: (run["file"], run["sweep"]) for run in told}
    assert by_name["one"] == ("tiny.toml", None)
    assert by_name["fedavg-seed0"] == (None, str(runs / "tuned"))


def test_the_best_of_each_problem_and_sweep_is_picked_by_the_score(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCORES, "accuracy", find("accuracy")._replace(lower=True))  # as a plugin's may be
    found = {path.name: read_progress(path) for path in find_runs([runs])}
    for score, sign in (("balanced_accuracy", 1), ("accuracy", -1)):
        words = [] if score == "balanced_accuracy" else ["--sort", score]
        shown = call("ls", "runs", runs, "--best", "--json", *words)
        picked = {Path(run["folder"]).name for run in read_strictly(shown.out)}
        values = {name: sign * (run.last(score) or 0.0) for name, run in found.items()}
        swept = [name for name, run in found.items() if run.sweep]
        wanted = {
            max(swept, key=lambda name: values[name]),
            max(("one", "two"), key=lambda name: values[name]),
        }
        assert picked == wanted | {"other"}
    assert "too good" in call("ls", "runs", runs, "--best").err


def test_best_goes_with_runs_alone(runs: Path, tmp_path: Path) -> None:
    assert_refused(call("ls", "methods", "--best"), 2, "--best goes only with `ls runs`")
    (tmp_path / "empty").mkdir()
    assert call("ls", "runs", tmp_path / "empty", "--best").out == f"no run in {tmp_path / 'empty'}\n"


def test_runs_are_sorted_by_file(runs: Path) -> None:
    told = read_strictly(call("ls", "runs", runs, "--json", "--sort", "file").out)
    assert [run["file"] for run in told] == [None] * 4 + ["tiny.toml"] * 3


def test_a_score_that_no_run_has_is_not_called_a_lack_of_finished_runs(tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, "rounds=1", "data.imbalance=1.0")
    assert call("run", experiment, "--out", tmp_path / "run").code == 0
    said = call("ls", "runs", tmp_path, "--best", "--sort", "tail").out
    assert said == f"no finished run with the score tail in {tmp_path}\n"
