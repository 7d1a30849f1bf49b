"""A server without data of its own: the config describes the form, and clients score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import numpy as np
import torch
from local_net import Net
from own_files import CLASSES, KINDS, ROWS, Kind, client_files, server_config

from counterpoise.cli import app
from counterpoise.data.tables.table import open_table
from counterpoise.errors import ConfigError, DataError
from counterpoise.flower.commands import prepare
from counterpoise.flower.data_form import form_text, to_config
from counterpoise.flower.own_data import own_federation, server_data
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.system.toml import parse_toml, write_toml

RISK = {"name": "described", "classes": ["high", "low", "mid"], "label": "risk"}


def as_described(config: Experiment, capsys: pytest.CaptureFixture[str]) -> Experiment:
    """The same experiment, the server's file replaced by what `describe` prints of it."""
    given = config.data.arguments
    label = ["--label", given["label"]] if "label" in given else []
    app(["flower", "describe", given["path"], *label], standalone_mode=False)
    return make_experiment({**config.tables(), **parse_toml(capsys.readouterr().out, "describe")})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_server_without_data_scores_on_all_that_clients_hold_out(
    kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = as_described(server_config(tmp_path, kind, list(ROWS), rounds=4), capsys)
    assert "path" not in config.data.arguments
    summary = Net(tmp_path, client_files(tmp_path, kind)).run(config, tmp_path / "out")
    recalls = summary["per_class_recall"]
    # 12 and 12 held out: of a 8 low and 4 mid, of b 6 high and 6 low; a pack's own five are drawn.
    if kind is not KINDS["pack"]:
        assert summary["accuracy"] == pytest.approx((6 * recalls[0] + 14 * recalls[1] + 4 * recalls[2]) / 24)
    assert 0.45 < summary["accuracy"] <= 1
    assert summary["rejected_replies"] == 0
    assert summary["scored_on"] == "samples that clients hold out"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_described_form_is_that_of_the_file(
    kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = server_config(tmp_path, kind, list(ROWS))
    told, (words, nothing, *_) = server_data(config).form, server_data(as_described(config, capsys))
    assert len(nothing.y) == 0
    assert nothing.x.shape[1:] == told.shape
    assert (words.classes, words.shape, words.pixels) == (told.classes, told.shape, told.pixels)
    torch.testing.assert_close(tuple(words.scaling), tuple(told.scaling))
    if told.columns is not None and words.columns is not None:
        assert words.columns.words == told.columns.words
        assert words.columns.numbers["age"].mean == words.columns.numbers["age"].gap


def npy_folder(path: Path, file: Path) -> Path:
    """The arrays of an npz file as npy files in a folder."""
    path.mkdir()
    with np.load(file) as arrays:
        for name in ("x", "y", "classes"):
            np.save(path / f"{name}.npy", arrays[name])
    return path


@pytest.mark.parametrize("named", [".", "x.npy"])
def test_arrays_in_npy_files_have_the_form_of_the_npz(
    named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = KINDS["arrays"].write(tmp_path, CLASSES * 20, 0)
    folder = npy_folder(tmp_path / "pair", file)
    assert described(capsys, folder / named) == described(capsys, file)


def test_a_file_of_no_known_kind_is_answered_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"\x80\4")
    with pytest.raises(DataError, match=r"cannot tell what \.pkl holds; needs a table .*, arrays"):
        app(["flower", "describe", str(tmp_path / "model.pkl")], standalone_mode=False)


def test_a_client_s_folder_of_arrays_is_no_table_whatever_its_name(tmp_path: Path) -> None:
    config = server_config(tmp_path, KINDS["arrays"], list(ROWS))
    folder = npy_folder(tmp_path / "mine.csv", Path(config.data.arguments["path"]))
    federation = own_federation(str(folder), {}, form_text(server_data(config).form), 0, 2)
    assert len(federation.clients[0])


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    path = tmp_path / "patients.csv"
    rows = [
        f"p{row},{['north', 'south'][row % 2]},{40 + row % 9},{['ok', 'bad'][row % 2]}" for row in range(20)
    ]
    path.write_text("\n".join(["patient_id,hospital,age,outcome", *rows]))
    return path


def described(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[dict[str, Any], str]:
    app(["flower", "describe", *map(str, words)], standalone_mode=False)
    said = capsys.readouterr()
    return dict(parse_toml(said.out, "describe")["data"]), said.err


def test_columns_that_name_people_or_clients_are_left_out(
    patients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, note = described(capsys, patients, "--label", "outcome")
    assert words["words"].keys() == {"patient_id", "hospital"}
    assert "20 different words in 20 rows" in note
    assert "--drop patient_id leaves it out" in note
    left_out = ["--client", "hospital", "--drop", "patient_id"]
    words, note = described(capsys, patients, "--label", "outcome", *left_out)
    assert (words["words"], list(words["numbers"]), note) == ({}, ["age"], "")
    dropped = ["--drop", "patient_id", "--drop", "age"]
    words, _ = described(capsys, patients, "--label", "outcome", *dropped)
    assert (list(words["words"]), words["numbers"]) == (["hospital"], {})


def test_a_described_number_has_an_input_for_gaps_where_it_says_what_stands_for_them(tmp_path: Path) -> None:
    data = {**RISK, "numbers": {"age": [2.0, 4.0], "dose": [1.0, 2.0, 5.0]}, "words": {"city": ["oslo"]}}
    columns = server_data(make_experiment({"data": data})).form.columns
    assert columns is not None
    assert columns.names == ("age", "dose", "dose missing", "city=oslo")
    path = tmp_path / "own.csv"
    path.write_text("age,dose,city\n6,3,oslo\n,,rome\n")
    assert columns.transform(open_table(path)).x.tolist() == [[1, 1, 0, 1], [0, 2, 1, 0]]


def test_a_column_that_counts_rows_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sorted.csv"
    path.write_text("\n".join(["id,age,outcome", *(f"{n},{n % 7},{'ab'[n // 10]}" for n in range(20))]))
    _, note = described(capsys, path, "--label", "outcome")
    assert "column 'id' counts the rows, 0 to 19" in note
    assert "--drop id leaves it out" in note
    assert described(capsys, path, "--label", "outcome", "--drop", "id")[1] == ""


def test_a_column_to_leave_out_that_is_not_there_is_refused(patients: Path) -> None:
    with pytest.raises(DataError, match="no column 'patientid'; did you mean 'patient_id'"):
        app(
            ["flower", "describe", str(patients), "--label", "outcome", "--drop", "patientid"],
            standalone_mode=False,
        )


def test_a_label_that_is_not_given_is_asked_for_by_its_option(patients: Path) -> None:
    with pytest.raises(ConfigError, match=r"--label is missing.*patient_id, hospital, age, outcome"):
        app(["flower", "describe", str(patients)], standalone_mode=False)


def test_a_server_without_data_needs_clients_that_score(tmp_path: Path) -> None:
    kind = KINDS["table"]
    tables = server_config(tmp_path, kind, list(ROWS)).tables()
    data = {**RISK, "numbers": {"age": [2.0, 2.0]}, "words": {"city": ["oslo", "rome"]}}
    config = make_experiment({**tables, "data": data, "evaluate": {"clients": False}})
    with pytest.raises(ConfigError, match="no test set"):
        Net(tmp_path, client_files(tmp_path, kind)).run(config, tmp_path / "out")


def test_validate_checks_what_a_server_has_and_tells_what_it_would_learn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It took the clients' data for the experiment's own, and refused every such file."""
    config = server_config(tmp_path, KINDS["table"], list(ROWS))
    for known in (config, as_described(config, capsys)):
        (tmp_path / "experiment.toml").write_text(write_toml(known.tables()))
        app(["validate", str(tmp_path / "experiment.toml")], standalone_mode=False)
        printed = capsys.readouterr().out
        assert printed.endswith("valid\n")
        assert "learns     of each client: how many samples it trains on" in printed


@pytest.mark.parametrize(
    ("table", "given", "key"),
    [
        ("data", {"validation": 0.3}, "data.validation"),
        ("data", {"imbalance": 20.0}, "data.imbalance"),
        ("data", {"imbalanced_test": True}, "data.imbalanced_test"),
        ("evaluate", {"threshold": "f1"}, "evaluate.threshold"),
    ],
)
def test_what_cannot_be_done_to_data_of_clients_is_refused_before_they_come(
    table: str, given: dict[str, Any], key: str, tmp_path: Path
) -> None:
    """These keys were ignored, and the run's config claimed them."""
    tables = server_config(tmp_path, KINDS["table"], list(ROWS)).tables()
    config = make_experiment({**tables, table: {**tables[table], **given}})
    with pytest.raises(ConfigError, match=f"{key}.* must be left out where clients bring their own data"):
        prepare(config, tmp_path / "out", named_nodes=False)


@pytest.mark.parametrize(
    ("table", "given", "words"),
    [
        ("cohort", {"size": 3}, "cohort.size must be at most 2, the number of clients"),
        ("evaluate", {"recall_weights": [1.0, 2.0]}, "evaluate.recall_weights must have 3 numbers"),
        ("flower", {"min_replies": 3}, "flower.min_replies must be at most 2, the clients of a round"),
    ],
)
def test_what_validate_refuses_is_refused_before_clients_come(
    table: str, given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The server waited for all clients first."""
    tables = server_config(tmp_path, KINDS["table"], list(ROWS)).tables()
    config = make_experiment({**tables, table: {**tables[table], **given}})
    with pytest.raises(ConfigError, match=words):
        prepare(config, tmp_path / "out", named_nodes=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"classes": ["a"], "shape": [4]}, "data.classes"),
        ({"classes": ["a", "a"], "shape": [4]}, "data.classes"),
        ({"classes": ["a", "b"]}, "data.shape is missing"),
        ({"classes": ["a", "b"], "label": "risk"}, "data.shape is missing"),
        ({"classes": ["a", "b"], "shape": [4], "label": "risk"}, "describe a table"),
        (
            {"classes": ["a", "b"], "shape": [3, 8, 8], "mean": [0.5], "deviation": [0.5]},
            "must be 3 numbers each",
        ),
        ({"classes": ["a", "b"], "shape": [1, 8, 8], "mean": [0.5]}, "must be 1 numbers each"),
        ({"classes": ["a", "b"], "shape": [1, 8, 8], "mean": [0.5], "deviation": [0.0]}, "above 0"),
        ({"classes": ["a", "b"], "label": "risk", "numbers": {"age": 3.0}}, "data.numbers.age"),
        ({"classes": ["a", "b"], "label": "risk", "numbers": {"age": [3.0, 0.0]}}, "data.numbers.age"),
        (
            {"classes": ["a", "b"], "label": "risk", "numbers": {"age": [3.0, 1.0, 2.0, 1.0]}},
            "data.numbers.age",
        ),
        ({"classes": ["a", "b"], "label": "risk", "numbers": {"age": [3.0, 1.0, "x"]}}, "data.numbers.age"),
        ({"classes": ["a", "b"], "label": "risk", "numbers": {"age": [1e39, 1.0]}}, "data.numbers.age"),
        ({"classes": ["a", "b"], "label": "risk", "numbers": {"risk": [3.0, 1.0]}}, "column 'risk' twice"),
        (
            {"classes": ["a", "b"], "label": "r", "numbers": {"x": [3.0, 1.0]}, "words": {"x": ["y"]}},
            "'x' twice",
        ),
        ({"classes": ["a", "b"], "label": "risk", "words": {"city": []}}, "data.words.city"),
        ({"classes": ["a", "b"], "label": "risk", "words": {"city": ["x", "x"]}}, "data.words.city"),
        ({"classes": ["a", "b"], "shap": [4]}, "no argument 'shap'"),
        ({"classes": ["a", "b"], "shape": []}, "data, as it is described, has no shape of a sample"),
        ({"classes": ["a", "b"], "shape": [1] * 6}, "needs 1 to 5 sizes"),
        ({"classes": ["a", "b"], "shape": [10**5, 10**5]}, "samples of 10,000,000,000 numbers"),
        ({"classes": list(map(str, range(10_001))), "shape": [4]}, "needs 2 to 10,000"),
    ],
)
def test_a_bad_description_is_refused_before_anything_starts(
    data: dict[str, Any], words: str, tmp_path: Path
) -> None:
    config = make_experiment({"data": {"name": "described", **data}, "flower": {"clients": ["a"]}})
    with pytest.raises(ConfigError, match=words.replace("'", ".")):
        prepare(config, tmp_path / "out", named_nodes=False)
    assert not (tmp_path / "out").exists()


def test_token_ids_are_described_and_floats_in_their_place_refused(tmp_path: Path) -> None:
    words = {"name": "described", "classes": ["high", "low"], "shape": [3], "whole": True}
    form, test, *_ = server_data(make_experiment({"data": words}))
    assert test.x.dtype == torch.int64
    assert to_config(form) == words
    ids, labels = np.arange(30).reshape(10, 3), np.arange(10) % 2
    for x, name in ((ids, "ids.npz"), (ids / 2, "floats.npz")):
        np.savez(tmp_path / name, x=x, y=labels, classes=np.array(["high", "low"]))
    own = own_federation(str(tmp_path / "ids.npz"), {}, form_text(form), 0, 2)
    assert own.scaling(own.train.x).dtype == torch.int64
    with pytest.raises(DataError, match=r"samples are \(3,\) torch.float32; needs \(3,\) whole numbers"):
        own_federation(str(tmp_path / "floats.npz"), {}, form_text(form), 0, 2)
    with pytest.raises(ConfigError, match=r"data\.whole = true needs data\.shape"):
        server_data(make_experiment({"data": {**words, "mean": [0.5], "deviation": [0.5]}}))
