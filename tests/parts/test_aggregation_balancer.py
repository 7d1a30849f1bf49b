"""The aggregation balancer: hand-worked weights, the clip, both scopes, what it composes with, and what it refuses."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from federations import ask_clients, distance, recorded, run_rounds, simulate, small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.method import PARTS, Method, MethodSpec, build_method
from counterpoise.core.part import Census, Exchange, Part
from counterpoise.core.tree import Params, Tree, mix
from counterpoise.errors import ConfigError
from counterpoise.models.heads import exchange_head
from counterpoise.parts.aggregation_balancer import balanced_shares
from counterpoise.parts.averaging import normalised_averaging
from counterpoise.run.simulation import Simulation
from counterpoise.server.replies import treat_replies, weigh_replies
from counterpoise.server.round import diagnose
from counterpoise.server.state import ServerState

EXAMPLE = [0.90, 0.95, 0.99, 0.999]
EVERYONE = range(6)


def shares(cosines: list[float], **arguments: Any) -> list[float]:
    return balanced_shares(torch.tensor(cosines, dtype=torch.float64), **arguments).tolist()


def softmax(values: list[float]) -> list[float]:
    return [math.exp(v) / sum(math.exp(w) for w in values) for v in values]


def turned(cosines: list[float]) -> tuple[Params, Params]:
    """A classifier (1, 0), and changes that turn it to these cosines; its bias and the body move by a row's number."""
    params = {
        "body.weight": torch.zeros(2, 2),
        "head.weight": torch.tensor([[1.0, 0.0]]),
        "head.bias": torch.zeros(1),
    }
    weight = torch.tensor([[[c - 1, math.sqrt(1 - c * c)]] for c in cosines])
    number = torch.arange(1.0, len(cosines) + 1).view(-1, 1)
    deltas = {
        "body.weight": number.view(-1, 1, 1).expand(-1, 2, 2),
        "head.weight": weight,
        "head.bias": number,
    }
    return ({k: v.double() for k, v in tree.items()} for tree in (params, deltas))  # type: ignore[return-value]


def server_mean(
    method: Method, params: Params, deltas: Params, upload: dict[str, Any] | None = None
) -> Params:
    """The mean that the server takes of these replies, of 1, 2, ... samples."""
    count = len(deltas["head.weight"])
    replies = Replies(
        torch.arange(count), torch.arange(1, count + 1), deltas, {}, upload or {}, torch.zeros(count)
    )
    census = Census(replies.samples, 1, 1)
    slots = {part.name: part.init(params, census, {}) for part in method.parts if part.init is not None}
    exchange, slots = weigh_replies(method, Exchange(params, replies, replies.samples, count), slots)
    exchange = treat_replies(method, exchange, slots)
    return mix(exchange.weights, exchange.replies.delta)


def method_of(*specs: Any) -> Method:
    return build_method(["fedavg", *specs])


def test_the_worked_example_of_the_specification() -> None:
    assert shares(EXAMPLE) == pytest.approx([0.235, 0.247, 0.257, 0.260], abs=5e-4)
    assert shares(EXAMPLE) == pytest.approx(softmax(EXAMPLE), rel=1e-12)


def test_the_server_takes_the_cosines_of_the_classifier() -> None:
    params, deltas = turned(EXAMPLE)
    found = server_mean(method_of("aggregation_balancer"), params, deltas)
    expected = sum(p * (k + 1) for k, p in enumerate(softmax(EXAMPLE)))
    assert found["head.bias"].tolist() == pytest.approx([expected], rel=1e-6)
    assert found["body.weight"].flatten().tolist() == pytest.approx([expected] * 4, rel=1e-6)


def test_the_bias_and_the_body_do_not_enter_the_score() -> None:
    params, deltas = turned(EXAMPLE)
    other = deltas | {"head.bias": 100 * deltas["head.bias"]}
    first, second = (server_mean(method_of("aggregation_balancer"), params, d) for d in (deltas, other))
    assert torch.equal(first["head.weight"], second["head.weight"])


def test_temperature_exp_and_inverse_by_hand() -> None:
    assert shares(EXAMPLE, temperature=0.1) == pytest.approx(softmax([10 * v for v in EXAMPLE]))
    assert shares(EXAMPLE, inverse=True) == pytest.approx(softmax([-v for v in EXAMPLE]))
    assert shares(EXAMPLE, score="exp") == pytest.approx(softmax([math.exp(v) for v in EXAMPLE]))
    assert shares(EXAMPLE, score="exp", inverse=True) == pytest.approx(
        softmax([math.exp(-v) for v in EXAMPLE])
    )


