"""FedWCM and FedWCM-X against NumPy, and the limits in which they are FedCM or FedAvg."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    altered,
    ask_clients,
    distance,
    run_rounds,
    simulate,
    small_model,
    unequal_federation,
)
from regression import CLASSES, FEATURES, Setting, Slope, Vector, assert_follows, setting

from counterpoise.core.codec import digest
from counterpoise.core.local import Local, factor
from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import ClientData, Exchange, Part, Step, Visit
from counterpoise.core.tree import Params, Tree
from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.server.round import diagnose

SIZE = CLASSES * FEATURES + CLASSES
SLOT = "weighted_client_momentum"
DECAY = Local(lr=0.4, batch_size=4, schedule=factor(0.5))
# Six clients, every class 12 times: balanced together, skewed one by one, and of unequal size.
BALANCED = ([0] * 12, [1] * 9 + [2] * 2, [1] * 3 + [3] * 5, [2] * 10 + [3] * 1, [3] * 4, [3] * 2)


def _labelled(clients: Sequence[Sequence[int]]) -> Federation:
    """Clients with these labels."""
    plain = unequal_federation((FEATURES,))
    labels = torch.tensor([label for own in clients for label in own])
    stream = torch.Generator().manual_seed(5)
    inputs = torch.randn((len(labels), FEATURES), generator=stream, dtype=torch.float64)
    rows = torch.split(torch.arange(len(labels)), [len(own) for own in clients])
    train = Samples(inputs + 0.5 * labels.unsqueeze(1), labels)
    return replace(plain, train=train, clients=tuple(rows), held_out=())


class _Wcm:
    """FedWCM in NumPy, by the formulas of spec 2.3; counts are read off the data."""

    def __init__(self, run: Setting, target: Vector | None = None, absolute: bool = False) -> None:
        counts = np.array(
            [np.bincount(run.data(k)[1], minlength=CLASSES) for k in range(run.clients)], dtype=np.float64
        )
        share = counts.sum(0) / counts.sum()
        gap = (np.full(CLASSES, 1 / CLASSES) if target is None else target) - share
        self.run, self.discrepancy = run, np.abs(gap).sum()
        worth = np.abs(gap) if absolute else np.maximum(gap, 0)
        self.scores = counts @ worth / counts.sum(1)
        # All clients' mean comes from shares in fixed point, which moves alpha in its tenth digit.
        shares = np.rint(counts / counts.sum(1, keepdims=True) * 2**32) / 2**32
        self.mean_score = (shares @ worth).mean()
        self.alpha, self.momentum = 0.1, np.zeros(SIZE)

    def weights(self, cohort: Sequence[int], base: Vector | None = None, temperature: float = 1.0) -> Vector:
        heat = temperature / (CLASSES * self.discrepancy)
        raw = np.exp(self.scores[list(cohort)] / heat) * (1.0 if base is None else base)
        return np.asarray(raw / raw.sum())

    def direction(self) -> Any:
        alpha, momentum = self.alpha, self.momentum
        return lambda y, slope: alpha * slope(y) + (1 - alpha) * momentum

    def turn(
        self, delta: Vector, length: float, cohort: Sequence[int], exponent: float | None = None
    ) -> None:
        self.momentum = -delta / length
        q = self.scores[list(cohort)].mean() / self.mean_score
        size = self.discrepancy if exponent is None else exponent
        self.alpha = min(max(0.1 + 0.9 * (1 - math.exp(-size)) * q, 0.1), 1.0)


@pytest.mark.parametrize("server", [1.0, 0.5])
@pytest.mark.parametrize("score", ["positive", "abs"])
def test_fedwcm(score: str, server: float) -> None:
    run = setting({"fedwcm": {"score": score, "server_lr": server, "temperature_scale": 0.2}}, DECAY)
    wcm = _Wcm(run, absolute=score == "abs")
    seen = []

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        moves = np.array([run.train(x, round, k, wcm.direction()) - x for k in cohort])
        delta = wcm.weights(cohort, temperature=0.2) @ moves
        rate, steps = 0.4 * 0.5**round, np.mean([run.steps(round, k) for k in cohort])
        wcm.turn(delta, rate * steps, cohort)
        seen.append(wcm.alpha)
        return np.asarray(x + server * delta)

    state = assert_follows(run, rule)
    assert float(state.slots[SLOT]["alpha"]) == pytest.approx(wcm.alpha, abs=1e-9)
    assert len(set(seen)) > 2
    assert len(np.unique(wcm.weights((0, 1, 3)))) == 3


def test_fedwcm_with_a_given_target_and_the_exponent_as_printed() -> None:
    target = [4.0, 1.0, 1.0, 2.0]
    run = setting({"fedwcm": {"target": target, "exponent": "per_class"}})
    wcm = _Wcm(run, np.array(target) / 8)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        moves = np.array([run.train(x, round, k, wcm.direction()) - x for k in cohort])
        delta = wcm.weights(cohort) @ moves
        steps = float(np.mean([run.steps(round, k) for k in cohort]))
        wcm.turn(delta, 0.2 * steps, cohort, wcm.discrepancy / CLASSES)
        return np.asarray(x + delta)

    assert_follows(run, rule)


@pytest.mark.parametrize(
    ("local", "usual"),
    [
        (DECAY, 2),  # 29 samples on 6 clients, 4.83 each, in batches of 4
        (Local(lr=0.2, batch_size=4, batching="wrap"), 2),
        (Local(lr=0.2, batch_size=4, batching="drop", epochs=3), 3),
    ],
    ids=["pad", "wrap", "drop"],
)
def test_fedwcm_x_scales_rates_by_steps_and_weights_by_samples(local: Local, usual: int) -> None:
    run = setting("fedwcm_x", local)
    wcm, sizes = _Wcm(run), np.array([9, 7, 4, 5, 3, 1.0])

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        rates = [usual / run.steps(round, k) for k in cohort]
        moves = np.array(
            [run.train(x, round, k, wcm.direction(), rate) - x for k, rate in zip(cohort, rates, strict=True)]
        )
        delta = wcm.weights(cohort, sizes[list(cohort)]) @ moves
        wcm.turn(delta, run.lr(round) * usual, cohort)
        return np.asarray(x + delta)

    assert_follows(run, rule)
    assert len({run.steps(0, k) for k in range(6)}) > 1


@pytest.mark.parametrize("form", ["scaled", "printed"])
def test_the_other_readings_of_the_servers_turn(form: str) -> None:
    run = setting({"fedcm": {"alpha": 0.3, "momentum_form": form, "server_lr": 0.1}}, DECAY)
    momentum = np.zeros(SIZE)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal momentum
        known = momentum

        def direction(y: Vector, slope: Slope) -> Vector:
            return 0.3 * slope(y) + 0.7 * known

        delta = np.mean([run.train(x, round, k, direction) - x for k in cohort], axis=0)
        scaled = delta / (0.4 * 0.5**round * np.mean([run.steps(round, k) for k in cohort]))
        momentum = scaled if form == "printed" else -scaled
        return np.asarray(x - 0.1 * scaled if form == "printed" else x + 0.1 * scaled)

    assert_follows(run, rule)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
@pytest.mark.parametrize("form", ["resolved", "scaled"])
def test_fedwcm_on_balanced_classes_is_fedcm_to_the_last_bit(
    form: str, engine: EngineSettings, dtype: torch.dtype
) -> None:
    def final(spec: MethodSpec) -> Tree:
        sim = simulate(spec, federation=_labelled(BALANCED), dtype=dtype, rounds=5, cohort=3, engine=engine)
        state = run_rounds(sim)
        (slot,) = state.slots.values()
        return {"params": state.params, "direction": slot["direction"]}

    found = final({"fedwcm": {"momentum_form": form}})
    assert digest(found) == digest(final({"fedcm": {"alpha": 0.1, "momentum_form": form}}))
    assert digest(found) != digest(final({"fedcm": {"alpha": 0.11, "momentum_form": form}}))


def test_fedwcm_x_of_equal_clients_is_fedwcm() -> None:
    clients = ([0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 2, 3])
    runs = [
        run_rounds(simulate(name, federation=_labelled(clients), cohort=2, rounds=4)).params
        for name in ("fedwcm", "fedwcm_x")
    ]
    assert distance(*runs) < 1e-14


def test_with_all_of_the_own_gradient_it_is_fedavg_by_scores() -> None:
    run = setting({"fedwcm": {"alpha": 1.0, "temperature_scale": 0.1}})
    wcm = _Wcm(run)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        moves = np.array([run.train(x, round, k) - x for k in cohort])
        return np.asarray(x + wcm.weights(cohort, temperature=0.1) @ moves)

    assert_follows(run, rule)


def _after(spec: MethodSpec, clients: Sequence[Sequence[int]], rounds: int = 3, **more: Any) -> Tree:
    """FedWCM's slot after some rounds."""
    sim = simulate(spec, federation=_labelled(clients), rounds=rounds, **more)
    slot: Tree = run_rounds(sim).slots[SLOT]
    return slot


