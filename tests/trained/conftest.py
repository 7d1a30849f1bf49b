"""Runs that all tests of this folder read and none writes to."""

from __future__ import annotations

import pytest
from used_runs import Used, array_run, image_run, table_run


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Used:
    return table_run(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="session")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Used:
    return array_run(tmp_path_factory.mktemp("arrays"))


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Used:
    return image_run(tmp_path_factory.mktemp("images"))
