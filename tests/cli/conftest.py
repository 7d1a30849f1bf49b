"""Runs without pictures, which take longer than the runs."""

from __future__ import annotations

import pytest

from counterpoise.run.store import run


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_heatmap"):
        monkeypatch.setattr(run, draw, lambda *_: None)
