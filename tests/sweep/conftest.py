"""Runs without pictures, which take longer than the runs."""

from __future__ import annotations

import pytest

from counterpoise.report.pictures import Pictures
from counterpoise.run.listener import Listener
from counterpoise.sweep import execute


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pictures, "began", Listener.began)
    monkeypatch.setattr(Pictures, "ended", Listener.ended)
    execute._load.cache_clear()
