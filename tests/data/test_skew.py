"""Measures of label skew: by hand, against SciPy, and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon

from counterpoise.data.skew import describe, jensen_shannon


def test_measures_by_hand() -> None:
    # totals 9, 3, 0: shares 3/4, 1/4
    report = describe(np.array([[6, 2, 0], [3, 0, 0], [0, 1, 0]]))
    assert report.sizes.tolist() == [8, 3, 1]
    assert report.global_imbalance == 3
    assert report.local_imbalance.tolist() == [3, 1, 1]
    assert report.total_variation == pytest.approx([0, 0.25, 0.75])
    assert report.missing_classes.tolist() == [0, 1, 1]
    entropy = 0.75 * np.log(4 / 3) + 0.25 * np.log(4)
    assert report.effective_classes == pytest.approx([np.exp(entropy), 1, 1])
    # H(7/8, 1/8) - H(3/4, 1/4) / 2 and H(3/8, 5/8) - H(3/4, 1/4) / 2 in bits
    assert report.divergence == pytest.approx([0, 0.543564 - 0.811278 / 2, 0.954434 - 0.811278 / 2], abs=1e-6)
    assert report.cosine == pytest.approx([1, 3 / 10**0.5, 1 / 10**0.5])
    assert report.head_mismatch == pytest.approx(1 / 3)
    assert report.weighted_cosine == pytest.approx((8 + 3 * 3 / 10**0.5 + 1 / 10**0.5) / 12)


def test_clients_with_the_global_mix_have_no_skew() -> None:
    report = describe(np.array([[10, 5, 1], [20, 10, 2]]))
    assert report.divergence == pytest.approx([0, 0])
    assert report.weighted_cosine == pytest.approx(1)
    assert report.head_mismatch == 0
    assert report.global_imbalance == 10


def test_one_class_a_client_on_balanced_data() -> None:
    report = describe(5 * np.eye(4, dtype=np.int64))
    assert report.effective_classes == pytest.approx(np.ones(4))
    assert report.total_variation == pytest.approx(np.full(4, 0.75))
    assert report.weighted_cosine == pytest.approx(0.5)
    assert report.head_mismatch == 0  # every class is a most frequent one


def test_a_client_without_samples_is_left_out_of_the_means() -> None:
    counts = np.array([[6, 2], [0, 0], [0, 4]])
    report, without = describe(counts), describe(counts[[0, 2]])
    assert np.isnan(report.divergence[1])
    assert np.isnan(report.local_imbalance[1])
    assert report.missing_classes[1] == 2
    means = ("divergence", "total_variation", "local_imbalance", "head_mismatch", "weighted_cosine")
    assert {key: report.summary()[key] for key in means} == {key: without.summary()[key] for key in means}


def test_nothing_at_all_is_nan_and_no_error() -> None:
    assert np.isnan(describe(np.zeros((2, 3), np.int64)).summary()["divergence"])


def test_distributions_without_a_common_class_are_one_bit_apart() -> None:
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(1)


@given(arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(1, 50)))
def test_divergence_is_that_of_scipy_and_all_measures_stay_in_range(counts: np.ndarray) -> None:
    report = describe(counts)
    shares, overall = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=0) / counts.sum()
    expected = [jensenshannon(share, overall, base=2) ** 2 for share in shares]
    assert report.divergence == pytest.approx(np.nan_to_num(expected), abs=1e-9)
    for measure in (report.divergence, report.total_variation, report.cosine):
        assert (measure >= 0).all()
        assert (measure <= 1).all()
    assert (report.effective_classes <= counts.shape[1] + 1e-9).all()
    assert (report.local_imbalance >= 1).all()
