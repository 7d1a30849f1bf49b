"""The demo: a sweep that needs no file, goes on where it stopped, and takes what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import call
from sweeps import ends_of, table_of

from counterpoise.sweep import demo
from counterpoise.sweep.demo import SEEDS, demo_sweep
from counterpoise.sweep.jobs import expand


@pytest.fixture
def two_methods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "METHODS", ["fedavg", ["fedavg", "focal"]])
    monkeypatch.setenv("COUNTERPOISE_DATA", str(tmp_path))


@pytest.mark.usefixtures("two_methods")
def test_the_demo_compares_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    command = ("demo", "--out", out, "--seeds", 2, "--rounds", 2, "--processes", 1)
    code, said, err = call(*command)
    assert (code, err) == (0, "")
    assert "fedavg+focal" in said
    assert str(out / "report.html") in said
    assert "focal" in (out / "table.md").read_text()
    table, ends = table_of(out), ends_of(out)
    assert len(ends) == 4
    finished = sorted((out / "runs").iterdir())
    (finished[0] / "summary.json").unlink()
    for name in ("summary.json", "record.json", "config.toml"):
        (finished[1] / name).unlink()
    assert call(*command).code == 0
    assert (table_of(out), ends_of(out)) == (table, ends)


def test_the_demo_has_pairs_enough_for_a_test_to_find_something() -> None:
    seeds, others = SEEDS, len(demo.METHODS) - 1
    # Wilcoxon's smallest two-sided p with n pairs is 2 / 2^n; Holm multiplies the smallest by the number of tests.
    assert others * 2 / 2**seeds < 0.05
    assert call("demo", "--help").out.count(f"[default: {seeds}]") == 1


def test_fashion_mnist_joins_where_its_files_are(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (data_root / "fashion_mnist").is_dir()
    assert {job.problem for job in expand(demo_sweep(1))} == {"digits", "Fashion-MNIST"}
    monkeypatch.setenv("COUNTERPOISE_DATA", "nowhere")
    assert {job.problem for job in expand(demo_sweep(1))} == {"digits"}
