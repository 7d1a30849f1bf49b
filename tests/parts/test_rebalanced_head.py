"""RedGrape: two heads learn together, and the shared one is turned towards balance."""

from __future__ import annotations

import pytest
import torch
from federations import ask_clients, distance, run_rounds, simulate, small_model, unequal_federation
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from counterpoise.core.local import Local
from counterpoise.core.rng import generator
from counterpoise.core.tree import multiply, subtract
from counterpoise.parts.class_gradients import take_of_each
from counterpoise.parts.rebalanced_head import as_long_as, balanced_gradient, balanced_set
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState


def doubles(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_balanced_gradient_by_hand() -> None:
    """Two classes, one feature, a head of zeros: the error of class 0 is (-1/2, 1/2), so its gradient is that times (f, 1)."""
    own = {"samples": doubles([[[2.0], [4.0]], [[0.0], [0.0]]]), "enough": doubles([1.0, 0.0])}
    far = doubles([[[9.0, 9.0], [9.0, 9.0]], [[1.0, -1.0], [3.0, 5.0]]])
    head = torch.zeros(2, 2, dtype=torch.float64)
    here = [[-1.5, -0.5], [1.5, 0.5]]
    found = balanced_gradient(head, own, {"prototypes": far, "known": doubles([0.0, 1.0])})
    assert found.tolist() == [[(-1.5 + 1) / 2, (-0.5 - 1) / 2], [(1.5 + 3) / 2, (0.5 + 5) / 2]]
    alone = balanced_gradient(head, own, {"prototypes": far, "known": doubles([0.0, 0.0])})
    assert alone.tolist() == here
    none = own | {"enough": doubles([0.0, 0.0])}
    assert balanced_gradient(head, none, {"prototypes": far, "known": doubles([1.0, 1.0])}).tolist() == [
        [5, 4],
        [6, 7],
    ]


def test_a_direction_takes_the_length_of_another() -> None:
    assert as_long_as(doubles([3.0, 4.0]), doubles([0.0, 10.0])).tolist() == [6, 8]
    assert as_long_as(doubles([0.0, 0.0]), doubles([1.0, 0.0])).tolist() == [0, 0]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 6), st.integers(0, 2**31))
def test_a_balanced_set_holds_equally_many_of_each_class_that_has_so_many(
    classes: list[int], samples: int, seed: int
) -> None:
    labels = torch.tensor(classes)
    features = torch.stack([labels.double() + 1, torch.arange(len(labels)).double()], 1)
    found = balanced_set(features, labels, 4, samples, torch.Generator().manual_seed(seed))
    for c in range(4):
        enough = classes.count(c) >= samples
        assert bool(found["enough"][c]) == enough
        assert found["samples"][c, :, 0].tolist() == [(c + 1) * enough] * samples
        assert not enough or len(set(found["samples"][c, :, 1].tolist())) == samples


def test_without_strength_two_heads_on_the_inputs_are_one_at_twice_the_rate() -> None:
    """No body: W and V get the same gradient, so W + V moves as a single head at rate 2 lr, and W by half of it."""
    model = {"hidden": [], "activation": "tanh"}
    local, twice = (Local(lr=rate, batch_size=12, epochs=2) for rate in (0.1, 0.2))
    two = simulate({"redgrape": {"strength": 0.0}}, model=small_model("mlp", **model), local=local)
    one = simulate("fedavg", model=small_model("mlp", **model), local=twice)
    first = two.open()
    found, wanted = (ask_clients(sim, sim.open(), [0, 1, 3])[0] for sim in (two, one))
    half = multiply(subtract(wanted.params, first.params), 0.5)
    assert distance(subtract(found.params, first.params), half) < 1e-13


