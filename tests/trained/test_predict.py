"""A run reads new data as it read its training data, and says which class a row is of."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from runs import assert_refused, call, read_summary
from used_runs import Used, make_run, write_rows

import counterpoise as cp
from counterpoise.data.own import write_pack
from counterpoise.data.prepare import load_data, pack_federation, split_federation
from counterpoise.data.root import find_file
from counterpoise.data.tables.delimited import read_lines
from counterpoise.errors import DataError
from counterpoise.run.summary import MOST_CLASSES
from counterpoise.trained.predict import predict_file


def predicted(*given: object) -> dict[str, Any]:
    """What `predict --json` prints."""
    finished = call("predict", *given, "--json")
    assert finished.code == 0, finished.err
    return dict(json.loads(finished.out))


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("kind", ["table", "arrays", "images"])
def test_a_runs_own_test_file_gives_its_confusion_matrix_exactly(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    used: Used = request.getfixturevalue(kind)
    found, summary = predicted(used.run, used.test, "-o", tmp_path / "p.csv"), read_summary(used.run)
    assert found["confusion"] == summary["confusion"]
    assert sum(map(sum, summary["confusion"])) == found["samples"] > 30
    assert found["accuracy"] == summary["accuracy"]
    assert found["balanced_accuracy"] == summary["balanced_accuracy"]
    rows = read_csv(tmp_path / "p.csv")
    hits = sum(row["class"] == row["label"] for row in rows)
    assert hits / len(rows) == pytest.approx(summary["accuracy"])


def test_a_real_table_gives_its_confusion_matrix_exactly(data_root: Path, tmp_path: Path) -> None:
    """Adult by its official split: the rows of adult.test that have no gaps are the test set."""
    from counterpoise.data.sets.adult import LAYOUT

    run = make_run(tmp_path / "run", {"name": "adult", "root": str(data_root), "split": "official"}, rounds=1)
    lines = read_lines(find_file(data_root, "adult", "adult.test"))[1:]
    rows = [[cell.strip(" .") for cell in line.split(",")] for line in lines if "?" not in line]
    found = predicted(run, write_rows(tmp_path / "test.csv", LAYOUT.columns, rows), "-o", tmp_path / "p.csv")
    assert found["confusion"] == read_summary(run)["confusion"]
    assert found["samples"] == 15_060


def test_hospitals_with_gaps_give_their_confusion_matrix_exactly(data_root: Path, tmp_path: Path) -> None:
    """Heart disease of four hospitals as a user's own table, gaps included."""
    from counterpoise.data.sets.heart_disease import HOSPITALS, LAYOUT
    from counterpoise.data.tables.table import fitted_table
    from counterpoise.data.tables.uses import ColumnUses

    rows = [
        [*line.split(","), name]
        for name, word in HOSPITALS.items()
        for line in (data_root / "heart_disease" / f"processed.{word}.data").read_text().split()
    ]
    names = [*LAYOUT.columns, "hospital"]
    path = write_rows(tmp_path / "heart.csv", names, rows)
    split = fitted_table(path, ColumnUses("num", "hospital", categorical=["thal"])).split
    data = {"name": "table", "path": str(path), "label": "num", "client": "hospital", "categorical": ["thal"]}
    run = make_run(tmp_path / "run", data, partition={"name": "natural", "clients": 0})
    test = write_rows(tmp_path / "test.csv", names, [rows[row] for row in split.test.tolist()])
    found = predicted(run, test, "-o", tmp_path / "p.csv")
    assert found["confusion"] == read_summary(run)["confusion"]
    assert list(cp.load_run(run).frame("clients").index) == sorted(HOSPITALS)


def test_a_public_tables_own_loader_and_its_encoder_read_rows_alike(data_root: Path, tmp_path: Path) -> None:
    """The loader of heart disease calls a gap in a code `missing`, a file has an empty cell."""
    data = load_data("heart_disease", root=data_root)
    assert data.source.columns is not None
    assert data.source.columns.words["thal"] == ("3", "6", "7", "(missing)")
    assert data.source.labels == {"0": 0, "1": 1, "2": 1, "3": 1, "4": 1}


def test_columns_in_another_order_and_further_ones_change_nothing(table: Used, tmp_path: Path) -> None:
    first = pd.read_csv(table.test, dtype=str, keep_default_na=False)
    turned = first[first.columns[::-1]].assign(further="x")
    turned.to_csv(tmp_path / "turned.csv", index=False)
    assert call("predict", table.run, table.test, "-o", tmp_path / "a.csv").code == 0
    assert call("predict", table.run, tmp_path / "turned.csv", "-o", tmp_path / "b.csv").code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_scores_on_the_training_file_are_said_to_be_no_test(
    table: Used, arrays: Used, tmp_path: Path
) -> None:
    """They were printed as if they were a test. Of an npz with halves the test half alone is predicted."""
    whole, words = tmp_path / "whole.npz", "warning: the run was trained on some of these rows"
    with np.load(arrays.test) as file:
        np.savez(whole, x=file["x"], y=file["y"])
    run = make_run(tmp_path / "run", {"name": "arrays", "path": str(whole)}, rounds=1)
    for folder, given, trained_on in (
        (table.run, table.data, True),
        (table.run, table.test, False),
        (run, whole, True),
        (arrays.run, arrays.data, False),
        (arrays.run, arrays.test, False),
    ):
        finished = call("predict", folder, given, "-o", tmp_path / "p.csv", "--json")
        assert (words in finished.err) == trained_on == json.loads(finished.out)["trained_on"]


