"""The report as a file: whole by itself, safe, small, honest about what it left out, and readable without a script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reported import EVIL, finished_in
from runs import assert_refused, call, read_summary, write_tiny

from counterpoise.report.html import write_report
from counterpoise.report.html.markup import Html, breakable, data_block, element
from counterpoise.report.html.page import render
from counterpoise.report.html.study import study, thin
from counterpoise.results.comparison import compare_results
from counterpoise.results.results import RunResult, read_result, read_results

VOID = {"meta", "br", "wbr", "circle", "path"}
MEGABYTE = 1_000_000


class Page(HTMLParser):
    """Tags with attributes and text; complains about tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def parsed(page: Path) -> Page:
    return Page(page.read_text())


def data_of(page: Page) -> dict[str, Any]:
    return dict(json.loads(page.texts["script"][0]))


def test_landmarks_headings_and_labels_are_there(parsed: Page) -> None:
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        assert len(parsed.all(landmark)) == 1
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for section in parsed.all("section"):
        assert section["aria-labelledby"] in ids
    links = [str(link["href"]) for link in parsed.all("a")]
    assert len(links) > 8
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert len(parsed.all("table")) == len(parsed.all("caption")) >= 6
    assert parsed.all("html")[0]["lang"] == "en"


def test_nothing_is_asked_of_any_network(page: Path, parsed: Page) -> None:
    for tag in ("link", "img", "iframe", "object", "embed", "form", "base"):
        assert parsed.all(tag) == []
    asking = {"src", "srcset", "data", "action", "style", "xlink:href"}
    assert [
        names for _, names in parsed.tags if asking & names.keys() or any(n.startswith("on") for n in names)
    ] == []
    text = page.read_text()
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {
        "http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg",
    }  # fmt: skip
    assert "url(" not in text
    assert "@import" not in text


