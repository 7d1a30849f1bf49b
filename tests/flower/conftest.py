"""These tests need Flower, an optional extra."""

from __future__ import annotations

import importlib.util

import pytest

MISSING = importlib.util.find_spec("flwr") is None
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str:
    return "tests/flower: skipped, flwr is not installed" if MISSING else "tests/flower: flwr is installed"


@pytest.fixture(autouse=True)
def _no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    monkeypatch.setenv("FLWR_DISABLE_UPDATE_CHECK", "1")
