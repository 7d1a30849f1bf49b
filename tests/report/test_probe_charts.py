"""The report draws what probes saw: a line per layer and the mean, and the means of methods beside each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from runs import tiny

from counterpoise.report.html.page import render
from counterpoise.report.html.probes import probe_data
from counterpoise.report.html.study import study
from counterpoise.results.results import read_results
from counterpoise.run.runner import start

PROBED = 'evaluate.probes=["concentration"]'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods of two seeds; one seed of the second is not probed."""
    folder = tmp_path_factory.mktemp("probed")
    for method in ("fedavg", "fedavgm"):
        for seed in (0, 1):
            probe = [PROBED] if (method, seed) != ("fedavgm", 1) else []
            start(
                tiny(f"method={method}", f"seed={seed}", "model.hidden=[8, 6]", *probe),
                folder / f"{method}-{seed}",
            )
    return folder


def charts_of(runs: Path) -> list[dict[str, Any]]:
    return probe_data(study(read_results([runs])))


def test_each_method_has_a_line_per_layer_and_one_for_their_mean(runs: Path) -> None:
    pictures = [chart for chart in charts_of(runs) if chart["kind"] == "lines"]
    assert [chart["method"] for chart in pictures] == [0, 1]
    for picture in pictures:
        assert picture["title"] == "Neuron concentration"
        assert [line["name"] for line in picture["lines"]] == ["mean", "body.3", "body.6"]
        assert all(line["curve"][0] == [1, 2, 3, 4] for line in picture["lines"])


def test_lines_are_means_over_the_seeds_that_were_probed(runs: Path) -> None:
    rows = {run.path.name: run.rows for run in read_results([runs])}
    values = [rows[f"fedavg-{seed}"][2]["probes"]["concentration"]["body.3"] for seed in (0, 1)]
    averaged, alone = (chart["lines"][1]["curve"] for chart in charts_of(runs) if chart["kind"] == "lines")
    assert averaged[1][2] == pytest.approx(sum(values) / 2, rel=1e-3)
    assert averaged[2][2] == pytest.approx(abs(values[0] - values[1]) / 2**0.5, rel=1e-2)
    only = rows["fedavgm-0"][2]["probes"]["concentration"]["body.3"]
    assert alone[1][2] == pytest.approx(only, rel=1e-3)


def test_the_means_of_methods_stand_in_one_picture(runs: Path) -> None:
    (picture,) = [chart for chart in charts_of(runs) if chart["kind"] == "curve"]
    assert picture["title"] == "Neuron concentration, mean"
    assert [one["method"] for one in picture["series"]] == [0, 1]


def test_the_page_holds_them(runs: Path) -> None:
    text = render(study(read_results([runs])))
    found = re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    drawn = [chart for chart in json.loads(found[1])["diagnostics"] if chart["part"] == "concentration"]
    assert [chart["kind"] for chart in drawn] == ["curve", "lines", "lines"]
    assert all(f"{kind}: mount" in text for kind in ("curve", "lines"))


def test_runs_without_a_probe_have_no_such_picture(runs: Path) -> None:
    plain = [run for run in read_results([runs]) if run.path.name == "fedavgm-1"]
    assert probe_data(study(plain)) == []
    old = [run._replace(record={k: v for k, v in run.record.items() if k != "probes"}) for run in plain]
    assert probe_data(study(old)) == []