def test_only_the_two_assets_may_run(parsed: Page) -> None:
    policy = str(next(meta["content"] for meta in parsed.all("meta") if "http-equiv" in meta))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    kinds = [script.get("type") for script in parsed.all("script")]
    assert kinds == ["application/json", None]
    for text in (parsed.texts["script"][1], parsed.texts["style"][0]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_a_name_that_attacks_stays_a_name(page: Path, parsed: Page) -> None:
    assert EVIL not in page.read_text()
    assert EVIL in data_of(parsed)["classes"][0]["names"]
    assert any(EVIL in text for text in parsed.texts["td"])  # why a run failed


@given(st.text(), st.text())
def test_no_text_becomes_markup(text: str, other: str) -> None:
    class Heard(HTMLParser):
        def __init__(self) -> None:
            super().__init__(convert_charrefs=True)
            self.heard: list[Any] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.heard.append((tag, len(attrs)))

    for made in (element("p", text, title=other), element("p", breakable(text), title=other)):
        heard = Heard()
        heard.feed(made)
        assert [one for one in heard.heard if one[0] != "wbr"] == [("p", 1)]
    block = data_block("x", [text, other])
    inner = block.removeprefix('<script type="application/json" id="x">').removesuffix("</script>")
    assert "<" not in inner
    assert json.loads(inner) == [text, other]


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", Html("<b>x</b>"), "&") == "<p><b>x</b>&amp;</p>"
    assert (
        element("td", "1", data_value=0, hidden=True, title=None, open=False)
        == '<td data-value="0" hidden>1</td>'
    )


def test_the_opening_and_the_tables_are_those_of_the_comparison(runs: Path, parsed: Page) -> None:
    comparison = compare_results(read_results([runs]))
    text = " ".join(parsed.texts["main"])
    assert comparison.recommendations[0].paragraph in " ".join(parsed.texts["header"])
    for verdict in comparison.verdicts:
        assert f"{100 * verdict.difference:+.1f}" in parsed.texts["td"]
        assert (verdict.limits or verdict.verdict).removeprefix("The two are ").rstrip(".") in text
    for row in comparison.rows:
        for key in ("balanced_accuracy", "head", "medium", "tail", "worst_class_recall"):
            mean, deviation = row.cells[key].mean, row.cells[key].deviation
            assert mean is not None
            spread = f" ± {100 * deviation:.1f}" if deviation else ""
            assert any(cell.startswith(f"{100 * mean:.1f}{spread}") for cell in parsed.texts["td"])


def test_all_that_is_drawn_is_in_the_data(parsed: Page) -> None:
    data = data_of(parsed)
    assert data["methods"] == ["fedavg", "fedavgm", "fedavg+charted"]
    assert {chart["kind"] for chart in data["diagnostics"]} == {"curve", "bars", "flow", "tree"}
    keys = [score["key"] for score in data["curves"]["scores"]]
    assert keys[0] == "balanced_accuracy"
    assert {"tail", "loss", "cross_entropy", "worst_client_balanced_accuracy"} <= set(keys)
    assert "validation_cross_entropy" not in keys  # nothing to choose where the server keeps no samples
    rounds, means, deviations = data["curves"]["series"][0]["curves"]["tail"]
    assert rounds == [2, 4, 6]
    assert len(means) == len(deviations) == 3
    classes = data["classes"][0]
    assert classes["counts"] == sorted(classes["counts"], reverse=True)
    assert sum(map(sum, data["partitions"][0][0]["counts"])) == sum(data["partitions"][0][0]["samples"])


def test_confusion_counts_are_those_of_the_runs_added_up_and_by_frequency(runs: Path, parsed: Page) -> None:
    found = data_of(parsed)["confusions"][0]
    assert [one["method"] for one in found] == [0, 1, 2]
    kept = [read_result(runs / f"0-{seed}").summary for seed in (0, 1)]
    counts = sum(np.array(one["confusion"]) for one in kept if one)
    held = read_result(runs / "0-0").class_counts
    assert held is not None
    order = np.argsort([-count for count in held], kind="stable")
    assert found[0]["counts"] == counts[np.ix_(order, order)].tolist()
    assert EVIL in found[0]["names"]
    assert '<div data-chart="confusion">' in (runs.parent / "report.html").read_text()


def test_what_failed_is_told_with_its_reason(parsed: Page) -> None:
    words = " ".join(parsed.texts["td"])
    assert f"the disk is full {EVIL}" in words
    assert "not finished: 3 of 6 rounds" in words
    assert "6 of 8" in parsed.texts["dd"]


def test_what_travels_is_told_as_it_was_counted(runs: Path, parsed: Page) -> None:
    run = finished_in(runs)[0]
    alone = 4 * run.record["parameters"]
    assert sum(row["bytes_up"] for row in run.rows) == alone * sum(row["replied"] for row in run.rows)
    assert f"{alone / 1000:.3g} kB" in parsed.texts["td"]
    assert "charted" in parsed.texts["dt"]


def test_a_search_sends_as_many_models_back_as_it_trains(tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, "method=['fedavg', 'fedhoo']", "cohort={}", "data.validation=0.2")
    assert call("run", experiment, "--out", tmp_path / "run").code == 0
    results = read_results([tmp_path / "run"])
    page = Page(write_report(study(results), tmp_path / "report.html").read_text())
    cells = page.texts["td"]
    (place,) = [i for i, cell in enumerate(cells) if cell == "2.00"]  # from the client / model
    down, up, alone = (float(cell.split()[0]) for cell in cells[place - 3 : place])
    assert (down, up) == pytest.approx((alone, 2 * alone), rel=0.01)


def test_a_printed_command_repeats_its_run(runs: Path, parsed: Page, tmp_path: Path) -> None:
    command = shlex.split(next(text for text in parsed.texts["pre"] if "0-1/config.toml" in text))
    assert command[:2] == ["counterpoise", "run"]
    again = call(*command[1:-1], tmp_path / "again")
    assert again.code == 0
    assert read_summary(tmp_path / "again")["params_sha256"] == read_summary(runs / "0-1")["params_sha256"]


def test_the_same_runs_give_the_same_file(runs: Path, page: Path, tmp_path: Path) -> None:
    again = write_report(study(read_results([runs])), tmp_path / "new folder" / "again.html")
    assert again.read_bytes() == page.read_bytes()


def test_without_a_finished_run_the_page_says_so(runs: Path) -> None:
    left = [result for result in read_results([runs]) if result.summary is None]
    text = render(study(left))
    assert "nothing to compare yet" in text
    assert len(Page(text).all("section")) == 3


@pytest.mark.parametrize(("methods", "seeds"), [(100, 1), (10, 10)])
def test_a_hundred_long_runs_stay_below_five_megabytes(runs: Path, methods: int, seeds: int) -> None:
    charted = next(run for run in finished_in(runs) if run.method == "fedavg+charted")
    many = [stretched(charted, method, seed) for method in range(methods) for seed in range(seeds)]
    text = render(study(many))
    assert len(text.encode()) < 5 * MEGABYTE
    data = data_of(Page(text))
    assert len(data["methods"]) == methods
    assert data["curves"]["thinned"]
    rounds = data["curves"]["series"][0]["curves"]["accuracy"][0]
    assert (rounds[0], rounds[-1]) == (2, 1000)


def stretched(run: RunResult, method: int, seed: int) -> RunResult:
    """The run as if it had taken 1,000 rounds, with another method and seed and with large charts."""
    row = run.scored[-1]
    large = {"weights": [0.123456] * 100, "flow": [[0.123456] * 100] * 100, "tree": [[0, 0.1234, 5]] * 300}
    charted = row["diagnostics"]["charted"] | large
    rows = [row | {"round": place, "diagnostics": {"charted": charted}} for place in range(1, 1000)]
    config = run.config | {
        "seed": seed,
        "rounds": 1000,
        "method": [{"fedprox": {"mu": 0.001 * method}}, "charted"],
    }
    return run._replace(path=Path(f"runs/{method}-{seed}"), config=config, rows=rows, seconds=[0.1] * 999)


@given(st.lists(st.integers(), min_size=1), st.integers(2, 30))
def test_thinning_keeps_both_ends_and_the_order(items: list[int], most: int) -> None:
    places = thin(range(len(items)), most)
    assert len(places) == min(len(items), most)
    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (0, len(items) - 1)


def luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_the_contrast_of_wcag_aa(parsed: Page, scheme: int) -> None:
    blocks = re.findall(r":root \{(.*?)\}", parsed.texts["style"][0], re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    for ground in ("ground", "raised", "sunken"):
        for text in ("ink", "soft", "accent", "better", "worse"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for line in ("heat", "cold", *(f"m{place}" for place in range(8))):
            assert contrast(colours[line], colours[ground]) >= 3, (line, ground)
    assert contrast(colours["on-heat"], colours["heat"]) >= 4.5


def test_the_command_writes_beside_the_runs_or_where_told(runs: Path, tmp_path: Path) -> None:
    told = call("report", runs, "-o", tmp_path / "mine.html", "--score", "tail", "--baseline", "fedavgm")
    assert (told.code, told.out.strip()) == (0, str(tmp_path / "mine.html"))
    assert "Each method minus fedavgm in" in (tmp_path / "mine.html").read_text()
    beside = call("report", runs, "--at", "best")
    assert (beside.code, beside.out.strip()) == (0, str(runs / "report.html"))
    assert "best round" in (runs / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--score", "acuracy"], ["acuracy", "accuracy"]),
        (["--at", "first"], ["first", "last"]),
        (["--baseline", "fedprox"], ["fedprox", "fedavgm"]),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(runs: Path, arguments: list[str], words: list[str]) -> None:
    assert_refused(call("report", runs, *arguments), 2, *words)


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    assert_refused(call("report", tmp_path), 2, "no run")
    assert_refused(call("report", tmp_path / "nowhere"), 2, "nowhere")


def test_updates_that_were_shortened_are_named_with_their_client(tmp_path: Path) -> None:
    """A bound of one median shortens the longer half of every round."""
    file = write_tiny(tmp_path)
    call("run", file, "cohort.max_influence=1.0", "cohort.size=4", "--out", tmp_path / "runs" / "a")
    (run,) = read_results([tmp_path / "runs"])
    entries = [entry for row in run.rows for entry in row["clipped"]]
    call("report", tmp_path / "runs", "--out", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert entries
    assert "which were shortened to it" in text
    call("run", file, "--out", tmp_path / "other" / "a")
    call("report", tmp_path / "other", "--out", tmp_path / "other.html")
    assert "No update was shortened." in (tmp_path / "other.html").read_text()
