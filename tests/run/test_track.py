"""Scores also go to a tracker: each evaluated round once, whatever happens to the run or to the tracker."""

from __future__ import annotations

import importlib.util
import json
import logging
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from runs import Hearing, assert_refused, call, read_summary, result, tiny, write_tiny

from counterpoise.errors import ConfigError
from counterpoise.run import track
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import RunFolder, read_rows
from counterpoise.run.track import scores_of

STOP_AT = 3
BLOCK = 1 << 15  # bytes of a block in a file of Weights & Biases


class Recorder:
    """A tracker that remembers, and fails when it is told to."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.written: list[tuple[int, dict[str, float]]] = []
        self.closed: list[bool] = []

    def write(self, step: int, scores: Mapping[str, float]) -> None:
        if step == self.fails_at:
            raise ConnectionError("nobody\nanswers")
        self.written.append((step, dict(scores)))

    def close(self, finished: bool) -> None:
        self.closed.append(finished)

    def steps(self) -> list[int]:
        return [step for step, _ in self.written]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """In place of TensorBoard, whether that is installed or not."""
    recorder = Recorder()
    monkeypatch.setitem(track.TRACKERS, "tensorboard", lambda *given: recorder)
    monkeypatch.setattr(track, "find_spec", lambda name: object())
    return recorder


def stop(row: Mapping[str, Any], rounds: int) -> None:
    if row["round"] + 1 == STOP_AT:
        raise KeyboardInterrupt


def stop_and_resume(experiment: Experiment, folder: Path) -> dict[str, Any]:
    with pytest.raises(KeyboardInterrupt):
        start(experiment, folder, [Hearing(stop)])
    return resume(folder)


def test_every_evaluated_round_is_handed_on(tmp_path: Path, recorder: Recorder) -> None:
    start(tiny("rounds=5", "evaluate.every=2", "track.to=tensorboard"), tmp_path / "run")
    assert recorder.steps() == [2, 4, 5]
    assert recorder.closed == [True]
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert [scores["accuracy"] for _, scores in recorder.written] == [rows[k]["accuracy"] for k in (1, 3, 4)]


def test_tracking_changes_no_result(tmp_path: Path, recorder: Recorder) -> None:
    plain = start(tiny("method=scaffold"), tmp_path / "plain")
    assert result(start(tiny("method=scaffold", "track.to=tensorboard"), tmp_path / "tracked")) == result(
        plain
    )
    assert recorder.steps() == [1, 2, 3, 4]


def test_a_run_may_go_on_with_tracking_changed_and_hands_on_what_was_before(
    tmp_path: Path, recorder: Recorder
) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(tiny("method=scaffold"), tmp_path / "run", [Hearing(stop)])
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace('to = "none"', 'to = "tensorboard"\nuri = "elsewhere"'))
    resumed = resume(tmp_path / "run")
    assert result(resumed) == result(start(tiny("method=scaffold"), tmp_path / "plain"))
    assert recorder.steps() == [1, 2, 3, 4]
    assert tiny("track.to=mlflow").binding_tables() == tiny().binding_tables()


def test_a_run_that_stops_closes_its_tracker_as_unfinished(tmp_path: Path, recorder: Recorder) -> None:
    stop_and_resume(tiny("track.to=tensorboard"), tmp_path / "run")
    assert recorder.closed == [False, True]


def test_a_tracker_that_fails_costs_one_warning_and_not_the_run(
    tmp_path: Path, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.fails_at = 2
    with caplog.at_level(logging.WARNING, "counterpoise"):
        summary = start(tiny("track.to=tensorboard"), tmp_path / "run")
    assert result(summary) == result(start(tiny(), tmp_path / "plain"))
    assert recorder.steps() == [1]
    assert len(caplog.messages) == 1
    assert "tensorboard failed (ConnectionError: nobody answers)" in caplog.messages[0]
    recorder.fails_at = None
    resume(tmp_path / "run")
    assert recorder.steps() == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("moment", ["opening", "closing"])
def test_a_tracker_may_fail_at_any_moment(
    tmp_path: Path, recorder: Recorder, moment: str, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def fail(*given: object) -> None:
        raise RuntimeError("broken")

    if moment == "opening":
        monkeypatch.setitem(track.TRACKERS, "tensorboard", fail)
    else:
        monkeypatch.setattr(recorder, "close", fail)
    assert start(tiny("rounds=1", "track.to=tensorboard"), tmp_path / "run")["rounds"] == 1
    assert len(caplog.messages) == 1


def test_scores_are_the_numbers_of_a_row() -> None:
    row = {
        "round": 7, "loss": 0.5, "skipped": False, "tail": None, "worst_class": "5", "rejected": [],
        "accuracy": 1, "validation": {"accuracy": 0.25, "per_class_recall": [0.1]}, "diagnostics": {"p": {"c": 3}},
    }  # fmt: skip
    assert scores_of(row) == {"loss": 0.5, "accuracy": 1.0, "validation/accuracy": 0.25}


@pytest.mark.parametrize(
    ("to", "extra"), [("tensorboard", "track"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_missing_package_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, extra: str
) -> None:
    monkeypatch.setattr(track, "find_spec", lambda name: None)
    command = ("run", write_tiny(tmp_path), f"track.to={to}", "--out", tmp_path / "run")
    assert_refused(call(*command), 2, f"track.to = '{to}'", f"pip install 'counterpoise[{extra}]'")
    assert not (tmp_path / "run").exists()


def test_unknown_trackers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"track\.to must be .*, not 'neptune'"):
        make_experiment({"track": {"to": "neptune"}})


def events_of(folder: Path, tag: str = "accuracy") -> list[tuple[int, float]]:
    """What TensorBoard's own reader finds."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(tag)]


