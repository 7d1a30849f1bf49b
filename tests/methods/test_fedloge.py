"""FedLoGe: its frame, one round by autograd, what is scored, and what a client would use itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import CLASSES, ask_clients, distance, run_rounds, simulate, unequal_federation
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast
from counterpoise.core.method import PARTS, build_method, compose
from counterpoise.core.part import Part, Step
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree
from counterpoise.metrics.scoring import count
from counterpoise.models.sparse_frame import SparseFrame
from counterpoise.parts.aligned import BIAS, NEVER, SHOWN, WEIGHT
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

WHOLE = Local(lr=0.2, batch_size=50, batching="pad")  # client 3 has 30 samples: one batch per round
OWNED = (1, 2, 3)  # classes of client 3


def _frame(classes: int, features: int) -> Tensor:
    frame = SparseFrame(features, classes)
    frame.draw(generator(0, "frame"))
    assert frame.is_frame()
    return frame.weight.detach().double()


@pytest.mark.parametrize(("classes", "features"), [(2, 2), (4, 6), (10, 64), (100, 512)])
def test_rows_are_equally_long_and_sparse(classes: int, features: int) -> None:
    weight = _frame(classes, features)
    assert torch.allclose(weight.norm(dim=1), torch.tensor(0.1).double(), atol=1e-4)
    assert int((weight == 0).sum(1).min()) >= int(0.6 * features)


@pytest.mark.parametrize(("classes", "features"), [(10, 64), (10, 512), (50, 512)])
def test_rows_are_nearly_as_far_apart_as_they_can_be(classes: int, features: int) -> None:
    unit = F.normalize(_frame(classes, features), dim=1)
    largest = (unit @ unit.t()).fill_diagonal_(-1).max()
    assert float(largest) < 0.8 * -1 / (classes - 1)  # of equally distant vectors: -1 / (C - 1)


def _one_round() -> tuple[Simulation, ServerState, ServerState]:
    sim = simulate("fedloge", local=WHOLE)
    state = sim.open()
    after, _ = ask_clients(sim, state, [3])
    return sim, state, after


def test_one_round_by_autograd() -> None:
    sim, before, after = _one_round()
    rows, frame = sim.work.federation.clients[3], sim.work.model.frozen()["head.frame.weight"]
    x, y = sim.work.federation.train.x[rows], sim.work.federation.train.y[rows]
    given = {name: p.clone().requires_grad_() for name, p in before.params.items()}
    features = torch.tanh(x @ given["body.1.weight"].t() + given["body.1.bias"])
    losses = F.cross_entropy(features @ frame.t(), y)
    losses = losses + F.cross_entropy(features.detach() @ given[WEIGHT].t() + given[BIAS], y)
    grads = torch.autograd.grad(losses, list(given.values()))
    expected = {name: p - 0.2 * g for (name, p), g in zip(before.params.items(), grads, strict=True)}
    assert distance(after.params, expected) < 1e-12
    kept = sim.engine.memory[3]["realigned_heads"]
    # A private head begins as the shared one, so its first step is the same.
    assert (
        distance({"w": kept["weight"], "b": kept["bias"]}, {"w": expected[WEIGHT], "b": expected[BIAS]})
        < 1e-12
    )
    assert kept["present"].tolist() == [float(c in OWNED) for c in range(CLASSES)]


def _step_of_aux(spec: Any, local: Local) -> tuple[Tensor, Tensor]:
    """What one step with this does to `aux` beyond a plain one, and `aux` before it."""
    ends = []
    for method, settings in (("fedloge", WHOLE), (spec, local)):
        sim = simulate(method, local=settings)
        state = sim.open()
        ends.append(ask_clients(sim, state, [3])[0].params[WEIGHT])
    return ends[1] - ends[0], state.params[WEIGHT]


@pytest.mark.parametrize("decoupled", [False, True])
def test_weight_decay_acts_on_the_shared_head(decoupled: bool) -> None:
    found, before = _step_of_aux("fedloge", replace(WHOLE, weight_decay=0.5, decoupled=decoupled))
    assert torch.allclose(found, -0.2 * 0.5 * before, atol=1e-14)


def _twice_the_model() -> Part:
    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return {name: grad + 2 * step.params[name] for name, grad in grads.items()}, slot

    return Part("twice_the_model", adjust=adjust)


@pytest.mark.parametrize("first", [True, False])
def test_what_other_parts_add_reaches_the_shared_head_in_either_order(first: bool) -> None:
    parts = [_twice_the_model(), PARTS.build("realigned_heads")]
    method = compose(build_method("fedavg"), *(parts if first else reversed(parts)))
    found, before = _step_of_aux(method, WHOLE)
    assert torch.allclose(found, -0.2 * 2 * before, atol=1e-14)


def test_a_private_head_stays_on_its_client() -> None:
    sim, _, after = _one_round()
    first = sim.engine.memory[3]["realigned_heads"]["weight"]
    second, _ = ask_clients(sim, after, [1, 3])
    own = sim.engine.memory[3]["realigned_heads"]["weight"]
    assert distance({"w": own}, {"w": first}) > 1e-6
    assert distance({"w": own}, {"w": second.params[WEIGHT]}) > 1e-6
    assert sorted(sim.engine.memory) == [1, 3]


def test_scored_is_the_shared_head_with_equally_long_rows() -> None:
    sim, _, after = _one_round()
    params, buffers = sim.presented(after)
    unit = after.params[WEIGHT] / after.params[WEIGHT].norm(dim=1, keepdim=True)
    assert torch.allclose(params[WEIGHT], 1.7 * unit, atol=1e-12)
    x = sim.work.federation.test.x
    features = torch.tanh(x @ after.params["body.1.weight"].t() + after.params["body.1.bias"])
    logits = sim.work.model.load(params, buffers)(x).detach()
    assert torch.allclose(logits, features @ (1.7 * unit).t() + after.params[BIAS], atol=1e-12)
    assert after.buffers[SHOWN].tolist() == [0.0]
    assert torch.equal(sim.module(after)(x), sim.work.model.load(params, buffers)(x))


def test_while_it_trains_the_model_answers_by_its_frame() -> None:
    """What re-labelling looks at."""
    sim, _, after = _one_round()
    rows = sim.work.federation.clients[1]
    found = sim.work.outputs_on(Broadcast(1, 0.1, after.params, after.buffers, {}), rows)
    frame = sim.work.model.frozen()["head.frame.weight"]
    assert torch.allclose(found.logits, found.features @ frame.t(), atol=1e-12)


def test_a_clients_own_model_has_its_lengths_and_none_of_the_classes_it_lacks() -> None:
    sim, _, after = _one_round()
    part = sim.method.owner("own")
    assert part is not None
    assert part.own is not None
    memory = sim.engine.memory[3]["realigned_heads"]
    shown = sim.presented(after)
    params, buffers = part.own(*shown, memory)
    unit = after.params[WEIGHT] / after.params[WEIGHT].norm(dim=1, keepdim=True)
    assert torch.allclose(params[WEIGHT], memory["weight"].norm(dim=1, keepdim=True) * unit, atol=1e-12)
    assert float(params[BIAS][0]) == NEVER
    said = sim.work.model.load(params, buffers)(sim.work.federation.test.x).argmax(1)
    assert 0 not in said.tolist()
    assert part.own(*shown, {}) == shown  # a client that never trained


def test_own_models_are_scored() -> None:
    sim = simulate("fedloge", cohort=None)
    state = run_rounds(sim)
    sums = sim.engine.measure_own(range(6), *sim.presented(state), count)
    assert len(sums["cross_entropies"]) == 6


def test_it_re_labels_and_keeps_both_memories() -> None:
    sim = simulate(["fedloge", {"relabel": {"at": 1, "tau": 40.0}}], cohort=None)
    run_rounds(sim)
    assert set(sim.engine.memory[1]) == {"realigned_heads", "relabel"}
    labels = sim.engine.memory[1]["relabel"]["labels"]
    assert not torch.equal(labels, unequal_federation().client(1).labels)
