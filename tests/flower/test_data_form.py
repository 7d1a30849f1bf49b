"""The form of the data as a client receives it: read as it was sent, and anything else refused in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from own_files import KINDS, ROWS, Kind, client_files, server_config

from counterpoise.errors import DataError
from counterpoise.flower import data_form
from counterpoise.flower.data_form import form_text, read_form
from counterpoise.flower.own_data import describe_form, own_federation, server_data


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_form_is_read_as_it_was_sent(kind: Kind, tmp_path: Path) -> None:
    told = server_data(server_config(tmp_path, kind, list(ROWS))).form
    found = read_form(form_text(told))
    assert found._replace(scaling=told.scaling) == told
    assert [part.tolist() for part in found.scaling] == [part.tolist() for part in told.scaling]
    assert (found.columns is not None) == (kind is KINDS["table"])


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(form: dict[str, Any]) -> None:
        for key in path[:-1]:
            form = form[key]
        form[path[-1]] = value

    return change


BAD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a part more": put("secret", value=1),
    "a part less": lambda form: form.pop("label"),
    "one class": put("classes", value=["a"]),
    "a class twice": put("classes", value=["a", "a"]),
    "classes of numbers": put("classes", value=[1, 2]),
    "many classes": put("classes", value=[str(n) for n in range(10_001)]),
    "no shape": put("shape", value=[]),
    "a shape of words": put("shape", value=["4"]),
    "a shape below zero": put("shape", value=[-4]),
    "many dimensions": put("shape", value=[1] * 9),
    "a huge sample": put("shape", value=[1 << 20, 1 << 20]),
    "another width": put("shape", value=[17]),
    "pixels of a table": put("pixels", value=True),
    "pixels in words": put("pixels", value="no"),
    "no scaling": put("scaling", value=None),
    "half a scaling": put("scaling", value={"scale": 1.0}),
    "a scaling of words": put("scaling", "scale", value="1"),
    "a scaling that is not finite": put("scaling", "shift", value=math.nan),
    "a scaling of another shape": put("scaling", "scale", value=[[1.0, 2.0]] * 3),
    "no label": put("label", value=None),
    "a column for a label": put("label", value="age"),
    "columns in another form": put("columns", value={"label": "risk", "numbers": {}, "words": {}}),
    "a number that is none": put("columns", "numbers", "age", value=[1.0, 2.0]),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_a_form_that_is_none_is_refused_in_one_line(
    change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    form = json.loads(describe_form(server_config(tmp_path, KINDS["table"], list(ROWS))))
    change(form)
    file = client_files(tmp_path, KINDS["table"])["a"]
    with pytest.raises(DataError, match=r"^(the server's description of the data|the encoder)") as refused:
        own_federation(str(file), {}, json.dumps(form), 0, 2)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_what_is_no_form_at_all_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DataError, match=r"^the server's description of the data") as refused:
        read_form(text)
    assert "\n" not in str(refused.value)


def test_names_of_classes_cannot_break_the_line_of_an_error(tmp_path: Path) -> None:
    form = json.loads(describe_form(server_config(tmp_path, KINDS["table"], list(ROWS))))
    form["classes"] = ["a\nall is well", "b"]
    file = client_files(tmp_path, KINDS["table"])["a"]
    with pytest.raises(
        DataError, match=r"label 'low' in data row 1; must be one of a.*all is well, b"
    ) as refused:
        own_federation(str(file), {}, json.dumps(form), 0, 2)
    assert "\n" not in str(refused.value)


def test_a_form_is_bounded_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = server_config(tmp_path, KINDS["table"], list(ROWS))
    text = describe_form(config)
    monkeypatch.setattr(data_form, "MAX_TEXT", len(text))
    assert read_form(describe_form(config)).label == "risk"
    monkeypatch.setattr(data_form, "MAX_TEXT", len(text) - 1)
    with pytest.raises(DataError, match=r"takes [\d,]+ characters"):
        describe_form(config)
    with pytest.raises(DataError, match=r"has [\d,]+ characters"):
        read_form(text)
