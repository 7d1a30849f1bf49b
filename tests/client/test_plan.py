"""Plans: every sample once an epoch, and what happens to the last short batch."""

from __future__ import annotations

import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.client.plan import Plan, make_plan
from counterpoise.core.local import Batching
from counterpoise.core.part import ClientData
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.system import capacity

BATCHINGS: tuple[Batching, ...] = ("pad", "wrap", "drop")


def _plan(count: int, batch: int, epochs: int = 1, batching: Batching = "pad", key: int = 0) -> Plan:
    data = ClientData(torch.arange(count), torch.zeros(count, dtype=torch.int64))
    return make_plan(data, batch, epochs, batching, generator(0, "plan", key))


def _visits(plan: Plan, count: int) -> list[int]:
    return torch.bincount(plan.positions[plan.mask], minlength=count).tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 3))
def test_padded_plans_visit_every_sample_once_an_epoch(count: int, batch: int, epochs: int) -> None:
    plan = _plan(count, batch, epochs)
    steps = math.ceil(count / batch)
    assert plan.positions.shape == plan.mask.shape == (steps * epochs, batch)
    for epoch in range(epochs):
        one = Plan(*(t[epoch * steps : (epoch + 1) * steps] for t in plan))
        assert _visits(one, count) == [1] * count


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 20))
def test_wrapped_plans_fill_the_last_batch_from_the_next_order(count: int, batch: int) -> None:
    plan = _plan(count, batch, batching="wrap")
    visits = _visits(plan, count)
    assert plan.mask.all()
    assert plan.steps == math.ceil(count / batch)
    assert max(visits) - min(visits) <= 1
    assert min(visits) >= 1


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 20))
def test_dropping_plans_leave_out_the_rest_but_train_every_client(count: int, batch: int) -> None:
    plan = _plan(count, batch, batching="drop")
    assert plan.mask.all()
    assert plan.steps == max(count // batch, 1)
    assert max(_visits(plan, count)) <= math.ceil(batch / count)


@pytest.mark.parametrize("batching", BATCHINGS)
def test_a_client_smaller_than_a_batch_takes_one_step_an_epoch(batching: Batching) -> None:
    plan = _plan(3, 8, epochs=2, batching=batching)
    assert plan.steps == 2
    assert plan.mask.sum(1).tolist() == ([3, 3] if batching == "pad" else [8, 8])
    assert set(plan.positions[plan.mask].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("batching", BATCHINGS)
def test_a_client_without_samples_takes_no_step(batching: Batching) -> None:
    assert _plan(0, 4, epochs=2, batching=batching).steps == 0


@pytest.mark.parametrize("batching", BATCHINGS)
def test_epochs_and_streams_have_orders_of_their_own(batching: Batching) -> None:
    plan = _plan(40, 40, epochs=2, batching=batching)
    assert plan.positions[0].tolist() != plan.positions[1].tolist()
    assert torch.equal(_plan(40, 40, batching=batching).positions[0], plan.positions[0])
    assert not torch.equal(_plan(40, 40, batching=batching, key=1).positions[0], plan.positions[0])


def test_real_samples_come_first_and_padding_only_in_the_last_batch() -> None:
    plan = _plan(10, 4)
    assert plan.mask.tolist() == [[True] * 4, [True] * 4, [True, True, False, False]]


def test_padding_points_at_a_sample_that_exists() -> None:
    plan = _plan(1, 4)
    assert plan.positions.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("batching", BATCHINGS)
def test_chances_draw_with_replacement(batching: Batching) -> None:
    chances = torch.tensor([0.0, 1.0, 3.0])
    data = ClientData(torch.arange(3), torch.zeros(3, dtype=torch.int64), chances)
    plan = make_plan(data, 3, 2000, batching, generator(0, "plan"))
    share = torch.bincount(plan.positions[plan.mask], minlength=3) / int(plan.mask.sum())
    assert share.tolist() == pytest.approx([0, 0.25, 0.75], abs=0.02)


def _strata_plan(strata: list[int], batch: int, batching: Batching = "pad") -> Plan:
    data = ClientData(torch.arange(len(strata)), torch.zeros(len(strata), dtype=torch.int64))
    data = data._replace(strata=torch.tensor(strata))
    return make_plan(data, batch, 2, batching, generator(0, "plan"))


@pytest.mark.parametrize("batching", BATCHINGS)
def test_with_strata_every_batch_holds_equally_many_samples_of_each(batching: Batching) -> None:
    strata = [0] * 13 + [2] * 3 + [5] * 8
    plan = _strata_plan(strata, 6, batching)
    assert plan.mask.all()
    assert plan.steps == 2 * 4
    for batch in plan.positions:
        assert sorted(torch.tensor(strata)[batch].tolist()) == [0, 0, 2, 2, 5, 5]


def test_with_strata_each_is_visited_evenly_and_the_batch_size_need_not_be_a_multiple() -> None:
    strata = [0] * 10 + [1] * 2
    plan = _strata_plan(strata, 5)  # three of the first and two of the second in each of 2 * 3 steps
    for epoch in plan.positions.view(2, 15):
        visits = torch.bincount(epoch, minlength=12)
        assert visits[:10].sum() == 9
        assert visits[:10].max() == 1
        assert visits[10:].tolist() == [3, 3]


def test_a_batch_that_cannot_hold_all_strata_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"local.batch_size must be at least 3.* not 2"):
        _strata_plan([0, 1, 2, 2], 2)


@pytest.mark.parametrize("batching", BATCHINGS)
def test_a_plan_that_does_not_fit_into_memory_is_refused_before_it_is_drawn(
    batching: Batching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 1 << 30)
    data = ClientData(torch.arange(100), torch.zeros(100, dtype=torch.int64))
    with pytest.raises(
        ConfigError,
        match=r"^local\.batch_size = 1,048,576 and local\.epochs = 10,000: a client of 100 samples needs 262\.1 GB of memory",
    ):
        make_plan(data, 1 << 20, 10_000, batching, _Untouched())  # type: ignore[arg-type]


class _Untouched:
    """A stream that nobody may draw from."""


def test_wrapping_takes_a_time_that_follows_the_length_of_the_plan() -> None:
    began = time.perf_counter()
    assert _plan(30, 1 << 20, batching="wrap").positions.shape == (1, 1 << 20)
    assert time.perf_counter() - began < 10  # one visit appended after another took minutes