def test_one_client_has_all_weight_and_an_average_score() -> None:
    slot = _after("fedwcm", ([0, 0, 0, 1, 2, 3],), cohort=None)
    assert slot["weights"].tolist() == [1.0]
    assert float(slot["q"]) == pytest.approx(1, abs=1e-8)
    assert 0.1 < float(slot["alpha"]) < 1


def test_classes_that_nobody_has_count_in_the_discrepancy_and_in_no_score() -> None:
    slot = _after("fedwcm", ([0, 0, 0], [1, 1, 1], [0, 1]), cohort=2)
    assert slot["scores"].tolist() == [0, 0, 0]
    assert float(slot["discrepancy"]) == pytest.approx(1.0)
    assert float(slot["q"]) == 1
    assert float(slot["alpha"]) == pytest.approx(0.1 + 0.9 * (1 - math.exp(-1.0)))
    assert sorted(slot["weights"].tolist()) == [0, 0.5, 0.5]


def test_a_round_of_scarce_clients_raises_alpha() -> None:
    clients = ([0] * 8, [0] * 8, [0] * 6 + [1] * 2, [2] * 2, [3] * 1)
    sim = simulate("fedwcm", federation=_labelled(clients))
    alphas = [
        float(ask_clients(sim, sim.open(), cohort)[0].slots[SLOT]["alpha"])
        for cohort in ((0, 1), (0, 1, 2), (0, 1, 2, 3, 4), (3, 4))
    ]
    assert alphas == sorted(alphas)
    assert alphas[0] == 0.1
    assert alphas[-1] == 1.0


