"""Which rows are for the test, by property."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.data.split import stratified_split


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 99),
)
def test_a_stratified_split_is_disjoint_complete_and_proportional(
    sizes: list[int], share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    strata = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    split = stratified_split(strata, share, rng)
    assert sorted([*split.train, *split.test]) == list(range(len(strata)))
    assert np.all(np.diff(split.train) > 0)
    for stratum, size in enumerate(sizes):
        tested = int(np.sum(strata[split.test] == stratum))
        assert abs(tested - share * size) <= 1
        assert tested < size
        assert tested > 0 or size == 1


def test_a_split_depends_on_its_stream_only() -> None:
    strata = np.repeat([0, 1], 50)
    first, second, other = (stratified_split(strata, 0.2, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.test.tolist() == second.test.tolist()
    assert first.test.tolist() != other.test.tolist()
