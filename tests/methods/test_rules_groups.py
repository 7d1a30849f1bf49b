"""FedCGNM, FedCGN and PCN against NumPy, and the limits in which they meet each other and normalised SGD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    all_state,
    distance,
    run_rounds,
    simulate,
    small_model,
    unequal_federation,
)
from numpy.typing import NDArray
from regression import Setting, Vector, assert_follows, gradient, setting

from counterpoise.client.round import begin
from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.method import Method, MethodSpec, find_entry
from counterpoise.core.part import Gradient, Outputs, Part, Step
from counterpoise.core.tree import Params
from counterpoise.engines.opening import open_task
from counterpoise.errors import ConfigError
from counterpoise.parts.group_momentum import group_momentum, sum_of_units
from counterpoise.server.round import announce

Groups = list[list[int]]


def _groups_of(run: Setting, client: int) -> Groups:
    """The two groups of least variance, by trying each split."""
    counts = np.bincount(run.data(client)[1], minlength=4)
    order = [c for c in np.argsort(-counts, kind="stable") if counts[c]]
    splits = [(order[:cut], order[cut:]) for cut in range(1, len(order))]
    if not splits:
        return [order]
    if len({counts[c] for c in order}) == 1:
        return [order[: len(order) // 2], order[len(order) // 2 :]]
    return list(min(splits, key=lambda split: sum(len(g) * float(np.var(counts[g])) for g in split)))


def _unit(vector: Vector) -> Vector:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12))


def _share(model: Vector, x: Vector, y: NDArray[np.int64], group: list[int]) -> Vector:
    """Gradient of the group's samples' losses over the size of the batch."""
    own = np.isin(y, group)
    return gradient(model, x[own], y[own]) * (own.sum() / len(y)) if own.any() else np.zeros_like(model)


def _train(
    run: Setting, model: Vector, round: int, client: int, groups: Groups, beta: float, decay: float = 0.0
) -> Vector:
    momenta = [np.zeros_like(model) for _ in groups]
    for x, y in run.batches(round, client):
        momenta = [
            beta * m + (1 - beta) * _share(model, x, y, group)
            for m, group in zip(momenta, groups, strict=True)
        ]
        model = model - run.lr(round) * (np.sum([_unit(m) for m in momenta], axis=0) + decay * model)
    return np.asarray(model)


def _assert_rule(
    spec: MethodSpec,
    beta: float,
    groups: Callable[[Setting, int], Groups] = _groups_of,
    local: Local | None = None,
    decay: float = 0.0,
) -> None:
    run = setting(spec, local)

    def rule(model: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        trained = [_train(run, model, round, k, groups(run, k), beta, decay) for k in cohort]
        return np.asarray(run.shares(cohort) @ np.stack(trained))

    assert_follows(run, rule)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_fedcgnm(beta: float) -> None:
    _assert_rule({"fedcgnm": {"beta": beta}}, beta)


def test_fedcgn_is_fedcgnm_without_momentum() -> None:
    _assert_rule("fedcgn", 0.0)


def test_pcn_brings_every_class_to_length_one() -> None:
    _assert_rule("pcn", 0.0, lambda run, client: [[0], [1], [2], [3]])


@pytest.mark.parametrize("decoupled", [False, True])
def test_weight_decay_is_never_inside_the_norm(decoupled: bool) -> None:
    local = Local(lr=0.2, batch_size=4, weight_decay=0.1, decoupled=decoupled)
    _assert_rule("fedcgnm", 0.5, local=local, decay=0.1)


def _models(spec: MethodSpec, local: Local | None = None) -> Params:
    return run_rounds(simulate(spec, local=local)).params


def test_as_many_groups_as_classes_without_momentum_are_pcn() -> None:
    # Whatever the counts, since with no more classes than groups each is its own group.
    pcn = _models("pcn")
    for groups in (4, 9):
        assert distance(_models({"fedcgn": {"groups": groups}}), pcn) < 1e-12
        assert distance(_models({"fedcgnm": {"groups": groups, "beta": 0.0}}), pcn) < 1e-12
    assert distance(_models({"fedcgn": {"groups": 3}}), pcn) > 1e-3


def _normalised(step: Step) -> Gradient:
    plain = step.gradient_at(step.params)
    length = torch.cat([g.flatten() for g in plain.grads.values()]).norm()
    return plain._replace(grads={path: g / length for path, g in plain.grads.items()})


def test_one_group_without_momentum_is_normalised_sgd() -> None:
    by_hand = Method((Part("normalised", gradient=lambda slot, step: (_normalised(step), slot)),))
    expected = run_rounds(simulate(by_hand)).params
    assert distance(_models({"fedcgn": {"groups": 1}}), expected) < 1e-12


def test_a_first_step_does_not_depend_on_beta() -> None:
    local = Local(lr=0.1, batch_size=100)  # one step a round
    assert distance(_models({"fedcgnm": {"beta": 0.9}}, local), _models("fedcgn", local)) < 1e-12


def _step_with(grads: Params) -> Step:
    def none(params: Params) -> Gradient:
        raise AssertionError("the plain gradient is not asked for")

    return Step(
        {},
        None,
        none,
        lambda members: Gradient(grads, {}, torch.ones(()), Outputs(torch.zeros(0), torch.zeros(0))),
        None,
    )  # type: ignore[arg-type]


def _directions(beta: float, *gradients: list[list[float]]) -> list[list[float]]:
    part = group_momentum(2, beta)
    assert part.gradient is not None
    zero = {"w": torch.zeros(2, 2, dtype=torch.float64)}
    slot = {"members": torch.eye(2)} | ({"momentum": zero} if beta else {})
    found = []
    for rows in gradients:
        step = _step_with({"w": torch.tensor(rows, dtype=torch.float64)})
        direction, slot = part.gradient(slot, step)
        found.append(direction.grads["w"].tolist())
    return found


def test_by_hand() -> None:
    # m = (1.5, 2), (0, 1), then (.75 + 1.5, 1), (0, .5 - 1.5): lengths 2.5 and 1, then sqrt(2.25^2 + 1) and 1.
    first, second = _directions(0.5, [[3.0, 4.0], [0.0, 2.0]], [[3.0, 0.0], [0.0, -3.0]])
    assert first == pytest.approx([0.6, 0.8 + 1])
    length = (2.25**2 + 1) ** 0.5
    assert second == pytest.approx([2.25 / length, 1 / length - 1])


def test_a_group_absent_from_a_batch_goes_on_along_its_momentum_which_decays() -> None:
    seen, absent, again = _directions(
        0.5, [[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [4.0, 0.0]]
    )
    assert seen == pytest.approx([1, 1])
    assert absent == pytest.approx([1, 1])
    # m = (0, 1.5) / 4 + (2, 0): the old direction weighs beta^2.
    assert again == pytest.approx([1 + 2 / (4 + 0.375**2) ** 0.5, 0.375 / (4 + 0.375**2) ** 0.5])


def test_without_momentum_an_absent_group_contributes_nothing_and_zero_momentum_is_zero() -> None:
    assert _directions(0.0, [[3.0, 4.0], [0.0, 0.0]])[0] == pytest.approx([0.6, 0.8])
    assert _directions(0.5, [[0.0, 0.0], [0.0, 0.0]])[0] == [0, 0]
    tiny = {"w": torch.full((2, 4), 1e-14, dtype=torch.float64)}
    assert sum_of_units(tiny)["w"].tolist() == pytest.approx([2 * 1e-14 / 1e-12] * 4)


def test_the_norm_is_over_all_parameters_together() -> None:
    found = sum_of_units({"a": torch.tensor([[3.0], [0.0]]), "b": torch.tensor([[[4.0]], [[2.0]]])})
    assert found["a"].tolist() == pytest.approx([0.6])
    assert found["b"].flatten().tolist() == pytest.approx([1.8])


COMPOSED: dict[str, MethodSpec] = {
    "resampled": ["fedcgnm", {"resample": {"rate": 0.7}}],
    "equal proportions": ["fedcgnm", {"resample": {"rate": 1.0}}],
    "global counts": ["fedcgn", {"resample": {"counts": "global"}}],
    "three groups": {"fedcgnm": {"groups": 3, "grouping": "half"}},
    "minority by hand": {"fedcgnm": {"minority": 1}},
    "separate batches": [{"resample": {}}, {"fedcgnm": {"group_batches": "separate"}}],
    "separate classes": {"pcn": {"group_batches": "separate"}},
    "with a loss and weights": ["fedcgnm", "focal", "weighted_ce"],
    "with control variates": ["scaffold", "group_momentum"],
}


@pytest.mark.parametrize("spec", COMPOSED.values(), ids=COMPOSED)
def test_stacked_equals_loop(spec: MethodSpec) -> None:
    one, two = (simulate(spec, engine=engine) for engine in (LOOP, replace(STACKED, chunk=2)))
    assert distance(all_state(one, run_rounds(one)), all_state(two, run_rounds(two))) < 1e-8


def test_stacked_equals_loop_on_a_residual_network() -> None:
    federation, local = unequal_federation((2, 6, 6)), Local(lr=0.05, batch_size=16)
    states = []
    for engine in (LOOP, replace(STACKED, chunk=3)):
        model = small_model("resnet8", (2, 6, 6), norm="group", width=2)
        sim = simulate(
            ["fedcgnm", "resample"], federation=federation, model=model, local=local, engine=engine, rounds=2
        )
        states.append(run_rounds(sim).params)
    assert distance(*states) < 1e-8


def test_separate_batches_hold_both_groups_in_every_step() -> None:
    sim = simulate({"fedcgnm": {"group_batches": "separate"}}, local=Local(lr=0.1, batch_size=4))
    opened = open_task(sim.work, Task(1), {}, Broadcast(0, 0.1, {}, {}, {}))
    strata = opened.data.strata
    assert strata is not None
    assert all(sorted(strata[batch].tolist()) == [0, 0, 1, 1] for batch in opened.plan.positions)
    assert opened.plan.steps == 13  # as long an epoch as with shared batches


def test_groups_of_separate_batches_are_those_of_the_gradients_also_after_relabelling() -> None:
    """Resampling to equal counts leaves the order of classes to what a client owns: by its new labels, on both sides."""
    relabel = {"relabel": {"at": 0.1, "standardise": False}}
    groups = {"fedcgnm": {"group_batches": "separate", "grouping": "half"}}
    sim = simulate([relabel, {"resample": {"rate": 1.0}}, groups])
    state = run_rounds(sim, rounds=1)
    opened = open_task(sim.work, Task(1), {}, announce(sim.method, state, 0.1))
    stats, strata = opened.stats, opened.data.strata
    old, now = stats.owned.tolist(), stats.owned_now.tolist()
    assert sorted(old, reverse=True) == old
    assert sorted(now, reverse=True) != now
    begun = begin(sim.method, state.params, {}, {}, {}, stats)
    members = begun.slots["group_momentum"]["members"]
    assert strata is not None
    assert members.argmax(0)[opened.data.labels].tolist() == strata.tolist()


def test_resampling_after_the_groups_of_separate_batches_are_drawn_is_refused() -> None:
    sim = simulate([{"fedcgnm": {"group_batches": "separate"}}, "resample"])
    with pytest.raises(ConfigError, match="list it first"):
        run_rounds(sim, rounds=1)


def test_defaults_are_those_of_the_specification() -> None:
    defaults = {
        "fedcgnm": {"groups": 2, "beta": 0.5, "grouping": "variance", "group_batches": "shared"},
        "fedcgn": {"groups": 2, "weighting": "samples"},
        "resample": {"rate": 0.6, "counts": "local"},
        "ratio_loss": {"alpha": 1.0, "beta": 0.1},
    }
    for name, arguments in defaults.items():
        parameters = find_entry(name).parameters
        assert {key: parameters[key].default for key in arguments} == arguments