def test_other_class_ids_only_reorder_the_gaps() -> None:
    clients = [list(run) for run in ([0] * 9, [0] * 5 + [1] * 4, [1, 2, 2], [3, 3, 0, 0])]
    order = [2, 0, 3, 1]
    renamed = [[order[label] for label in own] for own in clients]
    first, second = (_after("fedwcm", given, cohort=2) for given in (clients, renamed))
    for name in ("alpha", "q", "weights", "scores"):
        assert torch.allclose(first[name], second[name], atol=1e-12), name
    assert torch.allclose(second["gaps"][order], first["gaps"])


def test_scores_count_what_a_client_has_and_not_what_it_draws() -> None:
    plain = _after("fedwcm", BALANCED[:4])
    resampled = _after(["fedwcm", "balanced_sampler", {"resample": {"rate": 1.0}}], BALANCED[:4])
    assert float(plain["scores"].max()) > 0
    assert torch.equal(plain["scores"], resampled["scores"])
    assert torch.equal(plain["weights"], resampled["weights"])


@pytest.mark.parametrize("first", [True, False])
def test_scores_multiply_what_another_part_weighs_by(first: bool) -> None:
    given = torch.tensor([0.5, 0.1, 0.1, 0.2, 0.05, 0.05]).double()

    def weigh(weights: torch.Tensor, slot: Tree, exchange: Exchange) -> tuple[torch.Tensor, Tree]:
        product = weights * given[exchange.replies.client]
        return product / product.sum(), slot

    other, own = Part("other", weigh=weigh), build_method({"fedwcm": {"temperature_scale": 0.1}})
    method = compose(*((other, own) if first else (own, other)))
    run = Setting(simulate(method, federation=unequal_federation((FEATURES,)), model=small_model(shape=(5,))))
    state, _ = ask_clients(run.sim, run.sim.open(), (0, 2, 3))
    expected = _Wcm(run).weights((0, 2, 3), given[[0, 2, 3]].numpy(), 0.1)
    np.testing.assert_allclose(state.slots[SLOT]["weights"][[0, 2, 3]], expected, atol=1e-9)


