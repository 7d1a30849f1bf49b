"""docs/examples/draw_rates.py: one line per client, one panel per run, and a tree whose parents stand above their children."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from counterpoise.errors import ConfigError

SCRIPT = Path(__file__).parents[2] / "docs/examples/draw_rates.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_rates", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = _load()


def _rows(clients: int = 3, rounds: int = 5) -> list[dict[str, Any]]:
    rows = []
    for t in range(rounds):
        tree = [[-1, 0, 8.0, 0.5, None, 0.6], [0, 1, 1.0, 0.4, 0.4, 0.5], [0, 1, 1.0, 0.6, 0.6, 0.7]]
        chart = {"rates": [0.4 + 0.1 * ((t + k) % 3) for k in range(clients)], "reward": 0.5, "tree": tree}
        rows.append({"round": t, "diagnostics": {"epoch_growth": {"growth": [1.0]}, "fedhoo": chart}})
    return rows


def _size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return image.size


def test_runs_stand_side_by_side(tmp_path: Path) -> None:
    script.draw_rates({"FedHOO $": _rows()}, tmp_path / "new folder" / "one.png")
    script.draw_rates({"FedHOO": _rows(), "HOO": _rows(20)}, tmp_path / "two.png")
    (one, height), (two, same) = _size(tmp_path / "new folder" / "one.png"), _size(tmp_path / "two.png")
    assert height == same
    assert two > 1.5 * one


def test_every_client_has_a_line_of_its_own_colour(tmp_path: Path) -> None:
    script.draw_rates({"": _rows()}, tmp_path / "rates.png")
    with Image.open(tmp_path / "rates.png") as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
    for colour in ((0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00), (0x00, 0x9E, 0x73)):
        assert (np.abs(pixels - colour).max(1) <= 3).sum() > 50
    assert (np.abs(pixels - (0xD5, 0x5E, 0x00)).max(1) <= 3).sum() == 0  # there is no fourth


def test_the_tree_is_drawn(tmp_path: Path) -> None:
    script.draw_tree(_rows(), tmp_path / "tree.png", "50$")
    assert min(_size(tmp_path / "tree.png")) > 400


def test_parents_stand_in_the_middle_of_their_children() -> None:
    #        0
    #     1     2
    #   3 4 5
    assert script.spread([-1, 0, 0, 1, 1, 1]) == [2.0, 1.0, 3.0, 0.0, 1.0, 2.0]
    assert script.spread([-1]) == [0.0]


def test_rounds_count_from_one_and_rows_without_scores_are_left_out() -> None:
    rows = [{"round": 0, "loss": 1.0}, *_rows()[1:]]
    assert [number for number, _ in script.searched(rows)] == [2, 3, 4, 5]


def test_a_run_without_a_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="searched no rates"):
        script.draw_rates(
            {"FedAvg": [{"round": 0, "diagnostics": {"epoch_growth": {"growth": [1.0]}}}]}, tmp_path / "x.png"
        )


def test_the_script_draws_both_pictures_of_a_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "001-fedhoo"
    run.mkdir()
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows()))
    monkeypatch.chdir(tmp_path)
    script.main([str(run)])
    assert {path.name for path in tmp_path.glob("*.png")} == {"rates.png", "tree.png"}
