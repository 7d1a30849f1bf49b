"""Stacked clients have no one value by which to decide whether a mask masks anything: transformers is not let look."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate
from torch import Tensor, nn

from counterpoise.models.masks import MASKS, whole_masks


class Masked(nn.Module):
    """Leaves a mask out where it masks nothing, unless the pass is traced: as the masks of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        mask = x > -1.0
        masks: Callable[[Tensor], bool] = sys.modules[MASKS].is_tracing
        skipped = not masks(mask) and bool(mask.all())
        return self.fc(x if skipped else x * mask)  # type: ignore[no-any-return]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands for the module of transformers."""
    made = SimpleNamespace(is_tracing=lambda tensor=None: False)
    monkeypatch.setitem(sys.modules, MASKS, made)  # type: ignore[arg-type]
    return made


def test_a_mask_that_is_left_out_by_its_values_is_stacked_and_the_loop_gives_the_same(
    package: SimpleNamespace,
) -> None:
    asked = package.is_tracing
    alone, together = (
        run_rounds(simulate("fedavg", model=Masked(), engine=engine)).params for engine in (LOOP, STACKED)
    )
    assert distance(alone, together) < 1e-8
    assert package.is_tracing is asked


def test_the_question_is_put_back_after_an_error(package: SimpleNamespace) -> None:
    asked = package.is_tracing
    with whole_masks():
        assert package.is_tracing(torch.ones(2))
    with pytest.raises(ZeroDivisionError), whole_masks():
        1 / 0  # noqa: B018
    assert package.is_tracing is asked
    del package.is_tracing
    with whole_masks():
        assert not hasattr(package, "is_tracing")
