"""Who is asked: sorted, without repeats, fresh in every round, never a client without samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from federations import SIZES, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.errors import ConfigError
from counterpoise.server.cohort import Cohort

SAMPLES = st.lists(st.integers(0, 5), min_size=1, max_size=30).map(torch.tensor)


@settings(deadline=None, max_examples=60)
@given(
    SAMPLES,
    st.one_of(st.none(), st.integers(1, 40)),
    st.integers(0, 9),
    st.sampled_from(["exact", "bernoulli"]),
)
def test_cohorts_are_sorted_distinct_and_have_samples(
    samples: torch.Tensor, size: int | None, round: int, sampling: str
) -> None:
    clients = Cohort(size, sampling).draw(0, round, samples)  # type: ignore[arg-type]
    eligible = int((samples > 0).sum())
    assert clients == sorted(set(clients))
    assert all(samples[client] > 0 for client in clients)
    if sampling == "exact":
        assert len(clients) == min(eligible, eligible if size is None else size)
    else:
        assert min(1, eligible) <= len(clients) <= eligible


def test_every_client_is_asked_equally_often() -> None:
    samples = torch.full((10,), 5)
    asked = torch.zeros(10)
    for t in range(2000):
        asked[Cohort(3).draw(0, t, samples)] += 1
    assert (asked / 2000).tolist() == pytest.approx([0.3] * 10, abs=0.04)


def test_independent_draws_have_the_wanted_mean_and_vary() -> None:
    samples = torch.full((20,), 5)
    sizes = [len(Cohort(5, "bernoulli").draw(0, t, samples)) for t in range(1000)]
    assert sum(sizes) / 1000 == pytest.approx(5, abs=0.25)
    assert len(set(sizes)) > 6


def test_cohorts_depend_on_seed_and_round_only() -> None:
    samples = torch.full((30,), 5)
    drawn = [Cohort(5).draw(seed, t, samples) for seed in range(3) for t in range(3)]
    assert len({tuple(d) for d in drawn}) == 9
    assert Cohort(5).draw(1, 2, samples) == Cohort(5).draw(1, 2, 7 * samples)


@pytest.mark.parametrize("sampling", ["exact", "bernoulli"])
def test_a_cohort_of_more_clients_than_there_are_is_refused(sampling: Any) -> None:
    everyone = len(SIZES)
    simulate("fedavg", cohort=Cohort(everyone, sampling))
    with pytest.raises(ConfigError, match=r"cohort\.size must be at most 6.* not 7$"):
        simulate("fedavg", cohort=Cohort(everyone + 1, sampling))
