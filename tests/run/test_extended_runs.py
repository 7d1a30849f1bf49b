"""A run goes on to more rounds where the rounds done would be the same, and another starts from its weights."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from federations import distance
from runs import Hearing, assert_refused, call, read_summary, result, tiny, write_tiny
from safetensors.torch import load_file

from counterpoise.errors import ConfigError
from counterpoise.results.results import read_result
from counterpoise.run.assemble import assemble
from counterpoise.run.runner import resume, start
from counterpoise.run.store import extend as extending
from counterpoise.run.store.folder import RunFolder

SHORT, LONG = 4, 7
SETTING = ("method=scaffold", "local.schedule=factor", "evaluate.every=3")


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of SCAFFOLD whose last round was evaluated only because it was the last."""
    folder = tmp_path_factory.mktemp("short") / "run"
    start(tiny(*SETTING, f"rounds={SHORT}"), folder)
    return folder


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "run"
    start(tiny(*SETTING, f"rounds={LONG}"), folder)
    return folder


@pytest.fixture
def copy(short_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(short_run, tmp_path / "run"))


def assert_same(folder: Path, other: Path) -> None:
    """Model, state, rows and config are those of the other run; both can be read."""
    assert result(read_summary(folder)) == result(read_summary(other))
    for name in ("metrics.jsonl", "config.toml", "model.safetensors"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    assert read_result(folder).has_result


def test_a_finished_run_goes_on_to_what_a_longer_one_is(copy: Path, long_run: Path) -> None:
    done = call("resume", copy, f"rounds={LONG}")
    assert done.code == 0, done.err
    assert_same(copy, long_run)


def test_an_interrupted_run_goes_on_to_what_a_longer_or_shorter_one_is(
    tmp_path: Path, short_run: Path, long_run: Path
) -> None:
    def stop(row: Mapping[str, Any], rounds: int) -> None:
        if row["round"] == 2:
            raise KeyboardInterrupt

    for rounds, other in ((LONG, long_run), (SHORT, short_run)):
        folder = tmp_path / f"to-{rounds}"
        with pytest.raises(KeyboardInterrupt):
            start(tiny(*SETTING, "rounds=5"), folder, [Hearing(stop)])
        resume(folder, rounds=rounds)
        assert_same(folder, other)


@pytest.mark.parametrize("step", ["write_config", "write_notes"])
def test_a_stop_while_it_is_extended_costs_only_the_same_command(
    copy: Path, long_run: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(extending, step, stop)
    with pytest.raises(KeyboardInterrupt):
        resume(copy, rounds=LONG)
    monkeypatch.undo()
    resume(copy, rounds=LONG)
    assert_same(copy, long_run)


def test_an_extended_run_that_is_stopped_resumes_as_any_other(copy: Path, long_run: Path) -> None:
    def stop(row: Mapping[str, Any], rounds: int) -> None:
        if row["round"] == SHORT:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resume(copy, [Hearing(stop)], rounds=LONG)
    resume(copy)
    assert_same(copy, long_run)


def test_a_schedule_over_all_rounds_is_refused_and_the_run_stays_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = start(tiny("local.schedule=cosine"), folder)
    refused = call("resume", folder, "rounds=8")
    assert_refused(
        refused, 2, "cannot go on to 8 rounds", "local.schedule = 'cosine' gives round 2 another rate"
    )
    assert resume(folder) == summary


def test_a_boundary_that_was_not_reached_may_move(tmp_path: Path) -> None:
    setting = "local.schedule={ steps = { at = [0.75] } }"  # after 6 of 8 rounds, after 9 of 12

    def stop(row: Mapping[str, Any], rounds: int) -> None:
        if row["round"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(tiny(setting, "rounds=8"), tmp_path / "run", [Hearing(stop)])
    longer = start(tiny(setting, "rounds=12"), tmp_path / "longer")
    assert result(resume(tmp_path / "run", rounds=12)) == result(longer)
    with pytest.raises(
        ConfigError, match="gives round 10 another rate in a run of 20 rounds than in one of 12"
    ):
        resume(tmp_path / "run", rounds=20)


@pytest.mark.parametrize("part", ["deferred_reweighting", "relabel", "crt", "ccvr"])
def test_a_part_that_plans_for_all_rounds_is_refused(tmp_path: Path, part: str) -> None:
    start(tiny(f'method=["fedavg", "{part}"]', "rounds=2"), tmp_path / "run")
    with pytest.raises(ConfigError, match=f"cannot go on to 4 rounds: {part} plans for all rounds"):
        resume(tmp_path / "run", rounds=4)


def test_what_a_part_says_of_the_run_speaks_of_the_new_rounds(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    method = 'method=["fedavg", { dp = { clip = 1.0, noise_multiplier = 1.0 } }]'
    setting = (method, "cohort.sampling=bernoulli", "rounds=2")
    start(tiny(*setting), tmp_path / "run")
    assert "after 2 rounds" in str(read_result(tmp_path / "run").record["notes"])
    resume(tmp_path / "run", rounds=3)
    assert "after 3 rounds" in str(read_result(tmp_path / "run").record["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rounds=3"], "has done 4 rounds: rounds must be at least 4, not 3"),
        (["rounds=0"], "rounds must be"),
        (["rounds=many"], "rounds must be"),
        (["local.lr=0.5"], "resume changes only rounds=NUMBER, not 'local.lr=0.5'"),
        (["rounds=9", "seed=1"], "resume changes only rounds=NUMBER, not 'seed=1'"),
    ],
)
def test_nothing_else_changes_in_a_run_that_has_begun(copy: Path, words: list[str], said: str) -> None:
    before = read_summary(copy)
    assert_refused(call("resume", copy, *words), 2, said)
    assert read_result(copy).summary == before


def test_a_run_starts_from_the_final_weights_of_another(short_run: Path, tmp_path: Path) -> None:
    final = short_run / "model.safetensors"
    assert distance(assemble(tiny(f'model.weights="{short_run}"')).open().params, load_file(final)) == 0
    done = call("run", write_tiny(tmp_path), f"model.weights={short_run}", "--out", tmp_path / "next")
    assert done.code == 0, done.err
    by_file = start(tiny(f'model.weights="{final}"'), tmp_path / "by-file")
    assert read_summary(tmp_path / "next")["params_sha256"] == by_file["params_sha256"]
    records = [read_result(tmp_path / name).record["weights_sha256"] for name in ("next", "by-file")]
    assert records[0] == records[1]


def test_a_folder_without_final_weights_is_refused(copy: Path, tmp_path: Path) -> None:
    RunFolder(copy).summary.unlink()
    with pytest.raises(ConfigError, match="is not finished and has no final weights; continue with"):
        assemble(tiny(f'model.weights="{copy}"'))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="must be a safetensors file or the folder of a run"):
        assemble(tiny(f'model.weights="{tmp_path / "empty"}"'))


def test_weights_of_an_impossible_name_are_refused_by_their_key() -> None:
    with pytest.raises(ConfigError, match=r"^model\.weights: a+ cannot be read: "):
        assemble(tiny(f'model.weights="{"a" * 300}"'))
