"""How data was read travels as JSON, and JSON that says anything else is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from counterpoise.data.dataset import Source, source_from_json
from counterpoise.data.own import read_table
from counterpoise.data.prepare import load_data, split_federation
from counterpoise.data.preprocessing import (
    UNKNOWN,
    Preprocessing,
    preprocessing_from_json,
    preprocessing_of,
)
from counterpoise.errors import DataError


@pytest.fixture(scope="module")
def how(tmp_path_factory: pytest.TempPathFactory) -> Preprocessing:
    path = tmp_path_factory.mktemp("how") / "t.csv"
    rows = [f"{k % 9}.25,{'red' if k % 2 else 'blue'},{'yes' if k % 3 else 'no'}" for k in range(40)]
    path.write_text("\n".join(["n,colour,y", *rows]) + "\n")
    return preprocessing_of(split_federation(read_table(path, "y"), clients=2))


def through_json(how: Preprocessing) -> Preprocessing:
    return preprocessing_from_json(json.loads(json.dumps(how.to_json())), "the file")


def test_preprocessing_travels_as_json_unchanged(how: Preprocessing) -> None:
    digits = preprocessing_of(split_federation(load_data("digits"), clients=2))
    for one in (how, digits):
        again = through_json(one)
        assert again.labels == one.labels
        assert again.form._replace(scaling=one.form.scaling) == one.form
        for ours, theirs in zip(again.form.scaling, one.form.scaling, strict=True):
            assert torch.equal(ours, theirs)


def put(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("schema", value=2),
        put("further", value=1),
        put("labels", value=None),
        put("labels", value={"yes": 2}),
        put("labels", value={"yes": True}),
        put("resized", value=1),
        put("form", value=[]),
        put("form", "classes", value=["one"]),
        put("form", "shape", value=[3.5]),
        put("form", "label", value="n"),
        put("form", "columns", "numbers", value={"n": [0, 0, 0, 0, False]}),
        put("form", "columns", "words", value={"colour": ["red", "red"]}),
        put("form", "scaling", value={"scale": float("nan"), "shift": 0.0}),
    ],
)
def test_json_that_says_something_else_is_refused_in_one_line(
    change: Callable[[dict[str, Any]], None], how: Preprocessing
) -> None:
    found = json.loads(json.dumps(how.to_json()))
    change(found)
    with pytest.raises(DataError) as caught:
        preprocessing_from_json(found, "the file")
    assert len(str(caught.value).splitlines()) == 1


def test_a_source_travels_as_json_and_an_empty_one_as_nothing(how: Preprocessing, tmp_path: Path) -> None:
    whole = Source("y", how.form.columns, {"yes": 1, "no": 0}, True)
    assert source_from_json(json.loads(json.dumps(whole.to_json())), 2) == whole
    assert Source().to_json() is None
    assert source_from_json(None, 2) == Source()
    for damaged in ([], {"label": 1}, {**(whole.to_json() or {}), "labels": {"yes": 5}}):
        with pytest.raises(DataError):
            source_from_json(damaged, 2)


def test_labels_are_read_by_the_words_of_the_data_and_gaps_are_none(how: Preprocessing) -> None:
    assert how.form.classes == ("no", "yes")
    assert how.codes(["yes", "", "no", "?"], "x").tolist() == [1, UNKNOWN, 0, UNKNOWN]
    with pytest.raises(DataError, match="x: row 7: the label 'maybe' is no class"):
        how.codes(["yes", "maybe"], "x", [3, 7])
    numbered = preprocessing_of(split_federation(load_data("digits"), clients=2))
    assert numbered.codes(["3", "9"], "x").tolist() == [3, 9]
