"""Re-labelling: six samples by hand, a second implementation over random cases, and what can never happen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from federations import visit
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.method import PARTS, build_method
from counterpoise.core.part import Census, ClientData, Outputs, Part, Visit
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError, DataError
from counterpoise.parts.relabel import rarity_gap, standard_scores, upper_scores

ON = {"on": torch.tensor(True)}


def _seen(posterior: Any, seed: int = 0, shared: Any = None) -> Visit:
    """A visit by a model whose softmax on row i is the i-th row."""
    logits = torch.as_tensor(np.asarray(posterior), dtype=torch.float64).log()

    def look(rows: Tensor, stream: torch.Generator | None = None) -> Outputs:
        return Outputs(logits[rows], logits[:, :0])

    return visit(shared or ON, stream=generator(seed, "relabel"))._replace(look=look)


def _data(labels: list[int]) -> ClientData:
    return ClientData(torch.arange(len(labels)), torch.tensor(labels, dtype=torch.int64))


def _labels(part: Part, labels: list[int], posterior: Any, seed: int = 0) -> list[int]:
    assert part.prepare is not None
    data, memory = part.prepare(_data(labels), _seen(posterior, seed))
    assert memory["labels"].tolist() == data.labels.tolist()
    return data.labels.tolist()


def _draws(shape: tuple[int, int], seed: int) -> np.ndarray[Any, Any]:
    return torch.rand(shape, dtype=torch.float64, generator=generator(seed, "relabel")).numpy()


def _brute_force(
    labels: list[int], posterior: np.ndarray[Any, Any], tau: int, seed: int, **options: Any
) -> list[int]:
    """The rule sample by sample and class by class, in plain loops."""
    n, classes = posterior.shape
    counts = [labels.count(c) for c in range(classes)]
    low, high = min(counts), max(counts)
    rarity = [1.0 if high == low else 1 - (k - low) / (high - low) for k in counts]
    z = np.zeros((n, classes))
    for y in set(labels):
        own = [i for i in range(n) if labels[i] == y]
        for c in range(classes):
            column = [posterior[i, c] for i in own]
            mean = sum(column) / len(own)
            deviation = max(math.sqrt(sum((q - mean) ** 2 for q in column) / len(own)), 1e-6)
            for i in own:
                z[i, c] = (posterior[i, c] - mean) / deviation
    bars = [sorted(z[:, c], reverse=True)[tau * n // 100] for c in range(classes)]
    uniform, found = _draws((n, classes), seed), []
    for i, y in enumerate(labels):
        best, label = 0.0, y
        for c in range(classes):
            gap = max(rarity[c] - rarity[y], 0)
            chance = (
                math.tanh(z[i, c] - bars[c]) * gap
                if options.get("standardise", True)
                else posterior[i, c] * gap
            )
            chance = min(max(chance, 0), options.get("cap", 1.0))
            if chance > uniform[i, c] and round(chance, 9) > best:
                best, label = round(chance, 9), c
        found.append(label)
    return found


@st.composite
def _cases(draw: Any) -> tuple[list[int], np.ndarray[Any, Any], int, int]:
    classes = draw(st.integers(2, 6))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=60))
    seed = draw(st.integers(0, 10_000))
    sharp = draw(st.sampled_from([0.1, 1.0, 4.0]))
    logits = sharp * np.random.default_rng(seed).standard_normal((len(labels), classes))
    posterior = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return labels, posterior, draw(st.integers(0, 99)), seed


def test_six_samples_by_hand() -> None:
    labels = [0, 0, 0, 0, 1, 2]
    posterior = np.array(
        [[0.90, 0.05, 0.05], [0.80, 0.10, 0.10], [0.70, 0.20, 0.10], [0.20, 0.65, 0.15], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
    )  # fmt: skip
    # Class 1 over class 0's samples: mean 1/4, squares .04, .0225, .0025, .16, deviation sqrt(.225 / 4); a class of one has z = 0.
    deviation = math.sqrt(0.225 / 4)
    z = np.array([-0.2 / deviation, -0.15 / deviation, -0.05 / deviation, 0.4 / deviation, 0, 0])
    own = torch.tensor(labels)
    scores = standard_scores(torch.tensor(posterior), own)
    assert np.allclose(scores[:, 1], z, atol=1e-12)
    # tau = 40 percent of 6 are 2 samples: the bar is the third largest, 0 of the classes of one.
    assert upper_scores(scores, 40.0)[1] == 0
    # Counts 4, 1, 1: rarity 0, 1, 1. Only class 0 may become another, and nobody becomes class 0.
    assert rarity_gap(own, 3).tolist() == [[0, 1, 1]] * 4 + [[0, 0, 0]] * 2
    chance = math.tanh(0.4 / deviation)  # of sample 3 to become class 1: 0.93
    third = np.array([0.05, 0.10, 0.10, 0.15])
    other = (third - third.mean()) / third.std()  # class 2: sample 3 stands out as well, 1.41 deviations
    expected = {0: 0, 1: 0, 2: 0}
    found = {0: 0, 1: 0, 2: 0}
    for seed in range(400):
        uniform = _draws((6, 3), seed)[3]
        is_one, is_two = chance > uniform[1], math.tanh(other[3]) > uniform[2]
        label = 1 if is_one and (chance >= math.tanh(other[3]) or not is_two) else 2 if is_two else 0
        expected[label] += 1
        relabelled = _labels(PARTS.build("relabel", {"tau": 40.0}), labels, posterior, seed)
        assert relabelled == [0, 0, 0, label, 1, 2]
        found[relabelled[3]] += 1
    assert found == expected
    assert min(found.values()) > 0


@given(_cases())
@settings(max_examples=300, deadline=None)
def test_a_second_implementation_in_plain_loops_agrees(
    case: tuple[list[int], np.ndarray[Any, Any], int, int],
) -> None:
    labels, posterior, tau, seed = case
    part = PARTS.build("relabel", {"tau": float(tau)})
    assert _labels(part, labels, posterior, seed) == _brute_force(labels, posterior, tau, seed)


@given(_cases(), st.sampled_from([{"standardise": False}, {"cap": 0.3}, {"cap": 0.05, "standardise": False}]))
@settings(max_examples=100, deadline=None)
def test_it_agrees_with_a_cap_and_without_standard_scores(
    case: tuple[list[int], np.ndarray[Any, Any], int, int], options: dict[str, Any]
) -> None:
    labels, posterior, tau, seed = case
    part = PARTS.build("relabel", {"tau": float(tau), **options})
    assert _labels(part, labels, posterior, seed) == _brute_force(labels, posterior, tau, seed, **options)


@given(_cases())
@settings(max_examples=200, deadline=None)
def test_no_class_gains_more_than_its_share_and_the_rarest_of_a_complete_client_loses_none(
    case: tuple[list[int], np.ndarray[Any, Any], int, int],
) -> None:
    labels, posterior, tau, seed = case
    found = _labels(PARTS.build("relabel", {"tau": float(tau)}), labels, posterior, seed)
    classes, n = posterior.shape[1], len(labels)
    counts = [labels.count(c) for c in range(classes)]
    moved = [(a, b) for a, b in zip(labels, found, strict=True) if a != b]
    for c in range(classes):
        assert sum(b == c for _, b in moved) <= tau * n // 100
    assert all(counts[b] < counts[a] for a, b in moved)
    if min(counts):
        assert all(counts[a] > min(counts) for a, _ in moved)
    if min(counts) == max(counts) or tau * n < 100:
        assert not moved


def test_the_bound_is_in_whole_numbers() -> None:
    # 0.29 * 100 is 28.999999999999996 in floats; a bound of 28 would be one short.
    scores = torch.arange(100, dtype=torch.float64).unsqueeze(1)
    assert int(upper_scores(scores, 29.0)) == 70
    assert int(upper_scores(scores, 0.999)) == 99
    assert int(upper_scores(scores, 99.9)) == 0


def test_an_absent_class_attracts_even_where_the_present_ones_are_equal() -> None:
    posterior = np.tile([0.5, 0.4, 0.1], (20, 1))
    posterior[3] = [0.01, 0.01, 0.98]
    labels = [0, 1] * 10
    found = [_labels(PARTS.build("relabel"), labels, posterior, seed)[3] for seed in range(20)]
    assert 2 in found  # tanh of many deviations: nearly always


def test_thresholds_by_hand_take_the_place_of_the_share() -> None:
    posterior = np.tile([0.9, 0.1], (10, 1))
    posterior[0] = [0.3, 0.7]  # 3 deviations of class 0's nine samples, whatever its height
    labels = [0] * 9 + [1]
    high, low = ({"thresholds": [0.0, bar], "tau": 0.0} for bar in (2.9, -20.0))
    assert _labels(PARTS.build("relabel", low), labels, posterior) == [1] * 10
    z = math.sqrt(8)  # (x - mean) / deviation of one among nine equal ones
    expected = [math.tanh(z - 2.9) > 0] + [False] * 8
    assert not any(expected)
    assert _labels(PARTS.build("relabel", high), labels, posterior) == labels
    part = PARTS.build("relabel", {"thresholds": [0.0]})
    assert part.init is not None
    with pytest.raises(ConfigError, match=r"thresholds must be one number per class \(3\), not 1"):
        part.init({}, Census(torch.ones(2), 3, 10), {})


def test_several_passes_are_averaged() -> None:
    asked: list[bool] = []
    looks = [np.array([[0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]), np.array([[0.4, 0.6], [0.8, 0.2], [0.9, 0.1]])]

    def look(rows: Tensor, stream: torch.Generator | None = None) -> Outputs:
        asked.append(stream is not None)
        logits = torch.tensor(looks[len(asked) - 1]).log()
        return Outputs(logits, logits[:, :0])

    part = PARTS.build("relabel", {"passes": 2, "tau": 40.0})
    assert part.prepare is not None
    data, _ = part.prepare(_data([0, 0, 1]), _seen(looks[0])._replace(look=look))
    assert asked == [True, True]  # augmented by draws of the visit's stream
    assert data.labels.tolist() == _brute_force([0, 0, 1], (looks[0] + looks[1]) / 2, 40, 0)


def test_labels_stay_as_they_were_drawn_whatever_later_models_say() -> None:
    part = PARTS.build("relabel", {"tau": 40.0})
    assert part.prepare is not None
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    data = _data([0] * 20 + [1] * 8 + [2] * 2)
    first, memory = part.prepare(data, _seen(posterior))
    assert first.labels.tolist() != data.labels.tolist()
    later, kept = part.prepare(data, visit(ON)._replace(memory=memory))  # looking would fail
    assert torch.equal(later.labels, first.labels)
    assert torch.equal(kept["labels"], first.labels)
    with pytest.raises(
        DataError, match="must have the 30 samples that it had when it re-labelled them, not 3"
    ):
        part.prepare(_data([0, 1, 2]), visit(ON)._replace(memory=memory))


def test_before_its_round_nothing_is_looked_at_or_kept() -> None:
    part = PARTS.build("relabel")
    assert part.prepare is not None
    data = _data([0, 0, 1])
    assert part.prepare(data, visit({"on": torch.tensor(False)})) == (data, {})


def test_a_client_without_samples_has_nothing_to_look_at() -> None:
    part = PARTS.build("relabel")
    assert part.prepare is not None
    data, _ = part.prepare(_data([]), visit(ON))
    assert data.labels.tolist() == []


def test_a_model_that_is_not_finite_changes_no_label() -> None:
    posterior = np.full((40, 2), np.nan)
    assert _labels(PARTS.build("relabel", {"tau": 50.0}), [0] * 39 + [1], posterior) == [0] * 39 + [1]


@pytest.mark.parametrize(
    ("at", "rounds", "first"), [(0.9, 500, 450), (0.9, 5, 5), (0.55, 100, 55), (7, 500, 7)]
)
def test_the_round_is_a_share_of_all_or_a_number(at: float, rounds: int, first: int) -> None:
    part = PARTS.build("relabel", {"at": at})
    assert part.init is not None
    assert part.send is not None
    slot = part.init({}, Census(torch.ones(2), 3, rounds), {})
    assert [bool(part.send(slot, first + k)["on"]) for k in (-1, 0, 1)] == [False, True, True]


@pytest.mark.parametrize(
    "late",
    [
        "resample",
        "balanced_sampler",
        {"crt": {"start": 0.5}},
        {"group_momentum": {"group_batches": "separate"}},
    ],
)
def test_labels_change_before_any_other_part_prepares_by_them(late: Any) -> None:
    name = late if isinstance(late, str) else next(iter(late))
    with pytest.raises(
        ConfigError,
        match=f"relabel changes labels, by which {name} prepares samples; list relabel before {name}",
    ):
        build_method(["fedavg", late, "relabel"])
    assert [p.name for p in build_method(["fedavg", "relabel", late]).parts] == ["relabel", name]
