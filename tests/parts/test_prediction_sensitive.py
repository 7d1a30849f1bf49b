"""FedSat's costs of wrong predictions, by hand and in a round."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import (
    CLASSES,
    LOOP,
    STACKED,
    ask_clients,
    distance,
    run_rounds,
    simulate,
    unequal_federation,
)

from counterpoise.core.local import Local
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.parts.prediction_sensitive import pair_costs, prediction_sensitive


def test_costs_run_from_lowest_to_highest_off_the_diagonal() -> None:
    confused = torch.tensor([[50.0, 4, 0], [2, 60, 1], [0, 3, 70]])
    expected = [[1, 2, 1], [1.5, 1, 1.25], [1, 1.75, 1]]
    assert pair_costs(confused, 1.0, 2.0).tolist() == expected
    assert pair_costs(confused, 2.0, 4.0)[0].tolist() == [1, 4, 2]


def test_equal_counts_cost_the_lowest() -> None:
    assert pair_costs(torch.full((3, 3), 7.0), 1.5, 2.0).fill_diagonal_(1.5).unique().tolist() == [1.5]
    assert pair_costs(torch.zeros(3, 3), 1.0, 2.0).unique().tolist() == [1]


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_two_steps_of_a_client_follow_the_rule(engine: EngineSettings) -> None:
    """Client 3 has 30 samples: an epoch of one batch, twice; the second sees the first one's counts."""
    federation = unequal_federation()
    local = Local(lr=0.3, batch_size=30, epochs=2, batching="pad")
    sim = simulate(["fedavg", "prediction_sensitive"], local=local, engine=engine, federation=federation)
    before = sim.open()
    after, _ = ask_clients(sim, before, [3])
    rows, held = federation.clients[3], federation.held_out[3]
    x, y = federation.train.x[rows], federation.train.y[rows]

    def logits(params: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(sim.work.model.module, params, (x,))

    confused = torch.zeros(CLASSES, CLASSES, dtype=torch.float64)
    for true, said in zip(
        federation.train.y[held], logits(before.params, federation.train.x[held]).argmax(1), strict=True
    ):
        confused[true, said] += 1
    params = before.params
    for _ in range(2):
        leaves = {name: p.clone().requires_grad_() for name, p in params.items()}
        z = logits(leaves, x)
        off = confused[~torch.eye(CLASSES, dtype=torch.bool)]
        spread = float(off.max() - off.min())
        cost = torch.ones(len(y), dtype=torch.float64)
        for i, (true, said) in enumerate(zip(y.tolist(), z.argmax(1).tolist(), strict=True)):
            if true != said and spread:
                cost[i] = 1 + float(confused[true, said] - off.min()) / spread
        loss = (cost * F.cross_entropy(z, y, reduction="none")).mean()
        grads = torch.autograd.grad(loss, list(leaves.values()))
        params = {n: p - 0.3 * g for (n, p), g in zip(params.items(), grads, strict=True)}
        for true, said in zip(y.tolist(), z.argmax(1).tolist(), strict=True):
            confused[true, said] += 1
    assert distance(after.params, params) < 1e-12


def test_equal_costs_are_the_plain_loss_and_it_goes_with_any_other() -> None:
    plain = simulate(["fedavg", "balanced_softmax"])
    same = simulate(["fedavg", "balanced_softmax", {"prediction_sensitive": {"highest": 1.0}}])
    other = simulate(["fedavg", "balanced_softmax", "prediction_sensitive"])
    expected = run_rounds(plain).params
    assert distance(run_rounds(same).params, expected) < 1e-12
    assert distance(run_rounds(other).params, expected) > 1e-4


def test_costs_that_run_backwards_are_refused() -> None:
    with pytest.raises(ConfigError, match="lowest must be at most highest = 1, not 2"):
        prediction_sensitive(lowest=2.0, highest=1.0)
