"""What a run carries: memory counts, off values switch a part off, replies may come in any order, bytes keep state."""

from __future__ import annotations

import pytest
import torch
from federations import (
    distance,
    every_spec,
    lenient_specs,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)

from counterpoise.contracts.state import (
    alone,
    memory_counts,
    off_is_fedavg,
    only_enrolled_keep,
    order_is_free,
    record_round,
    remembers,
    resumes,
    used_models,
)
from counterpoise.core.method import METHODS, PARTS, Method, MethodSpec, find_entry
from counterpoise.core.tree import flatten

# By their defaults these are FedAvg; short updates are not clipped (tests/parts/test_robust.py), cosines are only shown,
# labels change after nine tenths of a run, which five rounds do not have (tests/methods/test_fedrela.py), and no client's
# loss is 1 above the mean (tests/methods/test_climb.py). Nobody is far behind the others (tests/parts/test_peer_review.py).
PLAIN = {
    "fedavg",
    "cross_entropy",
    "server_step",
    "clip_updates",
    "epoch_growth",
    "layer_cosines",
    "relabel",
    "fedrela",
    "climb",
    "loss_duals",
    "peer_review",
}


def _same_weighting(method: Method) -> MethodSpec:
    return {"fedavg": {"weighting": method.weighting}}


@pytest.mark.parametrize("spec", [s for s in every_spec() if remembers(s)], ids=spec_name)
def test_memory_of_the_first_round_alters_the_second(spec: MethodSpec) -> None:
    memory_counts(spec)


def test_only_the_memory_of_clients_whose_replies_were_used_is_kept() -> None:
    sim = simulate("scaffold")
    record_round(sim, sim.open())
    assert sim.engine.memory == {}
    sim.engine.commit(0, [1, 4])
    sim.engine.commit(0, [2])  # too late: the others' memory is forgotten
    assert sorted(sim.engine.memory) == [1, 4]


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_only_parts_that_enroll_keep_memory(spec: MethodSpec) -> None:
    only_enrolled_keep(spec)


@pytest.mark.parametrize(
    "name", [n for n in [*METHODS.names(), *PARTS.names()] if find_entry(n).facts.get("off")]
)
def test_the_off_value_equals_fedavg(name: str) -> None:
    off_is_fedavg(alone(name))


@pytest.mark.parametrize("name", sorted({*METHODS.names(), *PARTS.names()} - PLAIN))
def test_the_default_does_something(name: str) -> None:
    on = simulate(alone(name), rounds=5)  # deferred weights are on in the last of five rounds
    plain = simulate(_same_weighting(on.method), rounds=5, cohort=on.cohort)
    expected, found = (used_models(sim, run_rounds(sim)) for sim in (plain, on))
    assert flatten(found).keys() != flatten(expected).keys() or distance(expected, found) > 1e-6


@pytest.mark.parametrize("permutations", [50, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spec", lenient_specs(), ids=spec_name)
def test_the_order_of_replies_changes_nothing(spec: MethodSpec, permutations: int) -> None:
    order_is_free(spec, permutations)


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_state_survives_bytes(spec: MethodSpec) -> None:
    resumes(spec)


def test_a_frozen_parameter_is_neither_trained_nor_changed_by_averaging() -> None:
    module = small_model(shape=unequal_federation().input_shape)
    module.head.weight.requires_grad_(False)  # type: ignore[union-attr]
    frozen = simulate("fedavg", model=module, dtype=torch.float32)
    state = frozen.open()
    after = run_rounds(frozen, state, 3)
    assert "head.weight" not in after.params
    assert "head.weight" not in after.buffers
    trained = frozen.module(after).get_parameter("head.weight")
    assert torch.equal(trained, frozen.module(state).get_parameter("head.weight"))
    assert torch.equal(trained, frozen.work.model.frozen()["head.weight"])
