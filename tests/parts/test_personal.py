"""Models of clients' own: Ditto and FedRoD by their rules, and how they are scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
    small_model,
    unequal_federation,
)
from runs import tiny

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import ConfigError
from counterpoise.metrics.scoring import Scoring, count
from counterpoise.metrics.shots import shots_by_rule
from counterpoise.run.runner import start
from counterpoise.run.simulation import Simulation

PERSONAL: tuple[MethodSpec, ...] = ("ditto", "fedrod")
WHOLE = Local(lr=0.2, batch_size=50, batching="pad")  # client 3 has 30 samples: one batch per round


def _own(sim: Simulation, client: int, part: str) -> Tree:
    return sim.engine.memory[client][part]


def _gradient(sim: Simulation, params: Params, client: int) -> Params:
    """Of the mean cross-entropy on all of a client's samples, by autograd."""
    rows = sim.work.federation.clients[client]
    x, y = sim.work.federation.train.x[rows], sim.work.federation.train.y[rows]
    given = {name: p.clone().requires_grad_() for name, p in params.items()}
    loss = F.cross_entropy(torch.func.functional_call(sim.work.model.module, given, (x,)), y)
    return dict(zip(given, torch.autograd.grad(loss, list(given.values())), strict=True))


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
@pytest.mark.parametrize("pull", [0.0, 0.5, 2.0])
def test_ditto_follows_its_rule_in_two_rounds(pull: float, engine: object) -> None:
    sim = simulate({"ditto": {"pull": pull}}, local=WHOLE, engine=engine)  # type: ignore[arg-type]
    shared = [sim.open()]
    for _ in range(2):
        shared.append(ask_clients(sim, shared[-1], [1, 3])[0])
    own = shared[0].params
    for state in shared[:2]:
        grads = _gradient(sim, own, 3)
        own = {n: v - 0.2 * (grads[n] + pull * (v - state.params[n])) for n, v in own.items()}
    assert distance(_own(sim, 3, "personal_model")["params"], own) < 1e-12


def test_the_shared_model_of_ditto_is_that_of_fedavg() -> None:
    ditto, fedavg = simulate("ditto"), simulate("fedavg")
    assert distance(run_rounds(ditto).params, run_rounds(fedavg).params) < 1e-12


def test_ditto_without_a_pull_is_training_alone() -> None:
    sim, alone = simulate({"ditto": {"pull": 0.0}}), simulate("fedavg")
    state = sim.open()
    for clients in ([1, 2], [2, 3], [1, 2]):
        state, _ = ask_clients(sim, state, clients)
    once = simulate({"ditto": {"pull": 0.0}})
    single = once.open()
    for _ in range(3):  # client 2 was asked in every round, here beside nobody
        single, _ = ask_clients(once, single, [2])
    alone_state = alone.open()
    for _ in range(3):
        alone_state, _ = ask_clients(alone, alone_state, [2])
    own = _own(sim, 2, "personal_model")["params"]
    assert distance(own, _own(once, 2, "personal_model")["params"]) == 0
    assert distance(own, alone_state.params) < 1e-12