def test_the_training_file_is_known_by_any_number_of_classes(tmp_path: Path) -> None:
    """With more classes than confusion counts are kept for, scores on it passed for a test."""
    file, labels = tmp_path / "many.npz", np.arange(3 * (MOST_CLASSES + 1)) % (MOST_CLASSES + 1)
    np.savez(file, x=np.linspace(0, 1, 2 * len(labels), dtype="float32").reshape(-1, 2), y=labels)
    run = make_run(tmp_path / "run", {"name": "arrays", "path": str(file)}, rounds=1)
    assert "confusion" not in read_summary(run)
    assert predicted(run, file, "-o", tmp_path / "p.csv")["trained_on"]


def test_a_test_file_of_its_own_was_not_trained_on(table: Used, tmp_path: Path) -> None:
    data = {"name": "table", "path": str(table.data), "label": "cultivar", "test": str(table.test)}
    run = make_run(tmp_path / "run", data, rounds=1)
    assert not predicted(run, table.test, "-o", tmp_path / "p.csv")["trained_on"]
    assert predicted(run, table.data, "-o", tmp_path / "p.csv")["trained_on"]


def test_a_file_without_labels_has_no_scores(table: Used, tmp_path: Path) -> None:
    pd.read_csv(table.test).drop(columns="cultivar").to_csv(tmp_path / "new.csv", index=False)
    finished = call("predict", table.run, tmp_path / "new.csv", "-o", tmp_path / "p.csv")
    assert finished.code == 0
    assert "no labels in it, so no scores" in finished.out
    [first, *_] = read_csv(tmp_path / "p.csv")
    assert list(first) == ["row", "class", "p(class_0)", "p(class_1)", "p(class_2)"]
    assert sum(float(first[f"p(class_{c})"]) for c in range(3)) == pytest.approx(1, abs=1e-5)


def test_rows_without_a_label_are_not_scored(table: Used, tmp_path: Path) -> None:
    frame = pd.read_csv(table.test, dtype=str, keep_default_na=False)
    frame.loc[:4, "cultivar"] = ""
    frame.to_csv(tmp_path / "some.csv", index=False)
    finished = call("predict", table.run, tmp_path / "some.csv", "-o", tmp_path / "p.csv", "--json")
    assert json.loads(finished.out)["samples"] == len(frame) - 5
    assert f"5 of {len(frame)} samples have no label and are not scored" in finished.err


def test_unseen_words_and_gaps_are_read_as_in_training_and_noted(table: Used, tmp_path: Path) -> None:
    """`orange` was in test rows alone, so there is a category of other words; a new word takes the same place."""
    frame = pd.read_csv(table.test, dtype=str, keep_default_na=False)
    assert "orange" in set(frame["colour"])
    run = cp.load_run(table.run)
    assert run.preprocessing.form.columns is not None
    assert "(other)" in run.preprocessing.form.columns.words["colour"]
    first = run.predict(frame).probabilities
    again = run.predict(frame.assign(colour=frame["colour"].replace("orange", "green"))).probabilities
    assert torch.equal(first, again)
    other = run.predict(frame.assign(colour=frame["colour"].replace("orange", "red"))).probabilities
    assert not torch.equal(first, other)
    finished = call("predict", table.run, table.test, "-o", tmp_path / "p.csv")
    assert "column 'colour': 2 of 36 cells hold words that training did not have" in finished.err


def test_rows_of_a_frame_are_those_of_the_file(table: Used) -> None:
    run = cp.load_run(table.run)
    wanted = predict_file(run, table.test).said
    text = pd.read_csv(table.test, dtype=str, keep_default_na=False)
    typed = pd.read_csv(table.test, na_values="?")
    rows = typed.to_dict("records")
    for given in (text, typed, rows, {name: text[name].tolist() for name in text}):
        assert run.predict(given).labels == wanted.labels
        assert torch.allclose(run.predict(given).probabilities, wanted.probabilities, atol=1e-12)
    assert set(wanted.labels) <= {"class_0", "class_1", "class_2"}


