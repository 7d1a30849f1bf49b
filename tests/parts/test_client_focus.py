"""Fed-Focal Loss: clients with more errors on their own classes count for more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import altered, ask_clients, distance, run_rounds, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.core.local import Local
from counterpoise.core.messages import Replies
from counterpoise.core.tree import mix
from counterpoise.errors import ConfigError
from counterpoise.parts.client_focus import focused, mean_recall
from counterpoise.run.simulation import Simulation

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=10)


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_however_few_are_kept_one_is() -> None:
    assert focused(doubles(0.5, 0.5), doubles(0.9, 0.2), 1.0, 1e-10).tolist() == [0.0, 1.0]


def test_weights_by_hand() -> None:
    """Errors 1/2 and 1/4 of equal clients: 2 to 1; squared, 4 to 1."""
    half, scores = doubles(0.5, 0.5), doubles(0.5, 0.75)
    assert focused(half, scores, 1.0, 1.0).tolist() == pytest.approx([2 / 3, 1 / 3])
    assert focused(half, scores, 2.0, 1.0).tolist() == pytest.approx([4 / 5, 1 / 5])
    assert focused(doubles(0.2, 0.8), scores, 0.0, 1.0).tolist() == pytest.approx([0.2, 0.8])
    assert focused(doubles(0.2, 0.3, 0.5), doubles(0.9, 0.1, 0.5), 0.0, 0.5).tolist() == pytest.approx(
        [0, 3 / 8, 5 / 8]
    )


def test_mean_recall_by_hand() -> None:
    assert float(mean_recall(doubles(1, 0, 2), doubles(2, 0, 2))) == 0.75
    assert float(mean_recall(doubles(0, 0), doubles(0, 0))) == 1.0


def test_of_equal_clients_the_earlier_are_kept_and_clients_without_errors_count_alike() -> None:
    assert focused(doubles(0.25, 0.25, 0.25, 0.25), doubles(1, 1, 1, 1), 5.0, 0.5).tolist() == [
        0.5,
        0.5,
        0,
        0,
    ]


@settings(deadline=None, max_examples=80)
@given(SCORES, st.floats(0, 1e4), st.floats(0.01, 1), st.integers(0, 2**31))
def test_weights_sum_to_one_and_weaker_clients_gain(
    scores: list[float], focus: float, keep: float, seed: int
) -> None:
    stream = torch.Generator().manual_seed(seed)
    weights = torch.rand(len(scores), generator=stream, dtype=torch.float64) + 0.1
    weights = weights / weights.sum()
    found = focused(weights, doubles(*scores), focus, keep)
    assert float(found.sum()) == pytest.approx(1)
    gain = (found / weights).numpy()
    order = np.argsort(scores, kind="stable")
    assert (np.diff(gain[order]) <= 1e-9 * gain.max()).all()
    assert (gain[order][int(np.ceil(keep * len(scores) - 1e-9)) :] == 0).all()


def test_a_round_by_other_means() -> None:
    """One step each: scores are of the received model, on the client's own samples."""
    spec, local = ["fedavg", {"client_focus": {"focus": 2.0, "keep": 0.6}}], Local(lr=0.1, batch_size=64)
    sim, plain = simulate(spec, local=local), simulate("fedavg", local=local)
    state, clients = sim.open(), [0, 1, 2, 3, 4]
    federation, module = sim.work.federation, sim.module(state)
    scores = []
    for rows in (federation.clients[k] for k in clients):
        y = federation.train.y[rows].numpy()
        said = module(federation.train.x[rows]).argmax(1).numpy()
        scores.append(np.mean([np.mean(said[y == c] == c) for c in set(y.tolist())]))
    weak = np.argsort(scores, kind="stable")[:3]
    shares = np.zeros(5)
    shares[weak] = [len(federation.clients[k]) * (1 - scores[k]) ** 2 for k in weak]
    deltas = [ask_clients(plain, state, [k])[0].params for k in clients]
    stacked = {name: torch.stack([one[name] for one in deltas]) for name in state.params}
    after, _ = ask_clients(sim, state, clients)
    assert distance(after.params, mix(torch.tensor(shares / shares.sum()), stacked)) < 1e-12
    assert after.slots["client_focus"]["scores"].tolist() == pytest.approx([*scores, 0])


def test_a_recall_below_0_counts_as_0() -> None:
    def claiming(score: float) -> Simulation:
        def alter(found: Replies) -> Replies:
            claimed = torch.full_like(found.upload["client_focus"]["score"], 0.5)
            claimed[-1] = score
            return found._replace(upload={"client_focus": {"score": claimed}})

        return altered(simulate(["fedavg", "client_focus"], cohort=None), alter)

    ends = [sim.advance(sim.open())[0] for sim in (claiming(-1e9), claiming(0.0))]
    assert distance(ends[0].params, ends[1].params) == 0
    assert ends[0].slots["client_focus"]["scores"].min() == 0


def test_the_loss_and_the_choice_are_two_parts() -> None:
    together = simulate({"fedfocal": {"gamma": 1.5, "focus": 0.7, "keep": 0.9}})
    composed = simulate([{"focal": {"gamma": 1.5}}, {"client_focus": {"focus": 0.7, "keep": 0.9}}])
    assert distance(run_rounds(together).params, run_rounds(composed).params) == 0
    loss_alone, focal = simulate({"fedfocal": {"focus": 0.0}}), simulate(["fedavg", "focal"])
    assert distance(run_rounds(loss_alone).params, run_rounds(focal).params) < 1e-14


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="keep must be a number"):
        simulate({"fedfocal": {"keep": 0.0}})