def test_a_personal_model_keeps_running_statistics_of_its_own() -> None:
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    model = small_model("mlp", hidden=[6], norm="batch")
    sim = simulate({"ditto": {"pull": 0.0}}, model=model, local=local)
    state, _ = ask_clients(sim, sim.open(), [1, 3])
    state, _ = ask_clients(sim, state, [1, 3])
    single = simulate("fedavg", model=small_model("mlp", hidden=[6], norm="batch"), local=local)
    alone, _ = ask_clients(single, single.open(), [3])
    alone, _ = ask_clients(single, alone, [3])
    kept = _own(sim, 3, "personal_model")
    assert distance(kept["buffers"], alone.buffers) < 1e-12
    assert distance(kept["params"], alone.params) < 1e-12
    assert distance(kept["buffers"], state.buffers) > 1e-3


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_a_private_head_follows_the_gradient_of_its_own_loss(engine: object) -> None:
    sim = simulate("fedrod", local=WHOLE, engine=engine)  # type: ignore[arg-type]
    states = [sim.open()]
    for _ in range(2):
        states.append(ask_clients(sim, states[-1], [1, 3])[0])
    rows, module = sim.work.federation.clients[3], sim.work.model
    x, y = sim.work.federation.train.x[rows], sim.work.federation.train.y[rows]
    weight, bias = torch.zeros(CLASSES, 6, dtype=torch.float64), torch.zeros(CLASSES, dtype=torch.float64)
    for state in states[:2]:
        said, _ = module.apply(state.params, state.buffers, x, train=False)
        leaves = [weight.requires_grad_(), bias.requires_grad_()]
        loss = F.cross_entropy(said.logits + said.features @ leaves[0].t() + leaves[1], y)
        by = torch.autograd.grad(loss, leaves)
        weight, bias = (p.detach() - 0.2 * g for p, g in zip(leaves, by, strict=True))
    assert distance(_own(sim, 3, "private_head"), {"weight": weight, "bias": bias}) < 1e-12


def test_the_shared_model_of_fedrod_is_that_of_balanced_softmax() -> None:
    both = simulate("fedrod"), simulate(["fedavg", "balanced_softmax"])
    assert distance(run_rounds(both[0]).params, run_rounds(both[1]).params) < 1e-12


@pytest.mark.parametrize("spec", PERSONAL, ids=str)
def test_own_models_are_scored_where_each_client_would_use_them(spec: MethodSpec) -> None:
    sim = simulate(spec, local=Local(lr=1.0, batch_size=12))
    state = run_rounds(sim)
    federation, part = sim.work.federation, sim.method.owner("own")
    assert part is not None
    assert part.own is not None
    sums = sim.engine.measure_own([0, 3], state.params, state.buffers, count)
    for place, client in enumerate([0, 3]):
        params, buffers = part.own(state.params, state.buffers, _own(sim, client, part.name))
        held = federation.train.take(federation.held_out[client])
        said, _ = sim.work.model.apply(params, buffers, held.x, train=False)
        expected = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
        for true, found in zip(held.y.tolist(), said.logits.argmax(1).tolist(), strict=True):
            expected[true, found] += 1
        assert torch.equal(sums["confusion"][place].long(), expected)


@pytest.mark.parametrize("spec", PERSONAL, ids=str)
def test_a_client_that_never_trained_would_use_the_shared_model(spec: MethodSpec) -> None:
    sim = simulate(spec)
    state, _ = ask_clients(sim, sim.open(), [1, 3])
    shared = simulate("fedavg").engine.measure_own([0, 2], state.params, state.buffers, count)
    assert distance(sim.engine.measure_own([0, 2], state.params, state.buffers, count), shared) == 0


def test_evaluation_lists_every_client_with_mean_worst_best_and_deviation() -> None:
    federation = unequal_federation()
    shots = shots_by_rule(federation.counts().sum(0).tolist())
    scoring = Scoring(shots, federation.classes, clients=True, personal=True)
    sim = replace(simulate("ditto", federation=federation), scoring=scoring)
    scores = sim.evaluate(run_rounds(sim))
    for which in ("clients", "personal"):
        found = scores[which]
        each = found["client_balanced_accuracy"]
        assert found["client"] == list(range(6))
        assert found["client_held_out"] == [3] * 6
        assert found["best_client_balanced_accuracy"] == max(each)
        assert each[found["best_client"]] == max(each)
        assert found["worst_client_balanced_accuracy"] == min(each)
        assert found["mean_client_balanced_accuracy"] == pytest.approx(sum(each) / 6)
        spread = (sum((one - sum(each) / 6) ** 2 for one in each) / 6) ** 0.5
        assert found["client_deviation"] == pytest.approx(spread)
    mean = scores["personal"]["mean_client_balanced_accuracy"]
    assert scores["personal_balanced_accuracy"] == mean


def test_personal_scores_need_what_clients_hold_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"evaluate\.personal needs samples that clients hold out"):
        start(tiny("evaluate.personal=true"), tmp_path / "run")
