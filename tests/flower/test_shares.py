"""What a client counts for: by hand, and over random federations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.flower.serve import capped, share_lines

sizes = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(100, 10**10), min_size=1)


def test_a_client_that_claims_too_much_counts_for_its_cap() -> None:
    """With b and c at 300 samples, half of the whole is 300 for a."""
    assert capped({"a": 10**10, "b": 100, "c": 200}, 0.5) == {"a": 300, "b": 100, "c": 200}
    # Both liars are bound: b = 0.4 (100 + 2 b) gives b = 200.
    assert capped({"a": 10**10, "b": 10**9, "c": 100}, 0.4) == {"a": 200, "b": 200, "c": 100}

    assert capped({"a": 10**10, "b": 300, "d": 0}, 0.5) == {"a": 300, "b": 300, "d": 0}


def test_without_a_cap_or_below_it_nothing_changes() -> None:
    told = {"a": 900, "b": 100}
    assert capped(told, None) == told
    assert capped(told, 0.9) == told


def test_a_cap_that_no_division_can_hold_makes_all_alike() -> None:
    assert set(capped({"a": 5, "b": 100, "c": 7}, 0.2).values()) == {1}


@given(sizes, st.floats(0.05, 1.0))
def test_no_share_is_above_the_cap_and_nobody_gains_samples(samples: dict[str, int], most: float) -> None:
    counted = capped(samples, most)
    assert all(1 <= counted[name] <= samples[name] for name in samples)
    if most * len(samples) > 1:
        assert max(counted.values()) <= most * sum(counted.values()) + len(samples)  # whole samples


def test_shares_are_told_and_more_than_half_is_a_warning() -> None:
    lines = share_lines({"a": 600, "b": 300, "c": 100}, {"a": 600, "b": 300, "c": 100})
    assert lines[0] == "client a: 600 samples, 60.0% of the average"
    assert lines[-1].startswith("warning: client a reports 600 samples, more than half")
    assert not any("warning" in line for line in share_lines({"a": 5, "b": 5}, {"a": 5, "b": 5}))
    assert "counts for 300" in share_lines({"a": 10**10, "b": 300}, {"a": 300, "b": 300})[0]