@pytest.mark.parametrize("deviation", ["population", "sample"])
@settings(deadline=None, max_examples=80)
@given(values=st.lists(st.floats(-1, 1), min_size=1, max_size=4))
def test_with_four_clients_or_fewer_the_clip_at_three_deviations_never_acts(
    values: list[float], deviation: str
) -> None:
    assert shares(values, beta=3.0, deviation=deviation) == pytest.approx(softmax(values), rel=1e-6)


def test_with_twenty_clients_the_clip_raises_the_one_that_is_far_off() -> None:
    values = [0.99] * 19 + [-0.5]
    mean = (19 * 0.99 - 0.5) / 20
    spread = sum((v - mean) ** 2 for v in values)
    for deviation, degrees in (("population", 20), ("sample", 19)):
        least = mean - 3 * math.sqrt(spread / degrees)
        assert least > -0.5
        expected = softmax([*values[:-1], least])
        assert shares(values, deviation=deviation) == pytest.approx(expected, rel=1e-12)
        assert shares(values, deviation=deviation, beta=9.0) == pytest.approx(softmax(values), rel=1e-12)
    assert shares(values) != pytest.approx(shares(values, deviation="sample"), rel=1e-6)


def test_beta_zero_lifts_all_below_the_mean_to_it() -> None:
    assert shares([0.0, 0.5, 1.0], beta=0.0) == pytest.approx(softmax([0.5, 0.5, 1.0]))


@pytest.mark.parametrize("arguments", [{}, {"score": "exp"}, {"inverse": True}, {"deviation": "sample"}])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_classifiers_have_equal_weights(count: int, arguments: dict[str, Any]) -> None:
    assert shares([0.7] * count, **arguments) == pytest.approx([1 / count] * count, rel=1e-12)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.booleans())
def test_weights_are_shares_and_follow_the_order_of_the_cosines(values: list[float], inverse: bool) -> None:
    found = shares(values, inverse=inverse)
    assert sum(found) == pytest.approx(1)
    assert min(found) > 0
    order = sorted(range(len(values)), key=lambda k: values[k], reverse=inverse)
    ranked = [found[k] for k in order]
    assert all(a <= b + 1e-15 for a, b in pairwise(ranked))


def test_a_classifier_of_zeros_and_one_that_becomes_zero_count_as_a_cosine_of_zero() -> None:
    params, deltas = turned([0.9, 0.8])
    away = deltas | {"head.weight": torch.stack([deltas["head.weight"][0], -params["head.weight"]])}
    found = server_mean(method_of("aggregation_balancer"), params, away)["head.bias"]
    p = softmax([0.9, 0.0])
    assert found.tolist() == pytest.approx([p[0] + 2 * p[1]], rel=1e-6)
    nothing = params | {"head.weight": torch.zeros(1, 2, dtype=torch.float64)}
    assert server_mean(method_of("aggregation_balancer"), nothing, deltas)["head.bias"].tolist() == [1.5]


def test_a_reply_that_is_not_a_number_changes_nothing() -> None:
    sim = simulate("aggregation_balancer")
    state = sim.open()
    tasks = [Task(client) for client in EVERYONE]
    replies = sim.engine.train(tasks, Broadcast(0, 0.1, state.params, {}, {}))
    spoilt = replies.delta | {"head.weight": replies.delta["head.weight"].clone()}
    spoilt["head.weight"][5] = math.nan
    after, outcome = recorded(sim, replies._replace(delta=spoilt)).advance(state, tasks)
    without = replies._replace(**{k: v[:5] for k, v in replies._asdict().items() if isinstance(v, Tensor)})
    without = without._replace(delta={name: d[:5] for name, d in replies.delta.items()})
    expected, _ = recorded(sim, without).advance(state, tasks[:5])
    assert [r.client for r in outcome.rejected] == [5]
    assert distance(after.params, expected.params) == 0


def test_one_client_counts_fully() -> None:
    one, plain = simulate(["fedavg", "aggregation_balancer"], cohort=1), simulate("fedavg", cohort=1)
    assert distance(run_rounds(one).params, run_rounds(plain).params) < 1e-15


@pytest.mark.parametrize("scope", ["all", "classifier"])
@pytest.mark.parametrize("host", ["fedavg", "fedprox", "scaffold", "fednova", "fedcgnm", "feddyn", "moon"])
def test_it_attaches_to_any_method_in_one_word(host: str, scope: str) -> None:
    with_it = simulate([host, {"aggregation_balancer": {"scope": scope}}])
    method: MethodSpec = {host: {"weighting": "uniform"}}
    apart = distance(run_rounds(with_it).params, run_rounds(simulate(method)).params)
    assert 1e-7 < apart < 0.1  # close to uniform weights


