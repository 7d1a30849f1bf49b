"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

# Idle threads of small tensor operations spin, and two test workers on two cores then slow each other down many times.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder of real data sets named by COUNTERPOISE_DATA; tests that need it are skipped where it is not set."""
    root = os.environ.get("COUNTERPOISE_DATA")
    if not root:
        pytest.skip("COUNTERPOISE_DATA is not set: no real data sets on this machine")
    return Path(root)
