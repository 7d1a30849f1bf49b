"""FedSat's weights: the printed rule by hand, its edges, and who judges whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import ask_clients, run_rounds, simulate, unequal_federation
from hypothesis import given
from hypothesis import strategies as st
from judged import priority_weights_by_hand
from torch import Tensor

from counterpoise.core.messages import Replies
from counterpoise.core.part import Exchange
from counterpoise.parts.prioritised_weighting import (
    Judged,
    draw_workers,
    error_scores,
    priority_weights,
)
from counterpoise.run.driver import drive


def _counts(confusions: list[list[list[int]]] | Tensor) -> Judged:
    total = torch.as_tensor(confusions, dtype=torch.float64)
    return Judged(total.diagonal(dim1=1, dim2=2), total.sum(2), total.sum(1))


def _weights(counts: Judged, norm: str = "client", sigma: float = 1.0, floor: float = 0.0) -> Tensor:
    return priority_weights(counts, error_scores(counts, norm, 0.3, 0.2), sigma, floor)  # type: ignore[arg-type]


def test_two_clients_and_two_classespriority_weights_by_hand() -> None:
    # Client 0 finds 8 of 10 and 9 of 10, client 1 finds 10 of 10 and 4 of 10.
    counts = _counts([[[8, 2], [1, 9]], [[10, 0], [6, 4]]])
    errors = error_scores(counts, "client", 0.3, 0.2)
    # FNR (.2, .1), FPR (.1, .2) over their largest: (1, .5), (.5, 1); client 1: FNR (0, .6), FPR (.6, 0).
    assert errors.flatten().tolist() == pytest.approx([0.4, 0.35, 0.2, 0.3])
    # Sums .75 and .5, mean .625: only client 1 is kept.
    assert priority_weights(counts, errors, 1.0).tolist() == [0, 1]
    # Both kept: class errors (.6, .65), so class 1 has priority: 1.7 * 9 / .75 = 20.4 and 1.4 * 4 / .5 = 11.2.
    assert priority_weights(counts, errors, 2.0).tolist() == pytest.approx([20.4 / 31.6, 11.2 / 31.6])


def test_without_the_priority_class_weights_go_by_accuracy_and_errors() -> None:
    # As above: errors .75 and .5, recalls that sum to 1.7 and 1.4.
    counts = _counts([[[8, 2], [1, 9]], [[10, 0], [6, 4]]])
    errors = error_scores(counts, "client", 0.3, 0.2)
    scores = (1.7 / 0.75, 1.4 / 0.5)
    found = priority_weights(counts, errors, 2.0, priority="nothing").tolist()
    assert found == pytest.approx([score / sum(scores) for score in scores])


def test_recall_of_the_priority_class_does_not_go_by_how_much_of_it_the_workers_hold() -> None:
    # The same rates everywhere, but client 1 was judged on ten times as many samples, and client 2 knows nothing of class 1.
    one = torch.tensor([[6, 4], [5, 5]])
    counts = _counts(torch.stack([one, 10 * one, torch.tensor([[9, 1], [10, 0]])]))
    errors = torch.tensor([[0.2, 0.3]] * 3, dtype=torch.float64)  # class 1 has priority
    found = priority_weights(counts, errors, 1.0, priority="recall").tolist()
    scores = (1.1 * 50, 1.1 * 50, 0.9 * 1)
    assert found == pytest.approx([score / sum(scores) for score in scores])


@pytest.mark.parametrize("norm", ["client", "round"])
@given(data=st.data())
def test_the_rule_holds_for_any_counts(norm: str, data: st.DataObject) -> None:
    clients, classes = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 4))
    cells = st.lists(st.integers(0, 9), min_size=clients * classes**2, max_size=clients * classes**2)
    confusions = np.array(data.draw(cells)).reshape(clients, classes, classes)
    sigma = data.draw(st.sampled_from([0.5, 1.0, 1.5]))
    found = _weights(_counts(torch.tensor(confusions)), norm, sigma)
    assert bool(torch.isfinite(found).all())
    assert float(found.sum()) == pytest.approx(1)
    assert found.tolist() == pytest.approx(
        priority_weights_by_hand(confusions, norm, sigma).tolist(), abs=1e-12
    )


def test_with_equal_errors_weights_go_by_accuracy_and_hits_of_the_priority_class() -> None:
    # The same rates everywhere, but client 1 was judged on ten times as many samples.
    one = torch.tensor([[6, 4], [2, 8]])
    found = _weights(_counts(torch.stack([one, 10 * one])))
    assert found.tolist() == pytest.approx([1 / 11, 10 / 11])


def test_equal_sums_that_differ_in_their_last_bits_are_all_kept() -> None:
    errors = torch.tensor([[0.4, 0.3], [0.3, 0.4], [0.1 + 0.2 + 0.4, 0.0]], dtype=torch.float64)
    counts = _counts([[[3, 1], [1, 3]]] * 3)
    assert (priority_weights(counts, errors, 1.0) > 0).all()


@pytest.mark.parametrize("second", [0.3, 0.1 + 0.2])  # the other one is larger in its last bit
def test_of_equal_classes_the_first_has_priority(second: float) -> None:
    counts = _counts([[[5, 1], [1, 2]], [[2, 1], [1, 5]]])
    errors = torch.tensor([[0.3, second]] * 2, dtype=torch.float64)
    accuracy = (5 / 6 + 2 / 3, 2 / 3 + 5 / 6)
    expected = torch.tensor([accuracy[0] * 5, accuracy[1] * 2])
    assert priority_weights(counts, errors, 1.0).tolist() == pytest.approx(
        (expected / expected.sum()).tolist()
    )


def test_a_client_without_errors_takes_all_weight_unless_there_is_a_floor() -> None:
    counts = _counts([[[5, 0], [0, 5]], [[4, 1], [1, 4]], [[4, 1], [1, 4]]])
    errors = error_scores(counts, "round", 0.3, 0.2)
    assert float(priority_weights(counts, errors, 2.0)[0]) > 0.999
    assert float(priority_weights(counts, errors, 2.0, floor=0.5)[0]) < 0.95


@pytest.mark.parametrize("norm", ["client", "round"])
def test_clients_without_any_error_are_weighed_by_their_hits_of_the_first_class(norm: str) -> None:
    counts = _counts([[[5, 0], [0, 1]], [[15, 0], [0, 2]]])  # no error: every class has the largest one
    assert _weights(counts, norm).tolist() == pytest.approx([0.25, 0.75])


def test_a_class_that_no_worker_holds_counts_by_its_false_alarms_alone() -> None:
    # Class 2 is held by nobody, and client 1 predicts it three times.
    counts = _counts([[[4, 1, 0], [1, 4, 0], [0, 0, 0]], [[3, 0, 2], [0, 4, 1], [0, 0, 0]]])
    errors = error_scores(counts, "client", 0.3, 0.2)
    # Client 0: FNR (.2, .2, -), FPR (1/5, 1/5, 0/10); client 1: FNR (.4, .2, -), FPR (0, 0, 3/10).
    assert errors.flatten().tolist() == pytest.approx([0.5, 0.5, 0, 0.3, 0.15, 0.2])
    # Sums 1 and .65, class 0 has priority with .8 in all: 1.6 * 4 / 1 and 1.4 * 3 / .65.
    scores = (1.6 * 4, 1.4 * 3 / 0.65)
    found = priority_weights(counts, errors, 2.0).tolist()
    assert found == pytest.approx([score / sum(scores) for score in scores])


def test_a_threshold_that_nobody_meets_keeps_the_client_of_least_error() -> None:
    counts = _counts([[[4, 1], [1, 4]], [[3, 2], [2, 3]]])
    assert _weights(counts, "round", sigma=0.1).tolist() == [1, 0]


@pytest.mark.parametrize("first", [0.3, 0.1 + 0.2])
def test_of_equal_clients_that_miss_the_threshold_the_first_is_kept(first: float) -> None:
    counts = _counts([[[3, 1], [1, 3]]] * 2)
    errors = torch.tensor([[first, 0], [0.3, 0]], dtype=torch.float64)
    assert priority_weights(counts, errors, 0.5).tolist() == [1, 0]


def test_clients_that_are_always_wrong_share_the_weight() -> None:
    assert _weights(_counts([[[0, 3], [3, 0]], [[0, 2], [2, 0]]])).tolist() == [0.5, 0.5]


def test_a_collapsed_client_takes_all_weight_by_the_printed_rule_and_none_by_that_of_the_round() -> None:
    """Spec 2.6.28: nine clients of recall 0.9 and one that always predicts one class."""
    good = 90 * torch.eye(10) + (torch.ones(10, 10) - torch.eye(10)) * (10 / 9)
    collapsed = torch.zeros(10, 10)
    collapsed[:, 0] = 100
    counts = _counts(torch.stack([good] * 9 + [collapsed]))
    errors = error_scores(counts, "client", 0.3, 0.2).sum(1)
    assert float(errors[0]) == pytest.approx(5.0)
    assert float(errors[9]) == pytest.approx(2.9)
    assert _weights(counts).tolist() == [0] * 9 + [1]
    assert float(_weights(counts, "round")[9]) == 0


def _exchange(cohort: list[int], clients: int, round: int = 0, seed: int = 0) -> Exchange:
    count = torch.ones(len(cohort))
    replies = Replies(torch.tensor(cohort), count, {}, {}, {}, count)
    return Exchange({}, replies, count, clients, round=round, seed=seed, part="prioritised_weighting")


@pytest.mark.parametrize(("workers", "clients"), [(1, 12), (3, 12), (15, 12), (12, 12), (4, 3), (7, 100)])
def test_every_model_has_its_own_client_and_others_as_workers(workers: int, clients: int) -> None:
    cohort = [0, 1, 2]
    pairs = draw_workers(_exchange(cohort, clients), workers)
    for place, client in enumerate(cohort):
        judges = [pair.client for pair in pairs if pair.model == place]
        assert judges[0] == client
        assert len(judges) == len(set(judges)) == min(workers, clients)


def test_clients_outside_the_cohort_work_once_each_before_anybody_works_twice() -> None:
    pairs = draw_workers(_exchange([0, 1, 2], 12), 4)  # nine others, nine places
    others = [pair.client for pair in pairs if pair.client not in (0, 1, 2)]
    assert sorted(others) == list(range(3, 12))


def test_with_all_clients_in_the_cohort_they_judge_each_other() -> None:
    everyone = list(range(8))
    pairs = draw_workers(_exchange(everyone, 8), 3)
    for client in everyone:
        own, *others = [pair.client for pair in pairs if pair.model == client]
        assert own == client
        assert len({*others} - {client}) == 2


def test_the_draw_goes_by_seed_round_and_client() -> None:
    first = draw_workers(_exchange([0, 5], 50), 4)
    assert draw_workers(_exchange([0, 5], 50), 4) == first
    assert draw_workers(_exchange([0, 5], 50, round=1), 4) != first
    assert draw_workers(_exchange([0, 5], 50, seed=1), 4) != first


def test_a_run_uses_the_weights_that_the_counts_give_and_charts_them() -> None:
    spec = ["fedavg", {"prioritised_weighting": {"workers": 3}}]
    sim, plain = simulate(spec), simulate("fedavg")
    state, _ = ask_clients(sim, sim.open(), [1, 3, 4])
    shown = sim.diagnostics(state)["diagnostics"]["prioritised_weighting"]
    weights = torch.tensor(shown["weights"])
    assert weights[[0, 2, 5]].tolist() == [0, 0, 0]
    assert float(weights.sum()) == pytest.approx(1)
    start = plain.open()
    models = [ask_clients(plain, start, [client])[0].params for client in (1, 3, 4)]
    for name, found in state.params.items():
        expected = sum(float(weights[k]) * m[name] for k, m in zip((1, 3, 4), models, strict=True))
        assert torch.allclose(found, torch.as_tensor(expected), atol=1e-12)


def test_weights_are_recorded_in_every_round_and_errors_where_it_is_scored() -> None:
    sim = simulate(["fedavg", "prioritised_weighting"], rounds=4)
    rows = [ended.row for [ended] in drive([sim], [sim.open()], evaluate_every=2)]
    charts = [row["diagnostics"]["prioritised_weighting"] for row in rows]
    assert [sum(chart["weights"]) for chart in charts] == pytest.approx([1.0] * 4)
    assert ["errors" in chart for chart in charts] == [False, True, False, True]


def test_a_federation_without_held_out_samples_and_a_cohort_of_all_are_finite() -> None:
    federation = replace(unequal_federation(), held_out=())
    sim = simulate(["fedavg", "prioritised_weighting"], federation=federation, cohort=None)
    state = run_rounds(sim)
    assert all(bool(p.isfinite().all()) for p in state.params.values())