@pytest.mark.parametrize(
    "extra", ["focal", {"balanced_softmax": {"counts": "global"}}, "balanced_sampler", {"trimmed_mean": {}}]
)
@pytest.mark.parametrize("name", ["fedwcm", "fedwcm_x"])
def test_it_composes_with_losses_samplers_and_robust_averages(name: str, extra: Any) -> None:
    sim, plain = simulate([name, extra], cohort=5), simulate(name, cohort=5)
    state, alone = run_rounds(sim), run_rounds(plain)
    assert torch.equal(state.slots[SLOT]["weights"], alone.slots[SLOT]["weights"])
    assert distance(state.params, alone.params) > 1e-6


def test_every_part_sees_the_clients_own_rate() -> None:
    seen: list[float] = []

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        seen.append(float(step.stats.lr) * float(step.stats.steps))
        return grads, slot

    sim = simulate(compose(build_method("fedwcm_x"), Part("watch", adjust=adjust)), cohort=None)
    state = sim.open()
    seen.clear()  # a made-up client was tried
    sim.advance(state)
    # 121 samples on 6 clients, 20.2 each: two steps in batches of 12, at a rate of 0.1.
    assert len(seen) == 2 + 5 + 2 + 3 + 1 + 1
    assert seen == pytest.approx([0.2] * len(seen))


def test_a_rate_that_another_part_set_is_scaled_too() -> None:
    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return data._replace(rate=0.5 * data.rate), visit.memory

    halved = compose(Part("half", prepare=prepare), build_method("fedwcm_x"))
    slow = simulate("fedwcm_x", local=Local(lr=0.05, batch_size=12))
    first, second = (run_rounds(sim).params for sim in (simulate(halved), slow))
    assert distance(first, second) < 1e-14


def test_a_score_above_the_largest_gap_counts_as_the_largest_gap() -> None:
    def boast(by: float) -> Any:
        def alter(replies: Replies) -> Replies:
            sent = replies.upload[SLOT]
            score = torch.where(replies.client == 0, by, sent["score"])
            return replies._replace(upload={**replies.upload, SLOT: {**sent, "score": score}})

        return alter

    sim = simulate("fedwcm")
    opened = sim.open()
    largest = float(opened.slots[SLOT]["gaps"].max())
    honest, liar = (
        ask_clients(altered(sim, boast(by)), opened, (0, 1, 2))[0].slots[SLOT] for by in (largest, 1e6)
    )
    assert torch.equal(honest["weights"], liar["weights"])
    assert float(honest["alpha"]) == float(liar["alpha"]) <= 1


def test_the_server_learns_sums_and_one_number_with_each_reply() -> None:
    sim = simulate("fedwcm")
    (part,) = (p for p in sim.method.parts if p.name == SLOT)
    assert part.survey is None
    assert part.tally is not None
    counted = part.tally(sim.work.federation.client(0), 4)
    assert {name: leaf.dtype for name, leaf in counted.items()} == {
        "counts": torch.int64,
        "shares": torch.int64,
    }
    sent: list[Tree] = []

    def note(replies: Replies) -> Replies:
        sent.append(replies.upload[SLOT])
        return replies

    ask_clients(altered(sim, note), sim.open(), (0, 1))
    assert {name: tuple(leaf.shape) for name, leaf in sent[0].items()} == {"travelled": (2,), "score": (2,)}


def test_charts_show_alpha_q_weights_and_scores() -> None:
    sim = simulate("fedwcm")
    shown = diagnose(sim.method, run_rounds(sim))[SLOT]
    assert set(shown) == {"alpha", "q", "weights", "scores"}
    assert 0.1 <= shown["alpha"] <= 1
    assert sum(shown["weights"]) == pytest.approx(1)
    assert len(shown["weights"]) == len(shown["scores"]) == 6


@pytest.mark.parametrize("target", [[1.0, 2.0], [1.0] * 5])
def test_a_target_of_another_length_is_refused(target: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"one number per class \(4\), not of"):
        simulate({"fedwcm": {"target": target}}).open()


def test_a_target_without_any_class_or_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="a number above 0"):
        build_method({"fedwcm": {"target": [0.0, 0.0]}})
    with pytest.raises(ConfigError, match=r"target\.1 must be a number in \[0, inf\)"):
        build_method({"fedwcm_x": {"target": [1.0, -0.5]}})


def test_a_target_need_not_sum_to_one() -> None:
    shares, counts = ({"fedwcm": {"target": t}} for t in ([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]))
    first, second = (run_rounds(simulate(spec)).params for spec in (shares, counts))
    assert distance(first, second) < 1e-12
