"""Areas under the ROC and the precision-recall curve: by hand, against scikit-learn, and as sums over clients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from counterpoise.core.part import Batch, Outputs
from counterpoise.metrics import histograms, per_class_auroc, per_class_average_precision
from counterpoise.metrics.catalogue import compute_scores
from counterpoise.metrics.roc import MOST_CLASSES, bins_for, bins_of
from counterpoise.metrics.scoring import count_all

NEAR = 1e-3


def samples(seed: int, size: int, classes: int, scale: float) -> tuple[Tensor, Tensor]:
    """Logits that know something of the class, times a scale: small ones are near-ties, large ones saturate."""
    stream = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % classes
    known = 1.5 * torch.nn.functional.one_hot(y, classes)
    shift = torch.randn(classes, generator=stream)
    return scale * (known + torch.randn(size, classes, generator=stream) + shift), y


def scored(logits: Tensor, y: Tensor) -> dict[str, object]:
    return compute_scores(count_all(Outputs(logits, logits), Batch(logits, y, torch.ones_like(y))))


def two_classes(chances: list[float]) -> Tensor:
    """Logits whose softmax gives these probabilities of class 1."""
    p = torch.tensor(chances, dtype=torch.float64)
    return torch.stack([(1 - p).log(), p.log()], 1)


def test_a_ranking_with_ties_by_hand() -> None:
    # class 1 from the top: own; own and other tied; other; own
    logits, y = two_classes([0.9, 0.6, 0.6, 0.4, 0.2]), torch.tensor([1, 1, 0, 0, 1])
    counts = histograms(logits, y)
    # of 3 * 2 pairs 2 are won by the first, 1 and a half by the second, none by the last
    assert per_class_auroc(counts)[1] == pytest.approx(3.5 / 6)
    # precision at 0.9 is 1, at 0.6 two of three, at 0.2 three of five; recall grows by a third at each
    assert per_class_average_precision(counts)[1] == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    # class 0 is the ranking upside down, from the top: own of class 1; other; the tie; other
    assert per_class_auroc(counts)[0] == pytest.approx(3.5 / 6)
    assert per_class_average_precision(counts)[0] == pytest.approx((1 / 2 + 2 / 4) / 2)


def test_a_class_without_samples_on_both_sides_has_no_area() -> None:
    logits, y = samples(0, 30, 3, 1.0)
    found = scored(logits, torch.where(y == 2, 0, y))
    areas = found["per_class_auroc"], found["per_class_average_precision"]
    for area in areas:
        assert isinstance(area, list)
        assert [value is None for value in area] == [False, False, True]
        assert found["auroc" if area is areas[0] else "average_precision"] == pytest.approx(sum(area[:2]) / 2)
    alone = scored(logits, torch.zeros(30, dtype=torch.int64))
    assert alone["per_class_auroc"] == alone["per_class_average_precision"] == [None] * 3
    assert alone["auroc"] is alone["average_precision"] is alone["matthews"] is None


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 60), st.integers(2, 5), st.sampled_from([1e-4, 0.01, 1.0, 30.0]))
def test_areas_are_those_of_scikit_learn_where_a_bin_is_a_tie(
    seed: int, size: int, classes: int, scale: float
) -> None:
    logits, y = samples(seed, size, classes, scale)
    counts, ranks = histograms(logits, y), bins_of(logits, bins_for(classes)).numpy()
    for c in range(classes):
        if (own := (y == c).numpy()).any():
            assert per_class_auroc(counts)[c] == pytest.approx(roc_auc_score(own, ranks[:, c]))
            expected = average_precision_score(own, ranks[:, c])
            assert per_class_average_precision(counts)[c] == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([2, 5, 10]), st.floats(0.05, 40.0))
def test_areas_are_near_those_of_the_scores_as_they_are(seed: int, classes: int, scale: float) -> None:
    logits, y = samples(seed, 3000, classes, scale)
    found, chances = scored(logits, y), logits.double().softmax(1).numpy()
    exact = [
        (roc_auc_score(own, chances[:, c]), average_precision_score(own, chances[:, c]))
        for c in range(classes)
        for own in [(y == c).numpy()]
    ]
    assert found["auroc"] == pytest.approx(np.mean([area for area, _ in exact]), abs=NEAR)
    assert found["average_precision"] == pytest.approx(np.mean([area for _, area in exact]), abs=NEAR)


@pytest.mark.parametrize("shift", [-40.0, -20.0, 20.0])
def test_scores_all_near_0_or_1_are_told_apart(shift: float) -> None:
    logits, y = samples(3, 4000, 2, 1.0)
    logits = logits.double() + torch.tensor([0.0, shift])
    own, chance = (y == 1).numpy(), logits.softmax(1)[:, 1].numpy()
    counts = histograms(logits, y)
    assert per_class_auroc(counts)[1] == pytest.approx(roc_auc_score(own, chance), abs=NEAR)
    expected = average_precision_score(own, chance)
    assert per_class_average_precision(counts)[1] == pytest.approx(expected, abs=NEAR)


def test_a_model_that_has_hardly_learned_is_told_apart() -> None:
    logits, y = samples(4, 10_000, 10, 0.001)
    logits = logits - logits.mean(0)  # all probabilities within a thousandth of 1 / 10
    chances, counts = logits.double().softmax(1).numpy(), histograms(logits, y)
    for c, area in enumerate(per_class_auroc(counts)):
        assert area == pytest.approx(roc_auc_score((y == c).numpy(), chances[:, c]), abs=NEAR)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_histograms_of_clients_add_up_to_those_of_the_whole(seed: int, sizes: list[int]) -> None:
    logits, y = samples(seed, sum(sizes), 4, 2.0)
    clients = zip(torch.split(logits, sizes), torch.split(y, sizes), strict=True)
    total = torch.stack([histograms(*client) for client in clients]).sum(0)
    assert total.dtype == torch.int64
    assert torch.equal(total, histograms(logits, y))


def test_padding_does_not_count_and_stacked_models_are_counted_like_each() -> None:
    logits, y = samples(1, 60, 5, 2.0)
    padded, labels, mask = logits.clone(), y.clone(), torch.arange(60) < 40
    padded[40:], labels[40:] = torch.nan, -1
    assert torch.equal(histograms(padded, labels, mask), histograms(logits[:40], y[:40]))
    models, labels, mask = logits.view(3, 20, 5), y[:20], torch.arange(20) % 7 > 0
    stacked = torch.vmap(histograms, in_dims=(0, None, None))(models, labels, mask)
    assert torch.equal(stacked, torch.stack([histograms(one, labels, mask) for one in models]))


def test_a_model_that_diverged_ranks_nothing() -> None:
    counts = histograms(torch.full((4, 2), torch.nan), torch.tensor([0, 0, 0, 1]))
    assert per_class_auroc(counts) == [0.5, 0.5]
    assert per_class_average_precision(counts) == [0.75, 0.25]


def test_memory_is_bounded_and_too_many_classes_have_no_areas() -> None:
    for classes in (2, 10, 100, MOST_CLASSES):
        assert histograms(*samples(0, 3, classes, 1.0)).nbytes <= 8 * 2**20
    logits, y = samples(2, 400, MOST_CLASSES + 1, 1.0)
    sums = count_all(Outputs(logits, logits), Batch(logits, y, torch.ones_like(y)))
    assert "histograms" not in sums
    assert bins_for(10**6) == 0
    found = compute_scores(sums)
    assert found["auroc"] is None
    assert found["per_class_auroc"] == [None] * (MOST_CLASSES + 1)


@pytest.mark.parametrize("tenth", range(10))
def test_areas_added_over_clients_are_those_of_scikit_learn(tenth: int) -> None:
    """A hundred random cases: classes, scale and clients differ."""
    for seed in range(10 * tenth, 10 * tenth + 10):
        stream = np.random.default_rng(seed)
        classes, scale = int(stream.integers(2, 8)), float(10 ** stream.uniform(-2, 1.5))
        sizes = [*stream.integers(0, 150, stream.integers(2, 9)).tolist(), 60]
        logits, y = samples(seed, sum(sizes), classes, scale)
        order = torch.from_numpy(stream.permutation(len(y)))
        parts = zip(torch.split(logits[order], sizes), torch.split(y[order], sizes), strict=True)
        counts = [count_all(Outputs(z, z), Batch(z, own, torch.ones_like(own))) for z, own in parts]
        found = compute_scores({key: torch.stack([one[key] for one in counts]).sum(0) for key in counts[0]})
        rows = [((y == c).numpy(), logits.double().softmax(1)[:, c].numpy()) for c in range(classes)]
        exact = [roc_auc_score(*row) for row in rows]
        assert found["per_class_auroc"] == pytest.approx(exact, abs=NEAR)
        assert found["auroc"] == pytest.approx(np.mean(exact), abs=NEAR)
        precision = np.mean([average_precision_score(*row) for row in rows])
        assert found["average_precision"] == pytest.approx(precision, abs=NEAR)