def test_weights_by_samples_are_replaced_or_multiplied() -> None:
    params, deltas = turned(EXAMPLE)
    p, samples = softmax(EXAMPLE), [1, 2, 3, 4]
    replaced = server_mean(method_of("aggregation_balancer"), params, deltas)["head.bias"]
    assert replaced.tolist() == pytest.approx([sum(a * n for a, n in zip(p, samples, strict=True))], rel=1e-6)
    multiplied = server_mean(method_of({"aggregation_balancer": {"combine": "multiply"}}), params, deltas)
    both = [a * n for a, n in zip(p, samples, strict=True)]
    expected = sum(b * n for b, n in zip(both, samples, strict=True)) / sum(both)
    assert multiplied["head.bias"].tolist() == pytest.approx([expected], rel=1e-6)


def _weigher(name: str, weights: list[float], replaces: bool = False) -> Part:
    def weigh(before: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        scaled = before * torch.tensor(weights, dtype=torch.float64)
        return scaled / scaled.sum(), slot

    return Part(name, weigh=weigh, replaces_weights=replaces)


def _balancer(**arguments: Any) -> Part:
    return PARTS.build("aggregation_balancer", arguments)


@pytest.mark.parametrize("scope", ["all", "classifier"])
def test_multiplied_with_another_weigher(scope: str) -> None:
    params, deltas = turned(EXAMPLE)
    other = _weigher("other", [4.0, 1.0, 1.0, 2.0])
    given, p = [0.5, 0.125, 0.125, 0.25], softmax(EXAMPLE)
    both = [a * b for a, b in zip(given, p, strict=True)]
    method = Method((other, _balancer(combine="multiply", scope=scope)), "uniform")
    found = server_mean(method, params, deltas)
    head = sum(b * (k + 1) for k, b in enumerate(both)) / sum(both)
    rest = head if scope == "all" else sum(g * (k + 1) for k, g in enumerate(given))
    assert found["head.bias"].tolist() == pytest.approx([head], rel=1e-6)
    assert found["body.weight"].flatten().tolist() == pytest.approx([rest] * 4, rel=1e-6)


def test_replacing_weights_after_another_weigher_is_refused_with_the_two_ways_out() -> None:
    with pytest.raises(ConfigError) as caught:
        Method((_weigher("other", [1.0]), _balancer()))
    assert str(caught.value) == (
        "aggregation_balancer replaces the weights that other gives; list it first, or multiply them: "
        "{ aggregation_balancer = { combine = 'multiply' } }"
    )
    Method((_balancer(), _weigher("other", [1.0])))
    Method((_weigher("other", [1.0]), _balancer(combine="multiply")))


def test_beside_fedwcm_it_multiplies_in_either_order_or_is_refused() -> None:
    with pytest.raises(ConfigError, match="replaces the weights that weighted_client_momentum gives"):
        build_method(["fedwcm", "aggregation_balancer"])
    after: MethodSpec = ["fedwcm", {"aggregation_balancer": {"combine": "multiply"}}]
    before: MethodSpec = ["aggregation_balancer", "fedwcm"]  # uniform weights to start from
    found = [run_rounds(simulate(spec)).params for spec in (after, before, "fedwcm")]
    assert distance(found[0], found[1]) < 1e-12
    assert distance(found[0], found[2]) > 1e-6


def test_with_the_classifier_scope_the_rest_is_uniform() -> None:
    params, deltas = turned(EXAMPLE)
    found = server_mean(method_of({"aggregation_balancer": {"scope": "classifier"}}), params, deltas)
    head = sum(p * (k + 1) for k, p in enumerate(softmax(EXAMPLE)))
    assert found["head.bias"].tolist() == pytest.approx([head], rel=1e-6)
    assert found["body.weight"].flatten().tolist() == pytest.approx([2.5] * 4, rel=1e-12)


def test_with_the_classifier_scope_running_statistics_are_averaged_uniformly() -> None:
    sim = simulate(["fedavg", {"aggregation_balancer": {"scope": "classifier"}}])
    state = sim.open()
    tasks = [Task(client) for client in EVERYONE]
    replies = sim.engine.train(tasks, Broadcast(0, 0.1, state.params, {}, {}))
    counted = replies._replace(buffers={"mean": torch.arange(6.0)})
    after, _ = recorded(sim, counted).advance(state, tasks)
    assert after.buffers["mean"].tolist() == pytest.approx(2.5)


@pytest.mark.parametrize("scope", ["all", "classifier"])
@pytest.mark.parametrize("first", [True, False], ids=["balancer first", "fednova first"])
def test_fednova_takes_its_step_by_the_same_shares(scope: str, first: bool) -> None:
    """x + tau_eff sum_i p_i delta_i / a_i, tau_eff the mean of a_i by the weights that the server then has."""
    params, deltas = turned(EXAMPLE)
    steps, p = [3.0, 1.0, 2.0, 8.0], softmax(EXAMPLE)
    parts = (_balancer(scope=scope), normalised_averaging())
    sent = {"response": torch.tensor(steps), "steps": torch.tensor(steps)}
    upload = {"normalised_averaging": sent}
    found = server_mean(Method(parts if first else parts[::-1]), params, deltas, upload)
    weights = p if scope == "all" else [0.25] * 4
    tau = sum(w * a for w, a in zip(weights, steps, strict=True))
    head = tau * sum(q * (k + 1) / a for k, (q, a) in enumerate(zip(p, steps, strict=True)))
    rest = tau * sum(w * (k + 1) / a for k, (w, a) in enumerate(zip(weights, steps, strict=True)))
    assert found["head.bias"].tolist() == pytest.approx([head], rel=1e-6)
    assert found["body.weight"].flatten().tolist() == pytest.approx([rest] * 4, rel=1e-6)


@pytest.mark.parametrize("scope", ["all", "classifier"])
def test_fednova_of_clients_with_equal_steps_equals_fedavg(scope: str) -> None:
    item = {"aggregation_balancer": {"scope": scope}}
    params, deltas = turned(EXAMPLE)
    same = {"normalised_averaging": {"response": torch.full((4,), 7.0), "steps": torch.full((4,), 7.0)}}
    nova = server_mean(build_method(["fednova", item]), params, deltas, same)
    assert distance(nova, server_mean(method_of(item), params, deltas)) < 1e-12


def test_a_frozen_classifier_gives_uniform_weights() -> None:
    frozen = small_model()
    frozen.head.requires_grad_(False)  # type: ignore[union-attr]
    uniform: MethodSpec = {"fedavg": {"weighting": "uniform"}}
    for spec in ("aggregation_balancer", {"aggregation_balancer": {"scope": "classifier"}}):
        found, plain = (run_rounds(simulate(s, model=frozen)) for s in (spec, uniform))  # type: ignore[list-item]
        assert distance(found.params, plain.params) < 1e-15


def test_a_fixed_frame_of_class_directions_gives_uniform_weights() -> None:
    uniform: MethodSpec = {"fedavg": {"weighting": "uniform"}}
    found, plain = (
        run_rounds(simulate(spec, model=exchange_head(small_model(), "etf")))
        for spec in ("aggregation_balancer", uniform)
    )
    assert distance(found.params, plain.params) < 1e-15


def test_a_model_without_a_last_linear_layer_is_refused_in_one_line() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^model Sequential must have a linear layer `head`; no linear layer with 4 outputs gives",
    ):
        simulate("aggregation_balancer", model=nn.Sequential(nn.Linear(5, 4), nn.Tanh()))


