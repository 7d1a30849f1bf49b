"""One set of runs and one report of them for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from reported import charted, make_runs

from counterpoise.core.method import PARTS
from counterpoise.registry.registry import Entry
from counterpoise.report.html import write_report
from counterpoise.report.html.study import study
from counterpoise.results.results import read_results


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of runs; the part that they use is known while the module's tests last."""
    folder = tmp_path_factory.mktemp("reported") / "runs"
    PARTS.names()  # a registry that has not loaded yet would load over what is put in
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PARTS._entries, "charted", Entry("charted", charted))
        make_runs(folder)
        yield folder


@pytest.fixture(scope="module")
def page(runs: Path) -> Path:
    return write_report(study(read_results([runs])), runs.parent / "report.html")
