"""What `counterpoise show` tells of a run: the last values of what its parts recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import assert_refused, call, tiny

from counterpoise.results.inside import inside_lines
from counterpoise.results.results import RunResult, read_result
from counterpoise.run.runner import start

RELABEL = ('method={"fedrela"={"at"=2,"tau"=30.0,"audit"="flow"}}', "cohort.size=4")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inside") / "run"
    start(tiny(*RELABEL), folder)
    return folder


def test_show_says_what_share_of_each_clients_labels_changed(finished: Path) -> None:
    said = call("show", str(finished)).out.splitlines()
    told = read_result(finished).scored[-1]["diagnostics"]["relabel"]
    begin = said.index("relabel: share of labels that changed, after round 4")
    assert said[begin + 1 : begin + 5] == [
        f"  client {k}: {share:.4g}" for k, share in enumerate(told["share"])
    ]
    assert max(told["share"]) > 0


def test_show_says_how_many_labels_went_from_which_class_to_which(finished: Path) -> None:
    said = call("show", str(finished)).out.splitlines()
    run = read_result(finished)
    flow = run.scored[-1]["diagnostics"]["relabel"]["flow"]
    begin = said.index("relabel: labels that changed, from class to class, after round 4")
    listed = dict(line.strip().split(": ") for line in said[begin + 1 :] if ": " in line)
    assert int(float(listed.pop("sum"))) == sum(map(sum, flow))
    names = run.record["data"]["classes"]
    expected = {f"{names[a]} -> {names[b]}": v for a, row in enumerate(flow) for b, v in enumerate(row) if v}
    assert {name: expected[name] for name in listed} == {name: int(value) for name, value in listed.items()}
    assert [int(v) for v in listed.values()] == sorted(expected.values(), reverse=True)[:40]


def test_show_has_a_table_of_old_labels_against_new_ones(finished: Path) -> None:
    said = call("show", str(finished)).out.splitlines()
    run = read_result(finished)
    flow, names = run.scored[-1]["diagnostics"]["relabel"]["flow"], run.record["data"]["classes"]
    begin = next(k for k, line in enumerate(said) if line.strip().startswith("from | to"))
    assert said[begin].split()[3:] == [*map(str, range(len(names))), "sum"]
    for place, (name, row) in enumerate(zip(names, flow, strict=True)):
        assert said[begin + 1 + place].split() == [*map(str, (place, name, *row, sum(row)))]


def test_the_table_keeps_large_numbers_whole_and_its_columns_straight() -> None:
    corner, *rows = list(inside_lines(_made({"kind": "flow"}, [[0, 123_456], [7, 0]])))[-3:]
    assert [len(line) for line in rows] == [len(corner)] * 2
    assert rows[0].split() == ["0", "0", "0", "123456", "123456"]


def test_of_many_classes_only_the_largest_flows_are_shown() -> None:
    lines = list(inside_lines(_made({"kind": "flow"}, [[1.0] * 30] * 30)))
    assert lines[-2:] == ["  ... and 860 more", "  sum: 900"]
    assert len(lines) == 44


def _made(chart: dict[str, object], value: object) -> RunResult:
    rows = [{"round": 6, "accuracy": 0.5, "diagnostics": {"p": {"n": value}}}]
    drawn = {"part": "p", "name": "n", "title": "Title", "axis": "", **chart}
    record = {"charts": [drawn], "data": {"classes": []}}
    config = {"method": "fedavg", "seed": 3, "rounds": 9}
    return RunResult(Path("x"), config, record, rows, [], None, None)


@pytest.mark.parametrize(
    ("kind", "value", "last"),
    [
        ("curve", 0.5, "  0.5"),
        ("bars", [1.0] * 60, "  mean: 1"),
        ("tree", [[-1, 0]], "  1 nodes; the report draws them"),
    ],
)
def test_every_kind_of_chart_has_lines(kind: str, value: object, last: str) -> None:
    lines = list(inside_lines(_made({"kind": kind}, value)))
    assert lines[:2] == ["", "p: title, after round 7"]
    assert lines[-1] == last
    assert len(lines) <= 44


def test_a_folder_without_a_run_is_an_unknown_name(tmp_path: Path) -> None:
    assert_refused(call("show", str(tmp_path)), 2, "nothing is called")
