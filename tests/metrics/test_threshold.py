"""The positive class and its threshold: by hand, against scikit-learn, and never chosen on the test set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_recall_curve, roc_curve
from torch import Tensor

from counterpoise.core.part import Batch, Outputs
from counterpoise.errors import ConfigError
from counterpoise.metrics.roc import bin_edge, bins_for, bins_of, histograms
from counterpoise.metrics.scoring import Scoring, count_all
from counterpoise.metrics.shots import Shots
from counterpoise.metrics.threshold import choose_threshold, confusion_at
from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import make_experiment

NONE = Shots((), (), ())


def logits_of(chances: list[float]) -> Tensor:
    """Logits whose softmax gives these probabilities of class 1."""
    p = torch.tensor(chances, dtype=torch.float64)
    return torch.stack([(1 - p).log(), p.log()], 1)


def counted(chances: list[float], y: list[int]) -> Tensor:
    return histograms(logits_of(chances), torch.tensor(y))[:, :, 1]


def sums_of(chances: list[float], y: list[int]) -> dict[str, Any]:
    logits, labels = logits_of(chances), torch.tensor(y)
    return count_all(Outputs(logits, logits), Batch(logits, labels, torch.ones_like(labels)))


HELD = [0.9, 0.8, 0.7, 0.6, 0.4, 0.3], [1, 1, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("goal", "chance"),
    [
        ("f1", 0.6),  # 2 * 3 / (3 + 4), above 2 * 2 / (3 + 2) at 0.8
        ("balanced_accuracy", 0.8),  # (2 / 3 + 1) / 2, as much as (1 + 2 / 3) / 2 at 0.6: the higher one
        (0.7, 0.6),  # 3 of 4 are right
        (0.8, 0.8),  # 2 of 2; at 0.6 too few
        (0.5, 0.6),  # all are found from here on: a lower one finds no more
    ],
)
def test_the_threshold_by_hand(goal: Any, chance: float) -> None:
    found = choose_threshold(counted(*HELD), goal)
    assert found is not None
    assert found.chance == pytest.approx(chance, abs=1e-3)
    assert found.chance <= chance


def test_scores_at_the_threshold_are_those_of_other_samples() -> None:
    tested = [0.95, 0.65, 0.5, 0.85], [1, 0, 1, 0]
    scoring = Scoring(NONE, ("well", "sick"), positive=1, threshold="f1")
    found = scoring.scores(sums_of(*tested), sums_of(*HELD))
    # from 0.6 on: 0.95 rightly, 0.65 and 0.85 wrongly
    assert found["threshold"] == pytest.approx(0.6, abs=1e-3)
    assert found["threshold_recall"] == pytest.approx(1 / 2)
    assert found["threshold_precision"] == pytest.approx(1 / 3)
    assert found["threshold_f1"] == pytest.approx(2 / 5)
    assert found["threshold_balanced_accuracy"] == pytest.approx(1 / 4)
    # without a threshold the class of higher probability: 0.5 is a tie, which the first class wins
    assert (found["positive_recall"], found["positive_precision"]) == pytest.approx((1 / 2, 1 / 3))
    assert found["positive_average_precision"] == pytest.approx((1 + 2 / 4) / 2)
    assert Scoring(NONE, ("well", "sick"), positive=0).scores(sums_of(*tested))["positive_recall"] == 0.0


def test_without_a_positive_class_no_score_is_added() -> None:
    found = Scoring(NONE, ("well", "sick")).scores(sums_of(*HELD), sums_of(*HELD))
    assert not [key for key in found if key.startswith(("positive", "threshold"))]


def test_a_precision_that_no_threshold_reaches_has_no_scores() -> None:
    scoring = Scoring(NONE, ("a", "b"), positive=1, threshold=0.9)
    found = scoring.scores(sums_of(*HELD), sums_of([0.9, 0.1], [0, 1]))
    assert [found[key] for key in ("threshold", "threshold_recall", "threshold_balanced_accuracy")] == [
        None
    ] * 3
    assert choose_threshold(counted([0.2, 0.3], [0, 0]), "f1") is None


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(4, 30), st.floats(0.05, 1.0), st.sampled_from([0.3, 2.0, 20.0]))
def test_thresholds_are_as_good_as_those_of_scikit_learn(
    seed: int, size: int, precision: float, scale: float
) -> None:
    stream = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % 3 // 2
    logits = scale * (torch.randn(size, 2, generator=stream) + torch.nn.functional.one_hot(y, 2))
    half = size // 2  # two clients, whose histograms add up
    counts = histograms(logits[:half], y[:half]) + histograms(logits[half:], y[half:])
    ranks, own = bins_of(logits, bins_for(2))[:, 1].numpy(), y.numpy()
    precisions, recalls, _ = precision_recall_curve(own, ranks)
    reached = recalls[:-1][precisions[:-1] >= precision]
    found = choose_threshold(counts[:, :, 1], precision)
    if found is None:
        assert not (reached > 0).any()
        return
    [_, [missed, hits]] = confusion_at(counts[:, :, 1], found).tolist()
    assert hits / (hits + missed) == pytest.approx(reached.max())
    false, hit, _ = roc_curve(own, ranks, drop_intermediate=False)
    harmonic = 2 * precisions * recalls / np.maximum(precisions + recalls, 1e-12)
    best = {
        "f1": (f1_score, harmonic.max()),
        "balanced_accuracy": (balanced_accuracy_score, (1 + (hit - false).max()) / 2),
    }
    for goal, (score, value) in best.items():
        chosen = choose_threshold(counts[:, :, 1], goal)  # type: ignore[arg-type]
        assert chosen is not None
        assert score(own, ranks >= chosen.bin) == pytest.approx(value)


def test_the_edge_of_a_bin_is_its_lowest_probability() -> None:
    bins = bins_for(2)
    for place in range(0, bins, 997):
        edge = bin_edge(place, bins)
        if 1e-9 < edge < 0.999:
            above, below = (
                int(bins_of(logits_of([p]), bins)[0, 1]) for p in (edge * (1 + 1e-9), edge * (1 - 1e-9))
            )
            assert below <= place <= above
            assert above - below <= 1
    assert bin_edge(0, bins) == 0.0


def experiment(folder: Path, data: dict[str, Any] | None = None, **tables: Any) -> Any:
    stream = np.random.default_rng(0)
    y = (stream.random(300) < 0.2).astype(int)
    rows = [f"{x:.3f},{label}" for x, label in zip(stream.normal(size=300) + 1.5 * y, y, strict=True)]
    (folder / "t.csv").write_text("\n".join(["x,ill", *rows]) + "\n")
    own = {"name": "table", "path": str(folder / "t.csv"), "label": "ill", "validation": 0.3, "positive": 1}
    local = {"lr": 0.1, "epochs": 1, "batch_size": 32}
    given = {"rounds": 2, "data": own | (data or {}), "local": local, "partition": {"clients": 3}}
    return make_experiment(given | {"evaluate": {"threshold": "f1"}} | tables)


def test_a_run_chooses_its_threshold_on_validation_samples(tmp_path: Path) -> None:
    simulation = assemble(experiment(tmp_path))
    state = simulation.open()
    state, _ = simulation.advance(state)
    found = simulation.evaluate(state)
    federation, module = simulation.work.federation, simulation.module(state).eval()

    def calls(samples: Any) -> Tensor:
        return module(federation.scaling(samples.x)).double().softmax(1)[:, 1].detach()

    held, tested = federation.validation, federation.test
    assert held is not None
    called = calls(tested) >= found["threshold"]
    assert found["threshold_f1"] == pytest.approx(f1_score(tested.y, called))
    precisions, recalls, _ = precision_recall_curve(held.y, calls(held))
    best = np.nanmax(2 * precisions * recalls / (precisions + recalls))
    assert f1_score(held.y, calls(held) >= found["threshold"]) == pytest.approx(best)
    assert not [key for key in found["validation"] if key.startswith("threshold")]


@pytest.mark.parametrize(
    ("data", "tables", "words"),
    [
        ({"positive": "ill"}, {}, r"^data.positive: no class 'ill'; "),
        ({"validation": 0.0}, {}, r"there are none of class '0': data.validation must be above 0$"),
        ({"positive": None}, {}, r"^evaluate.threshold needs a positive class: data.positive must name one"),
        ({}, {"evaluate": {"threshold": "f2"}}, r"evaluate.threshold must be"),
        ({}, {"evaluate": {"threshold": {"precision": 1.5}}}, r"precision must be"),
        ({"validation": 0.01}, {}, r"there are none of class '1': data.validation must be larger$"),
    ],
)
def test_a_threshold_that_cannot_be_chosen_is_one_line(
    tmp_path: Path, data: dict[str, Any], tables: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        assemble(experiment(tmp_path, data, **tables))
    assert "\n" not in str(caught.value)


def test_more_than_two_classes_have_no_positive_one() -> None:
    given = {"data": {"name": "digits", "positive": 3}, "rounds": 1}
    with pytest.raises(ConfigError, match=r"^data.positive = '3' needs two classes; digits has 10$"):
        assemble(make_experiment(given))
