"""Resampling: how often each class comes, who comes once more, and what the record says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from federations import ask_clients, distance, run_rounds, simulate, visit
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_hooks import built, told
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import ClientData
from counterpoise.core.rng import generator
from counterpoise.engines.opening import Opened, open_task
from counterpoise.errors import ConfigError
from counterpoise.parts.resample import resample
from counterpoise.server.round import diagnose

NO_KNOBS: Mapping[str, float] = {}


def _labels(counts: list[int]) -> Tensor:
    labels = torch.repeat_interleave(torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=generator(0, "shuffled"))]


def _resampled(
    labels: Tensor,
    shared: Any = None,
    knobs: Mapping[str, float] = NO_KNOBS,
    chances: Tensor | None = None,
    key: int = 0,
    **arguments: Any,
) -> ClientData:
    part = built("resample", **arguments)
    assert part.prepare is not None
    data = ClientData(100 + torch.arange(len(labels)), labels, chances)
    return part.prepare(data, visit(shared, knobs, generator(0, "resample", key)))[0]


def _counts(data: ClientData, classes: int) -> list[int]:
    return torch.bincount(data.labels, minlength=classes).tolist()


def test_counts_by_hand() -> None:
    # n_max = 16: 16, then 4 * (16/4)^0.5 = 8, then 1 * 16^0.5 = 4; 9 * (16/9)^0.5 = 12; none of the absent class.
    assert _counts(_resampled(_labels([16, 4, 0, 1, 9]), rate=0.5), 5) == [16, 8, 0, 4, 12]
    # 3 * (8/3)^0.6 = 5.40 and 5 * (8/5)^0.6 = 6.63.
    assert _counts(_resampled(_labels([8, 3, 5])), 3) == [8, 5, 7]


def test_halves_are_rounded_up() -> None:
    # 2 * (4 / 2)^r = 2.5 at r = log2(1.25).
    assert _counts(_resampled(_labels([4, 2]), rate=math.log2(1.25)), 2) == [4, 3]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any), st.floats(0, 1))
def test_every_sample_comes_as_often_as_any_other_of_its_class_or_once_more(
    counts: list[int], rate: float
) -> None:
    labels = _labels(counts)
    data = _resampled(labels, rate=rate)
    most = max(counts)
    wanted = [math.floor(n * (most / n) ** rate + 0.5) if n else 0 for n in counts]
    assert _counts(data, len(counts)) == wanted
    times = torch.bincount(data.rows - 100, minlength=len(labels))
    assert torch.equal(data.labels, labels[data.rows - 100])
    for c, n in enumerate(counts):
        if n:
            own = times[labels == c]
            assert sorted(set(own.tolist())) == sorted({wanted[c] // n, -(-wanted[c] // n)})


def test_who_comes_once_more_is_drawn_anew_from_the_stream_given() -> None:
    labels = _labels([10, 6])  # 6 * (10/6)^0.6 = 8.15: two of six come twice
    twice = [
        tuple(torch.nonzero(torch.bincount(_resampled(labels, key=key).rows) == 2).flatten().tolist())
        for key in range(400)
    ]
    assert twice[0] == tuple(
        torch.nonzero(torch.bincount(_resampled(labels, key=0).rows) == 2).flatten().tolist()
    )
    assert len(set(twice)) == math.comb(6, 2)
    often = torch.bincount(torch.tensor(twice).flatten())
    # 400 draws of 2 in 6: 133 each, with a standard deviation below 10.
    assert all(95 < count < 175 for count in often[often > 0].tolist())


def test_rate_one_makes_present_classes_equal() -> None:
    assert _counts(_resampled(_labels([997, 3, 0, 14, 1]), rate=1.0), 5) == [997, 997, 0, 997, 997]


def test_rate_zero_changes_nothing_at_all() -> None:
    labels = _labels([9, 2, 5])
    data = _resampled(labels, rate=0.0)
    assert torch.equal(data.rows, 100 + torch.arange(16))
    assert torch.equal(data.labels, labels)
    assert data.chances is None
    plain, off = simulate("fedavg"), simulate(["fedavg", {"resample": {"rate": 0.0}}])
    assert distance(run_rounds(plain).params, run_rounds(off).params) == 0


def test_the_factor_is_capped() -> None:
    assert _counts(_resampled(_labels([100, 4, 1]), rate=1.0, cap=3.0), 3) == [100, 12, 3]
    assert _counts(_resampled(_labels([100, 4, 1]), rate=1.0, cap=1.0), 3) == [100, 4, 1]


def test_global_counts_give_the_factor_of_all_clients() -> None:
    part = built("resample", counts="global", rate=0.5)
    shared = told(part, [[10, 1, 0], [90, 3, 25], [0, 0, 0]])
    assert shared["counts"].tolist() == [100, 4, 25]
    # Factors 1, 5 and 2 on the client's own.
    data = _resampled(_labels([10, 1]), shared, counts="global", rate=0.5)
    assert _counts(data, 3) == [10, 5, 0]
    assert _counts(_resampled(_labels([0, 2, 3]), shared, counts="global", rate=0.5), 3) == [0, 10, 6]


def test_a_tasks_own_rate_comes_first() -> None:
    labels = _labels([16, 4])
    assert _counts(_resampled(labels, knobs={"rate": 1.0}, rate=0.0), 2) == [16, 16]
    assert _counts(_resampled(labels, knobs={"other": 1.0}, rate=0.0), 2) == [16, 4]


def _opened(spec: MethodSpec, client: int) -> Opened:
    sim = simulate(spec, local=Local(batch_size=12))
    state = sim.open()
    part = sim.method.parts[0]
    tasks = part.propose({}, 0, [client]) if part.propose is not None else [Task(client)]
    shared = {p.name: p.send(state.slots[p.name], 0) for p in sim.method.parts if p.send is not None}
    return open_task(sim.work, tasks[0], {}, Broadcast(0, 0.1, state.params, {}, shared))


def test_a_list_has_one_rate_for_each_client() -> None:
    rates = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    for client, rate in enumerate(rates):
        found = _opened(["fedavg", {"resample": {"rate": rates}}], client).stats.counts
        assert torch.equal(found, _opened(["fedavg", {"resample": {"rate": rate}}], client).stats.counts)
    by_list, uniform = (
        simulate(["fedavg", {"resample": {"rate": rate}}], cohort=None) for rate in ([0.6] * 6, 0.6)
    )
    assert distance(run_rounds(by_list).params, run_rounds(uniform).params) == 0


def test_a_list_of_another_length_is_refused() -> None:
    sim = simulate(["fedavg", {"resample": {"rate": [0.5, 0.6]}}])
    with pytest.raises(ConfigError, match=r"rate must be .*one per client \(6\), not of 2"):
        sim.open()
    with pytest.raises(ConfigError, match=r"rate.1 must be a number in \[0, 1\], not 2.0"):
        simulate(["fedavg", {"resample": {"rate": [0.5, 2.0]}}])


def test_the_epoch_grows_and_losses_see_the_new_counts() -> None:
    opened = _opened(["fedavg", {"resample": {"rate": 1.0}}], 1)
    counts, owned = opened.stats.counts, opened.stats.owned
    assert torch.equal(owned, simulate("fedavg").work.federation.counts()[1])
    assert counts.tolist() == [int(owned.max()) if n else 0 for n in owned.tolist()]
    assert int(opened.plan.mask.sum()) == int(counts.sum()) == len(opened.data.rows)
    assert opened.plan.steps == math.ceil(int(counts.sum()) / 12)


def test_the_server_may_learn_how_much_each_clients_epoch_grew_and_weighs_by_what_they_own() -> None:
    sim = simulate(["fedavg", {"resample": {"rate": 1.0}}, "epoch_growth"])
    state, _ = ask_clients(sim, sim.open(), [1, 3])
    counts = sim.work.federation.counts()
    expected = [
        int((counts[k] > 0).sum() * counts[k].max()) / int(counts[k].sum()) if k in (1, 3) else 1.0
        for k in range(6)
    ]
    assert diagnose(sim.method, state)["epoch_growth"]["growth"] == pytest.approx(expected)
    assert sim.work.federation.samples().tolist() == counts.sum(1).tolist()


def test_with_the_balanced_sampler_it_lengthens_the_epoch_in_either_order() -> None:
    labels = _labels([12, 3, 0, 1])
    sampler = built("balanced_sampler")
    assert sampler.prepare is not None
    chances = sampler.prepare(ClientData(labels, labels), visit())[0].chances
    after = _resampled(labels, chances=chances, rate=1.0)
    before, _ = sampler.prepare(_resampled(labels, rate=1.0), visit())
    assert torch.equal(after.rows, before.rows)
    assert after.chances is not None
    assert before.chances is not None
    torch.testing.assert_close(after.chances, before.chances)


def test_what_else_is_known_of_a_client_stays() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    prepare = resample(1.0).prepare
    assert prepare is not None
    held_out = torch.tensor([7, 9])
    data, _ = prepare(ClientData(torch.arange(4), labels, held_out=held_out, rate=0.5), visit())
    assert len(data.rows) > 4
    assert data.held_out is held_out
    assert data.rate == 0.5