def train_by_autograd(
    sim: Simulation,
    state: ServerState,
    client: int,
    private: list[Tensor],
    known: dict[int, Tensor],
    steps: int,
) -> tuple[nn.Module, list[Tensor], dict[int, Tensor]]:
    """The client's model and private head after steps on all its samples, and what it sends of each class."""
    federation, module = sim.work.federation, sim.module(state)
    rows = federation.clients[client]
    x, y = federation.train.x[rows], federation.train.y[rows]
    received = module.features(x).detach()  # type: ignore[operator]
    head: nn.Linear = module.head  # type: ignore[assignment]

    def of_head(places: Tensor) -> Tensor:
        """At the head as it is now, on features as they were received."""
        loss = nn.functional.cross_entropy(head(received[places]), y[places])
        w, b = torch.autograd.grad(loss, [head.weight, head.bias])
        return torch.cat([w, b.unsqueeze(1)], 1)

    sent = {c: of_head(torch.nonzero(y == c).flatten()) for c in sorted(set(y.tolist()))}
    stream = generator(sim.seed, "prepare rebalanced_head", state.round, client)
    places = take_of_each(y, 4, stream)
    near = [c for c in sent if int((y == c).sum()) >= 4]
    others = [known[c] for c in known if c not in near]
    share = len(near) / 4 if others else 1.0
    for _ in range(steps):
        at_hand = [of_head(places[y[places] == c]) for c in near]
        balanced = torch.zeros(4, 7, dtype=torch.float64)
        balanced = balanced + (share * sum(at_hand) / len(near) if near else 0)
        balanced = balanced + ((1 - share) * sum(others) / len(others) if others else 0)
        v = [p.clone().requires_grad_() for p in private]
        features = module.features(x)  # type: ignore[operator]
        loss = nn.functional.cross_entropy(module(x) + features @ v[0].T + v[1], y)
        names = [name for name, _ in module.named_parameters()]
        grads = torch.autograd.grad(loss, [*module.parameters(), *v])
        for name, slope in zip(names, grads, strict=False):
            turn: Tensor | float = 0.0
            if known and name.startswith("head."):
                piece = balanced[:, :-1] if name.endswith("weight") else balanced[:, -1]
                turn = 0.3 * slope.norm() * piece / piece.norm()
            module.get_parameter(name).data -= 0.2 * (slope + turn)
        private = [p.detach() - 0.2 * g for p, g in zip(v, grads[-2:], strict=True)]
    return module, private, sent


@pytest.mark.parametrize("steps", [1, 3])
def test_three_rounds_by_autograd(steps: int) -> None:
    local = Local(lr=0.2, batch_size=64, epochs=steps)  # an epoch is one batch
    sim = simulate({"redgrape": {"strength": 0.3, "samples": 4}}, local=local)
    state, known = sim.open(), dict[int, Tensor]()
    zero = [torch.zeros(4, 6, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)]
    private = dict.fromkeys(range(6), zero)
    for clients in ([2, 4], [0, 2], [2, 5]):  # class 1 is unknown to the second round's client 2
        done = {k: train_by_autograd(sim, state, k, private[k], known, steps) for k in clients}
        state, _ = ask_clients(sim, state, clients)
        sizes = [len(sim.work.federation.clients[k]) for k in clients]
        for name, parameter in state.params.items():
            models = [done[k][0].get_parameter(name) for k in clients]
            mean = sum(n * m for n, m in zip(sizes, models, strict=True)) / sum(sizes)
            assert torch.allclose(parameter, mean, atol=1e-12), name
        for c in range(4):
            of = [done[k][2][c] for k in clients if c in done[k][2]]
            known |= {c: sum(of) / len(of)} if of else {}
        slot = state.slots["rebalanced_head"]
        assert slot["known"].tolist() == [c in known for c in range(4)]
        assert all(torch.allclose(slot["prototypes"][c], g, atol=1e-12) for c, g in known.items())
        for k in clients:
            private[k] = done[k][1]
            kept = sim.engine.memory[k]["rebalanced_head"]
            assert torch.allclose(kept["weight"], private[k][0], atol=1e-12)
            assert torch.allclose(kept["bias"], private[k][1], atol=1e-12)


def test_the_first_round_knows_no_other_client_and_turns_nothing() -> None:
    strong, weak = (simulate({"redgrape": {"strength": s}}) for s in (5.0, 0.0))
    first, same = run_rounds(strong, rounds=1), run_rounds(weak, rounds=1)
    assert distance(first.params, same.params) == 0
    assert distance(run_rounds(strong, first, 1).params, run_rounds(weak, same, 1).params) > 1e-3


@pytest.mark.parametrize("client", [0, 4])
def test_a_clients_own_model_is_the_sum_of_both_heads(client: int) -> None:
    sim = simulate("redgrape")
    state, _ = ask_clients(sim, sim.open(), [client])
    memory = sim.engine.memory[client]["rebalanced_head"]
    own = sim.method.parts[0].own
    assert own is not None
    params, _ = own(state.params, {}, memory)
    x = unequal_federation().test.x
    features = sim.module(state).features(x)  # type: ignore[operator]
    wanted = sim.module(state)(x) + features @ memory["weight"].T + memory["bias"]
    assert torch.allclose(features @ params["head.weight"].T + params["head.bias"], wanted, atol=1e-12)
