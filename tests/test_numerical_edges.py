"""The numerical edges of training, one named test or more for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import (
    CLASSES,
    LOOP,
    STACKED,
    all_state,
    altered,
    ask_clients,
    distance,
    every_spec,
    fingerprint,
    run_rounds,
    searches,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
    visit,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.client.plan import make_plan
from counterpoise.core.local import Batching, Local, cosine
from counterpoise.core.messages import Replies, average_buffers
from counterpoise.core.method import METHODS, PARTS, Method, MethodSpec, Weighting, build_method, compose
from counterpoise.core.part import Batch, ClientData, Exchange, Outputs, Part, Stats
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, leaves, mix
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.run.simulation import Simulation
from counterpoise.server.replies import weigh_replies

FROM_COUNTS = ["weighted_ce", "class_balanced", "balanced_softmax", "ldam"]


def _all_finite(tree: Tree) -> bool:
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves(tree))


@pytest.mark.parametrize(
    ("name", "weighting"),
    [("fedavgm", "samples"), ("fedlesam", "samples"), ("scaffold", "uniform"), ("fedprox", "samples")],
)
def test_without_a_past_the_first_step_of_the_first_round_is_fedavg(name: str, weighting: Weighting) -> None:
    local = Local(lr=0.1, batch_size=64)  # one step
    first, plain = simulate(name, local=local), simulate({"fedavg": {"weighting": weighting}}, local=local)
    found, _ = ask_clients(first, first.open(), range(6))
    expected, _ = ask_clients(plain, plain.open(), range(6))
    assert distance(found.params, expected.params) < 1e-15  # FedAvg's steps are taken in place


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_round_that_changes_nothing_is_a_round_and_leaves_finite_state(spec: MethodSpec) -> None:
    """The last round of a cosine schedule has a rate of 0, so every update is 0."""
    sim = simulate(spec, local=Local(lr=0.1, batch_size=12, schedule=cosine()))
    state = run_rounds(sim, rounds=2)
    state, outcome = sim.advance(state)
    assert outcome.lr == 0
    assert outcome.rejected == ()
    assert not outcome.skipped
    assert _all_finite(all_state(sim, state))


def test_a_gradient_of_zero_has_no_direction_and_breaks_nothing() -> None:
    federation = unequal_federation()
    federation.train.x.zero_()
    local = Local(lr=0.1, batch_size=12, clip=1e-3)
    model = small_model("mlp", hidden=[], activation="tanh")
    sim = simulate(["fedsam", "normalised_averaging"], federation=federation, model=model, local=local)
    assert _all_finite(all_state(sim, run_rounds(sim)))


@pytest.mark.parametrize("counts", ["local", "global"])
@pytest.mark.parametrize("name", FROM_COUNTS)
def test_a_class_that_no_client_has_breaks_nothing(name: str, counts: str) -> None:
    federation = unequal_federation()
    federation.train.y.clamp_(max=CLASSES - 2)
    sim = simulate(["fedavg", {name: {"counts": counts}}], federation=federation)
    _, outcome = sim.advance(sim.open())
    assert outcome.rejected == ()


@pytest.mark.parametrize("name", PARTS.names())
def test_a_client_of_one_class_and_one_of_one_sample_are_not_refused(name: str) -> None:
    sim = simulate(["fedavg", name])
    state, outcome = ask_clients(sim, sim.open(), [4, 5])
    assert outcome.rejected == ()
    assert _all_finite(all_state(sim, state))


@pytest.mark.parametrize("name", ["weighted_ce", "class_balanced", "balanced_softmax", "fedlc"])
def test_equal_class_counts_train_as_plain_cross_entropy_bit_for_bit(name: str) -> None:
    federation = unequal_federation(sizes=(40, 24))
    for rows in federation.clients:
        federation.train.y[rows] = torch.arange(len(rows)) % CLASSES
    balanced, plain = (
        simulate(["fedavg", name], federation=federation, cohort=2),
        simulate("fedavg", federation=federation, cohort=2),
    )
    found, expected = run_rounds(balanced), run_rounds(plain)
    assert distance(found.params, expected.params) == 0


def test_a_federation_without_samples_and_a_cohort_of_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="sample"):
        simulate("fedavg", federation=unequal_federation(sizes=(0, 0, 0)))
    for size in (0, -1):
        with pytest.raises(ConfigError, match=str(size)):
            simulate("fedavg", cohort=size)


def test_clients_without_samples_are_never_asked() -> None:
    sim = simulate("fedavg", federation=unequal_federation(sizes=(4, 0, 3, 0, 2)), cohort=5)
    assert sim.cohort.draw(0, 0, sim.work.federation.samples()) == [0, 2, 4]
    _, outcome = sim.advance(sim.open())
    assert outcome.rejected == ()


@pytest.mark.parametrize("engine", [LOOP, replace(STACKED, chunk=2)], ids=["loop", "stacked"])
@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_round_of_one_client_is_a_round(spec: MethodSpec, engine: EngineSettings) -> None:
    sim = simulate(spec, engine=engine)
    state = sim.open()
    for client in (3, 5, 3):
        state, outcome = ask_clients(sim, state, [client])
        assert outcome.rejected == ()
        assert not outcome.skipped
    assert _all_finite(all_state(sim, state))


def test_one_clients_model_becomes_the_servers() -> None:
    by_samples, uniform = simulate("fedavg"), simulate({"fedavg": {"weighting": "uniform"}})
    first, _ = ask_clients(by_samples, by_samples.open(), [2])
    second, _ = ask_clients(uniform, uniform.open(), [2])
    assert distance(first.params, second.params) == 0


@pytest.mark.parametrize(("batch_size", "batching"), [(1, "wrap"), (4, "wrap"), (4, "drop")])
@pytest.mark.parametrize("spec", ["fedavg", "fedsam", "scaffold"])
def test_batch_norm_trains_a_client_of_one_sample(spec: str, batch_size: int, batching: Batching) -> None:
    model = small_model("mlp", hidden=[6], norm="batch")
    local = Local(lr=0.1, batch_size=batch_size, batching=batching)
    sim = simulate(spec, model=model, local=local, federation=unequal_federation(sizes=(5, 1)), cohort=2)
    state = run_rounds(sim)
    assert _all_finite(all_state(sim, state))
    _, outcome = ask_clients(sim, state, [1])
    assert outcome.rejected == ()


@pytest.mark.slow
def test_the_balanced_sampler_takes_more_samples_than_a_multinomial_can() -> None:
    count = 2**24 + 1
    labels = torch.zeros(count, dtype=torch.int64)
    labels[0] = 1
    prepare = PARTS.build("balanced_sampler").prepare
    assert prepare is not None
    data, _ = prepare(ClientData(torch.arange(count), labels), visit())
    plan = make_plan(data, 1024, 1, "drop", generator(0, "plan"))
    assert float((plan.positions == 0).double().mean()) == pytest.approx(0.5, abs=0.01)


def test_a_rare_sample_is_drawn_again_and_again_without_lists_of_copies() -> None:
    labels = torch.zeros(100_000, dtype=torch.int64)
    labels[7] = 1
    prepare = PARTS.build("balanced_sampler").prepare
    assert prepare is not None
    data, _ = prepare(ClientData(torch.arange(100_000), labels), visit())
    assert len(data.rows) == len(data.labels) == 100_000
    plan = make_plan(data, 1000, 1, "pad", generator(0, "plan"))
    assert float((plan.positions == 7).double().mean()) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("beta", [0.0, 1e-300, 0.9999, 1 - 1e-15, 1 - 2**-53, 1.0])
def test_the_effective_number_is_sound_up_to_its_limits(beta: float) -> None:
    weights = _slot("class_balanced", [1, 10, 10**9, 0], torch.float64, beta=beta)["weights"]
    assert torch.isfinite(weights).all()
    assert weights[3] == 0
    assert float(weights.sum()) == pytest.approx(4)
    if beta > 1 - 1e-14:
        assert float(weights[0] / weights[1]) == pytest.approx(10, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_focal_is_finite_where_the_chance_is_one_or_zero(gamma: float, dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, 0.0], [0.0, 1e4], [50.0, 0.0], [20.0, 0.0]], dtype=dtype).requires_grad_()
    loss = PARTS.build("focal", {"gamma": gamma}).loss
    assert loss is not None
    values = loss(Outputs(logits, logits), Batch(logits, torch.tensor([0, 0, 0, 0]), torch.ones(4)), {})
    (slopes,) = torch.autograd.grad(values.sum(), logits)
    assert torch.isfinite(values).all()
    assert torch.isfinite(slopes).all()
    assert float(values[0].detach()) == 0
    assert float(values[1].detach()) == pytest.approx(1e4)


def test_counts_above_2_to_the_24_keep_their_last_digit() -> None:
    counts = torch.tensor([2**24, 1])
    part = Part("counts", tally=lambda data, classes: {"counts": counts + len(data.labels)})
    total = simulate(compose(build_method("fedavg"), part)).engine.tally(range(2))["counts"]["counts"]
    assert total.tolist() == [2**25 + 70, 72]  # of clients with 20 and 50 samples
    assert total.dtype == torch.int64


def test_weights_of_clients_above_2_to_the_24_samples_tell_them_apart() -> None:
    weights = _weights(Method(), _replies([2**24, 2**24 + 1]))
    assert weights.dtype == torch.float64
    assert weights[0] < weights[1]
    assert float(weights[1] / weights[0]) == pytest.approx(1 + 2**-24, rel=1e-14)


def test_tallies_of_classes_are_whole_numbers() -> None:
    tally = PARTS.build("weighted_ce", {"counts": "global"}).tally
    assert tally is not None
    data = ClientData(torch.arange(3), torch.tensor([0, 2, 2]))
    assert tally(data, 4)["counts"].dtype == torch.int64
    assert tally(data, 4)["counts"].tolist() == [1, 0, 2, 0]


WITHOUT_FEDERATION = ("local", "centralised")  # no statistics are averaged there


def _batch_norm_run(method: MethodSpec | Method, engine: EngineSettings = LOOP) -> Simulation:
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    model = small_model("mlp", hidden=[6], norm="batch")
    return simulate(method, model=model, local=local, engine=engine)


@pytest.mark.parametrize("engine", [LOOP, replace(STACKED, chunk=2)], ids=["loop", "stacked"])
@pytest.mark.parametrize("name", [name for name in METHODS.names() if name not in WITHOUT_FEDERATION])
def test_step_counters_stay_whole_numbers_and_variances_stay_positive(
    name: str, engine: EngineSettings
) -> None:
    sim = _batch_norm_run(name, engine)
    state, _ = ask_clients(sim, sim.open(), range(6))
    assert state.buffers["body.2.num_batches_tracked"].dtype == torch.int64
    longest = 8 if searches(name) else 7  # of the clients' epochs; a search for rates resamples
    assert int(state.buffers["body.2.num_batches_tracked"]) == longest
    assert float(state.buffers["body.2.running_var"].min()) > 0


def test_running_statistics_are_averaged_by_the_weights_of_the_model() -> None:
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    buffers = {
        "mean": torch.tensor([[4.0], [0.0]]),
        "steps": torch.tensor([3, 9]),
        "on": torch.tensor([False, True]),
    }
    averaged = average_buffers(weights, buffers)
    assert averaged["mean"].tolist() == [1.0]
    assert int(averaged["steps"]) == 9
    assert averaged["on"].dtype == torch.bool
    assert torch.equal(averaged["mean"], average_buffers(4 * weights, buffers)["mean"])


def test_a_variance_stays_above_zero_when_a_rule_extrapolates() -> None:
    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        # Client 5 has the least variance: none.
        return torch.where(exchange.replies.client == 5, -3.0, 2.0).double(), slot

    sim = _batch_norm_run(
        compose(build_method("fedavg"), Part("extrapolate", weigh=weigh, extrapolates=True))
    )
    state, _ = ask_clients(sim, sim.open(), [0, 1, 5])
    assert float(state.buffers["body.2.running_var"].min()) >= 0
    against = average_buffers(torch.tensor([1.5, -0.5]), {"running_var": torch.tensor([[0.1], [1.0]])})
    assert float(against["running_var"].min()) >= 0


def _without_samples(replies: Replies) -> Replies:
    return replies._replace(samples=torch.zeros_like(replies.samples))


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "feddyn", "fednova"])
def test_replies_that_all_weigh_nothing_skip_the_round_and_leave_every_state(spec: MethodSpec) -> None:
    sim = simulate(spec)
    state, _ = ask_clients(sim, sim.open(), range(6))
    before = fingerprint(sim, state)
    weightless = altered(sim, _without_samples)
    after, outcome = ask_clients(weightless, state, range(6))
    assert outcome.skipped
    assert fingerprint(sim, after) == before


def test_a_learning_rate_that_explodes_leaves_the_model_bit_identical() -> None:
    sim = simulate("scaffold", local=Local(lr=1e200, batch_size=12))
    state = sim.open()
    after, outcome = sim.advance(state)
    assert outcome.skipped
    assert len(outcome.rejected) == 3
    assert fingerprint(sim, after) == fingerprint(sim, state)
    assert sim.engine.memory == {}


def _weights(method: Method, replies: Replies) -> Tensor:
    return weigh_replies(method, Exchange({}, replies, replies.samples, len(replies.client)), {})[0].weights


def _replies(samples: list[int]) -> Replies:
    count = len(samples)
    return Replies(torch.arange(count), torch.tensor(samples), {}, {}, {}, torch.zeros(count))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=50).filter(any),
    st.sampled_from(["samples", "uniform"]),
)
def test_weights_are_not_negative_and_sum_to_one(samples: list[int], weighting: Weighting) -> None:
    weights = _weights(Method(weighting=weighting), _replies(samples))
    assert float(weights.min()) >= 0
    assert float(weights.sum()) == pytest.approx(1, abs=1e-12)


def test_half_precision_models_are_weighed_and_summed_in_double() -> None:
    weights = _weights(Method(), _replies([70_000, 70_000]))
    mixed = mix(weights, {"w": torch.tensor([[60_000.0], [60_000.0]], dtype=torch.float16)})
    assert mixed["w"].dtype == torch.float16
    assert mixed["w"].tolist() == [60_000.0]


def _slot(name: str, counts: list[int], dtype: torch.dtype, **arguments: float) -> Tree:
    number = torch.ones((), dtype=dtype)
    start = PARTS.build(name, arguments).start
    assert start is not None
    return start({}, {}, {}, Stats(torch.tensor(counts), number, number, number, {}, torch.tensor(counts)))


@pytest.mark.parametrize("name", FROM_COUNTS)
def test_constants_of_counts_come_in_the_type_of_the_model(name: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        slot = _slot(name, [10**9, 3, 0], dtype)
        assert all(leaf.dtype == dtype for leaf in leaves(slot))
        assert _all_finite(slot)
