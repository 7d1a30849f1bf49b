"""A model that draws, over Flower: clients draw what they draw in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from federations import run_rounds, simulate, small_model
from local_grid import over_flower

from counterpoise.core.codec import digest


def test_records_equal_the_loop_bit_for_bit_with_dropout(tmp_path: Path) -> None:
    alone = simulate("scaffold", model=small_model(hidden=[6], dropout=0.4))
    remote, _ = over_flower("scaffold", tmp_path, model=small_model(hidden=[6], dropout=0.4))

    assert digest(run_rounds(remote).params) == digest(run_rounds(alone).params)
