"""Token ids with an attention mask, over Flower: clients train on them as in one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from federations import run_rounds, simulate, unequal_federation
from local_grid import over_flower
from torch import Tensor, nn

import counterpoise as cp
from counterpoise.core.codec import digest
from counterpoise.data.federation import Federation

WORDS, LENGTH = 9, 5


class MaskedMean(nn.Module):
    """The mean of the words that are not masked, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.fc = nn.Embedding(WORDS, 4), nn.Linear(4, 4)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.unsqueeze(2)
        return self.fc((self.words(input_ids) * mask).sum(1) / mask.sum(1))  # type: ignore[no-any-return]


def _text(numbers: Tensor) -> dict[str, Tensor]:
    """Ids and a mask that follow numbers [n, 5]; the first word is never masked."""
    mask = numbers.cumsum(1) < 4
    mask[:, 0] = True
    return {"input_ids": (numbers.abs() * 3).long().clamp(max=WORDS - 1), "attention_mask": mask.long()}


def _texts() -> tuple[Federation, nn.Module]:
    plain = unequal_federation((LENGTH,))
    (train, layout), (test, _) = (cp.pack_inputs(_text(half.x)) for half in (plain.train, plain.test))
    halves = cp.Samples(train, plain.train.y), cp.Samples(test, plain.test.y)
    model = cp.SeveralInputs(MaskedMean(), layout)
    return replace(plain, train=halves[0], test=halves[1], validation=halves[1]), model


def test_records_equal_the_loop_bit_for_bit_with_ids_and_a_mask(tmp_path: Path) -> None:
    texts, model = _texts()
    alone = simulate("scaffold", federation=texts, model=model)
    remote, _ = over_flower("scaffold", tmp_path, federation=texts, model=model)

    assert alone.work.federation.scaling.whole
    assert digest(run_rounds(remote).params) == digest(run_rounds(alone).params)
