"""The heat map is a readable PNG of any size of federation."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from counterpoise.report.heatmap import BAR, draw_heatmap

ONE_SAMPLE = (253, 231, 37)  # the light end of the scale


def pixels(path: Path) -> NDArray[np.int64]:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(np.int64)


def share_of(colour: tuple[int, int, int], path: Path) -> float:
    return float((np.abs(pixels(path) - colour).max(axis=-1) <= 3).mean())


@pytest.mark.parametrize(("clients", "classes"), [(1, 1), (5, 2), (20, 10), (200, 100)])
def test_any_size_fits_one_page(tmp_path: Path, clients: int, classes: int) -> None:
    counts = np.random.default_rng(0).poisson(3, (clients, classes))
    path = tmp_path / "new folder" / "map.png"
    draw_heatmap(counts, [f"class {c}" for c in range(classes)], path, "Title")
    height, width, _ = pixels(path).shape
    assert 400 < height < 2000
    assert 600 < width < 2000


def test_a_federation_of_a_hundred_thousand_clients_is_drawn_as_one_outline(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).poisson(3, (100_000, 2))
    began = time.process_time()
    draw_heatmap(counts, ["a", "b"], tmp_path / "map.png")
    assert time.process_time() - began < 20  # bars of their own took 140 s
    bars = tuple(bytes.fromhex(BAR[1:]))
    assert share_of((bars[0], bars[1], bars[2]), tmp_path / "map.png") > 0.02


def test_no_sample_looks_unlike_one_sample(tmp_path: Path) -> None:
    shares = []
    for count in (0, 1):
        path = tmp_path / f"{count}.png"
        draw_heatmap(np.full((6, 6), count), list("abcdef"), path)
        shares.append((share_of(ONE_SAMPLE, path), share_of((255, 255, 255), path)))
    (yellow_none, white_none), (yellow_one, white_one) = shares
    assert yellow_one > yellow_none + 0.2
    assert white_none > white_one + 0.2


def test_names_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    names = ["$x_", "a\\frac", "a name that is much too long to be written out under a column"]
    draw_heatmap(np.eye(3, dtype=np.int64), names, path, "50$ or $", client_names=["clinic $", "b", "c"])
    assert path.stat().st_size > 1000


def test_the_same_counts_give_the_same_file(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        draw_heatmap(np.arange(12).reshape(3, 4), list("abcd"), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_nothing_is_imported_before_it_is_needed_and_nothing_global_is_touched(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, numpy\n"
        "from counterpoise.report.heatmap import draw_heatmap\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"draw_heatmap(numpy.ones((2, 2), int), ['a', 'b'], pathlib.Path({str(tmp_path / 'map.png')!r}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_the_font_lacks_warns_nobody(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    draw_heatmap(np.array([[3, 1]]), ("東京", "b"), tmp_path / "a.png", "東京")
    assert not recwarn.list
