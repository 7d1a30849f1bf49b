"""The picture of the partition shows who holds what, also where the run put all samples in one place."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import tiny

from counterpoise.report import pictures
from counterpoise.report.pictures import Pictures
from counterpoise.results.results import read_result
from counterpoise.run.runner import start


@pytest.mark.parametrize(("method", "words"), [("fedavg", "class"), ("centralised", "put in one place")])
def test_every_client_has_a_row_of_its_own_samples(
    method: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(
        pictures, "draw_heatmap", lambda counts, classes, path, title: drawn.append((counts, title))
    )
    start(tiny(f"method={method}", "rounds=1"), tmp_path, listeners=[Pictures()])
    [(counts, title)] = drawn
    assert counts.tolist() == read_result(tmp_path).client_counts
    assert (counts.sum(1) > 0).all()
    assert title.endswith(words)