def expected(folder: Path) -> list[tuple[int, float]]:
    return [(row["round"] + 1, row["accuracy"]) for row in read_rows(RunFolder(folder).metrics)]


def assert_same_points(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> None:
    assert [step for step, _ in found] == [step for step, _ in wanted]
    assert [value for _, value in found] == pytest.approx([value for _, value in wanted], rel=1e-6)


def test_tensorboard_reads_each_round_once_after_a_stop(tmp_path: Path) -> None:
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed: pip install 'counterpoise[track]'"
    )
    stop_and_resume(tiny("method=scaffold", "checkpoint.every=2", "track.to=tensorboard"), tmp_path / "run")
    assert_same_points(events_of(tmp_path / "run" / "tensorboard"), expected(tmp_path / "run"))
    assert result(read_summary(tmp_path / "run")) == result(
        start(tiny("method=scaffold"), tmp_path / "plain")
    )
    uri = tmp_path / "logs"
    start(tiny("rounds=2", "track.to=tensorboard", f'track.uri="{uri}"'), tmp_path / "other")
    assert_same_points(events_of(uri / "other"), expected(tmp_path / "other"))
    assert not (tmp_path / "other" / "tensorboard").exists()


def test_mlflow_holds_each_round_once_after_a_stop(tmp_path: Path) -> None:
    if importlib.util.find_spec("mlflow") is None:
        pytest.skip("mlflow is not installed: pip install 'counterpoise[mlflow]'")
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'scores.db'}"
    config = tiny("method=scaffold", "checkpoint.every=2", "track.to=mlflow", f'track.uri="{uri}"')
    with pytest.raises(KeyboardInterrupt):
        start(config, tmp_path / "run", [Hearing(stop)])
    client, run_id = MlflowClient(uri), json.loads((tmp_path / "run" / "mlflow.json").read_text())["run_id"]
    assert client.get_run(run_id).info.status == "KILLED"
    resumed = resume(tmp_path / "run")
    points = [(point.step, point.value) for point in client.get_metric_history(run_id, "accuracy")]
    assert_same_points(points, expected(tmp_path / "run"))
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert (run.data.params["local.batch_size"], run.data.tags["method"]) == ("64", "scaffold")
    assert uri not in run.data.params.values()
    assert result(resumed) == result(start(tiny("method=scaffold"), tmp_path / "plain"))
    (tmp_path / "run" / "mlflow.json").write_text('{"run_id": "gone"}')
    resume(tmp_path / "run")
    assert len(client.search_runs([run.info.experiment_id])) == 2


def records_of(path: Path) -> Iterator[Any]:
    """The records of a file of Weights & Biases: a header of 7 bytes, then pieces in blocks as in a log of LevelDB."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, whole = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        left = BLOCK - place % BLOCK
        if left < 7:  # too short for the head of a piece
            place += left
            continue
        size, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        whole, place = whole + content[place + 7 : place + 7 + size], place + 7 + size
        if kind in (1, 4):  # a whole record, or its last piece
            yield Record.FromString(whole)
            whole = b""


def logged_in(folder: Path) -> list[tuple[int, float]]:
    """Steps and accuracies of all offline files of a run, in the order of its sessions."""
    files = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
    rows = [{".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            for file in files for record in records_of(file) if record.HasField("history")]  # fmt: skip
    return [(row["_step"], row["accuracy"]) for row in rows]


def test_wandb_keeps_each_round_once_after_a_stop_without_a_network(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if importlib.util.find_spec("wandb") is None:
        pytest.skip("wandb is not installed: pip install 'counterpoise[wandb]'")
    config = tiny("method=scaffold", "checkpoint.every=2", "track.to=wandb", 'track.uri="offline"')
    resumed = stop_and_resume(config, tmp_path / "run")
    assert caplog.messages == []
    assert logged_in(tmp_path / "run") == expected(tmp_path / "run")
    number = json.loads((tmp_path / "run" / "wandb.json").read_text())["id"]
    files = list((tmp_path / "run").glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{number}.wandb"] * 2  # `wandb sync` puts both into one run
    [told] = [record.run for record in records_of(files[0]) if record.HasField("run")][:1]
    sent = {item.key: json.loads(item.value_json) for item in told.config.update}
    assert (sent["local.batch_size"], sent["method"], told.project) == (64, "scaffold", "counterpoise")
    assert not any(key.startswith("track") for key in sent)
    assert result(resumed) == result(start(tiny("method=scaffold"), tmp_path / "plain"))


def test_wandb_without_a_key_costs_one_warning_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if importlib.util.find_spec("wandb") is None:
        pytest.skip("wandb is not installed: pip install 'counterpoise[wandb]'")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    start(tiny("rounds=1", "track.to=wandb"), tmp_path / "run")
    assert len(caplog.messages) == 1
    assert "no key of Weights & Biases: `wandb login`, or track.uri" in caplog.messages[0]
