"""A chart over layers says which layers its entries are."""

from __future__ import annotations

from pathlib import Path

from runs import tiny

from counterpoise.report.html.diagnostics import diagnostic_data
from counterpoise.report.html.study import study
from counterpoise.results.results import read_results
from counterpoise.run.runner import start

LAYERS = ["body.1.weight", "body.4.weight", "head.weight"]


def test_layers_are_named_in_the_record_and_on_the_page(tmp_path: Path) -> None:
    start(tiny('method=["fedbal", "layer_cosines"]', "model.hidden=[8, 6]", "rounds=2"), tmp_path / "run")
    results = read_results([tmp_path])
    assert results[0].record["layers"] == LAYERS
    charts = {(one["part"], one["name"]): one for one in diagnostic_data(study(results))}
    turned = charts["layer_cosines", "cosines"]
    assert (turned["axis"], turned["names"]) == ("layers", LAYERS)
    assert all(len(values) == 3 and all(0 < v <= 1 for v in values) for _, values in turned["frames"])
    weights = charts["aggregation_balancer", "weights"]
    assert (weights["axis"], weights["names"], len(weights["frames"][-1][1])) == ("clients", [], 4)