def _charted(sim: Simulation, state: ServerState) -> dict[str, list[float]]:
    return diagnose(sim.method, state)["aggregation_balancer"]


@pytest.mark.parametrize("scope", ["all", "classifier"])
def test_the_charts_hold_each_clients_share_of_the_last_round_that_it_was_in(scope: str) -> None:
    sim = simulate(["fedavg", {"aggregation_balancer": {"scope": scope}}])
    first, _ = ask_clients(sim, sim.open(), [0, 1, 4])
    shown = _charted(sim, first)
    assert [k for k, w in enumerate(shown["weights"]) if w] == [0, 1, 4]
    cosines = [shown["cosines"][k] for k in (0, 1, 4)]
    assert all(0 < c < 1 for c in cosines)
    assert [shown["weights"][k] for k in (0, 1, 4)] == pytest.approx(softmax(cosines), rel=1e-9)
    second, _ = ask_clients(sim, first, [1, 2])
    later = _charted(sim, second)
    assert later["weights"][0] == shown["weights"][0]
    assert later["weights"][1] + later["weights"][2] == pytest.approx(1)


def test_weights_judged_by_others_do_not_silently_undo_those_before() -> None:
    with pytest.raises(ConfigError) as caught:
        build_method(["fedwcm", "prioritised_weighting"])
    assert str(caught.value) == (
        "prioritised_weighting replaces the weights that weighted_client_momentum gives; list it first"
    )
    build_method(["prioritised_weighting", "fedwcm"])