def test_an_array_without_names_is_no_row_of_a_table(table: Used) -> None:
    """Numbers as wide as the inputs would be taken for standardised ones, without a word."""
    run, encoded = cp.load_run(table.run), load_data("table", path=str(table.data), label="cultivar").test
    for given in (encoded.x.numpy(), encoded.x, encoded.x.tolist()):
        with pytest.raises(
            DataError, match="the model takes a data frame, columns by name, or one dict per row"
        ):
            run.predict(given)
    hits = run.module(encoded.x).argmax(1) == encoded.y
    assert float(hits.double().mean()) == run["accuracy"]


def test_a_module_in_training_predicts_by_its_running_statistics(tmp_path: Path) -> None:
    model = {"name": "mlp", "hidden": [8], "norm": "batch"}
    module = cp.load_run(make_run(tmp_path / "run", {"name": "digits"}, rounds=1, model=model)).module
    x = cp.load_data("digits").test.x
    wanted = module.predict(x).probabilities
    assert torch.equal(module.train().predict(x).probabilities, wanted)
    assert module.training


def test_a_whole_number_that_a_frame_made_a_float_is_still_its_word(tmp_path: Path) -> None:
    """A gap turns a column of whole numbers in a frame into floats: 1 becomes 1.0, which no file held."""
    rows = [[("1", "2", "")[k % 3], k % 5, "ab"[k % 2]] for k in range(60)]
    path = write_rows(tmp_path / "codes.csv", ["code", "n", "y"], rows)
    data = {"name": "table", "path": str(path), "label": "y", "categorical": ["code"]}
    run = cp.load_run(make_run(tmp_path / "run", data, rounds=1))
    typed = pd.read_csv(path)
    assert typed["code"].dtype == np.float64
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert torch.equal(run.predict(typed).probabilities, run.predict(text).probabilities)


def test_pixels_are_taken_as_they_were_and_shares_of_one_are_refused(arrays: Used) -> None:
    """A model that scales pixels itself was used on pixels / 255 without a word, and scored 18 points less."""
    run = cp.load_run(arrays.run)
    with np.load(arrays.test) as file:
        x, y = file["x"], file["y"]
    said = run.predict(x)
    assert float((said.codes.numpy() == y).mean()) == run["accuracy"]
    assert torch.equal(run.module(torch.from_numpy(x)).argmax(1), said.codes)
    assert torch.equal(run.predict(x.astype(np.int32)[:, None]).codes, said.codes)
    with pytest.raises(DataError, match="whole numbers from 0 to 255"):
        run.predict(x / 255)
    with pytest.raises(DataError, match="pixels from 0 to 255"):
        run.predict(x.astype(np.int64) + 250)
    with pytest.raises(DataError, match=r"shape \[200, 4, 8\]; the model takes \[n, 1, 8, 8\]"):
        run.predict(x[:, :4])


def test_the_module_of_simulate_takes_the_data_of_its_federation() -> None:
    data = cp.load_data("digits", imbalance=10.0)
    outcome = cp.simulate(cp.split(data, clients=3), rounds=2)
    said = outcome.predict(data.test.x)
    assert float((said.codes == data.test.y).double().mean()) == outcome["accuracy"]
    assert torch.equal(outcome.module(data.test.x).argmax(1), said.codes)
    assert outcome.confusion().counts.trace() == round(outcome["accuracy"] * len(data.test.y))


def test_a_pack_brings_the_encoder_of_its_table_along(table: Used, tmp_path: Path) -> None:
    data = load_data("table", path=str(table.data), label="cultivar")
    packed = pack_federation(split_federation(data, clients=3, alpha=1.0))
    assert packed.assignment is not None
    write_pack(packed, packed.assignment, tmp_path / "wine.safetensors", {})
    run = make_run(
        tmp_path / "run", {"name": "pack", "path": str(tmp_path / "wine.safetensors")}, partition={}
    )
    by_rows = predicted(run, table.test, "-o", tmp_path / "p.csv")
    assert by_rows["confusion"] == read_summary(run)["confusion"]
    by_pack = predicted(run, tmp_path / "wine.safetensors", "-o", tmp_path / "q.csv")
    assert by_pack["confusion"] == by_rows["confusion"]


def test_one_image_is_predicted_too(images: Used, tmp_path: Path) -> None:
    one = next(path for path in sorted(images.test.rglob("*.png")))
    assert call("predict", images.run, one, "-o", tmp_path / "p.csv").code == 0
    [row] = read_csv(tmp_path / "p.csv")
    assert row["row"] == one.name
    assert row["class"] in {"10", "2", "nought"}


def test_a_model_of_columns_refuses_what_has_none_and_the_other_way_round(
    table: Used, arrays: Used, tmp_path: Path
) -> None:
    words = "a table with the columns"
    assert_refused(call("predict", table.run, arrays.test, "-o", tmp_path / "p.csv"), 3, words, "alcohol")
    assert_refused(
        call("predict", arrays.run, table.test, "-o", tmp_path / "p.csv"), 3, "[1, 8, 8]", "a table"
    )
    assert not (tmp_path / "p.csv").exists()
