"""The seam for searches: tasks proposed, mixtures formed and scored, replies chosen and then used as in any round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import all_state, distance, fingerprint, recorded, simulate, small_model, unequal_federation
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.messages import Replies, Task, average_buffers
from counterpoise.core.method import Method, build_method, compose
from counterpoise.core.part import Census, Exchange, Judge, Pair, Part
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree, bytes_of, take, tmap
from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.metrics import balanced_accuracy
from counterpoise.metrics.scoring import count
from counterpoise.run import scorer
from counterpoise.run.build import build_simulation
from counterpoise.run.simulation import Simulation
from counterpoise.server import search
from counterpoise.server.cohort import Cohort
from counterpoise.server.replies import select, weigh_replies
from counterpoise.server.round import announce

RATES = (0.0, 0.5, 1.0)
FIXED = (2, 3, 7, 10, 12, 17)  # of each client's three replies, the row to use


def _picker(rows: Sequence[int] = FIXED, selections: Tensor | None = None) -> Part:
    """Three rates for everybody, and a choice that is known beforehand; the judge's scores go into the slot."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"scores": torch.zeros(1, dtype=torch.float64)}

    def propose(slot: Tree, round: int, cohort: Sequence[int]) -> Sequence[Task]:
        return [Task(client, {"rate": rate}) for client in cohort for rate in RATES]

    def choose(slot: Tree, replies: Replies, judge: Judge) -> tuple[Tensor, Tree]:
        return torch.tensor(rows), {"scores": slot["scores"] if selections is None else judge(selections)}

    return Part("picker", init=init, propose=propose, choose=choose)


def _method(*more: str | dict[str, Any], **arguments: Any) -> Method:
    return compose(build_method(["fedavg", "resample", *more]), _picker(**arguments), name="picking")


def _replies(sim: Simulation) -> Replies:
    state = sim.open()
    tasks = search.propose_tasks(sim.method, state.slots, 0, range(6))
    return sim.engine.train(tasks, announce(sim.method, state, sim.work.local.lr))


@pytest.mark.parametrize("more", [(), ({"server_momentum": {"beta": 0.5}},), ("normalised_averaging",)])
def test_a_round_equals_a_plain_one_with_the_chosen_replies_bit_for_bit(more: tuple[Any, ...]) -> None:
    sim, plain = simulate(_method(*more)), simulate(["fedavg", "resample", *more], cohort=None)
    state = sim.open()
    found, outcome = sim.advance(state)
    chosen = select(_replies(sim), torch.tensor(FIXED))
    assert chosen.client.tolist() == list(range(6))
    answered = recorded(plain, chosen)
    expected, _ = answered.advance(plain.open(), [Task(k) for k in range(6)])
    assert (outcome.asked, outcome.tasks, outcome.replied) == (6, 18, 6)
    assert distance(found.params, expected.params) == 0
    assert distance(found.params, state.params) > 1e-3
    for part in expected.slots:
        assert distance(found.slots[part], expected.slots[part]) == 0


def _exchange(params: Params, replies: Replies) -> Exchange:
    return Exchange(params, replies, replies.samples, 6)


def _uneven(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
    size = next(iter(exchange.replies.delta.values())).flatten(1).norm(dim=1).double()
    shares: Tensor = size / size.sum()
    return shares, slot


@pytest.mark.parametrize("weighing", [False, True], ids=["by samples", "by a part"])
def test_a_mixture_equals_aggregating_the_chosen_models_and_their_buffers(weighing: bool) -> None:
    method = compose(_method(), Part("uneven", weigh=_uneven)) if weighing else _method()
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    sim = simulate(method, model=small_model("mlp", hidden=[6], norm="batch"), local=local)
    state, replies = sim.open(), _replies(sim)
    selections = 3 * torch.arange(6) + torch.randint(3, (20, 6), generator=generator(0, "selections"))
    models, buffers = search.mixtures(method, _exchange(state.params, replies), state.slots, selections)
    for m, rows in enumerate(selections):
        chosen = select(replies, rows)
        weights = weigh_replies(method, _exchange(state.params, chosen), state.slots)[0].weights
        expected = tmap(
            lambda x, d, w=weights: x + sum(share * row for share, row in zip(w, d, strict=True)),
            state.params,
            chosen.delta,
        )
        assert distance(take(models, m), expected) < 1e-12
        assert distance(take(buffers, m), average_buffers(weights, chosen.buffers)) < 1e-12


def _scores_by_hand(sim: Simulation, selections: Tensor, held: Samples | None) -> list[float]:
    """Balanced accuracy of each mixture, as a module by itself."""
    assert held is not None
    state, replies = sim.open(), _replies(sim)
    models, _ = search.mixtures(sim.method, _exchange(state.params, replies), state.slots, selections)
    scores = []
    for row in range(len(selections)):
        right = sim.work.model.load(take(models, row), {})(held.x).argmax(-1) == held.y
        recalls = [right[held.y == c].double().mean() for c in set(held.y.tolist())]
        scores.append(float(torch.stack(recalls).mean()))
    return scores


def test_scores_are_those_of_each_mixture_by_itself_however_many_are_scored_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selections = 3 * torch.arange(6) + torch.randint(3, (7, 6), generator=generator(0, "selections"))
    sim = simulate(_method(selections=selections), local=Local(lr=1.0, batch_size=12, epochs=3))
    whole, _ = sim.advance(sim.open())
    scores = whole.slots["picker"]["scores"]
    assert len(scores.unique()) > 1
    assert scores.tolist() == pytest.approx(_scores_by_hand(sim, selections, sim.work.federation.validation))
    monkeypatch.setattr(search, "JUDGED_BYTES", 1)
    one_by_one, _ = sim.advance(sim.open())
    assert fingerprint(sim, whole) == fingerprint(sim, one_by_one)


def _without_server_set(federation: Federation) -> Federation:
    return replace(federation, validation=None)


def test_without_a_server_set_scores_come_from_all_that_clients_hold_out() -> None:
    selections = 3 * torch.arange(6) + torch.arange(3).unsqueeze(1)
    federation = _without_server_set(unequal_federation())
    sim = simulate(_method(selections=selections), federation=federation, local=Local(lr=1.0, batch_size=12))
    state, outcome = sim.advance(sim.open())
    held = federation.train.take(torch.cat(list(federation.held_out)))
    found = state.slots["picker"]["scores"].tolist()
    assert found == pytest.approx(_scores_by_hand(sim, selections, held))
    # Six clients get the model, and those that hold samples out three more to score.
    holding = [client for client, rows in enumerate(federation.held_out) if len(rows)]
    assert outcome.bytes_down == (6 + 3 * len(holding)) * bytes_of(state.params)
    one = sim.engine.measure(
        [Pair(client, 0) for client in holding], tmap(lambda leaf: leaf.unsqueeze(0), state.params), {}, count
    )
    assert outcome.bytes_up == _replies(sim).bytes() + 3 * bytes_of(one)


def test_models_of_equal_balanced_accuracy_score_the_same_however_their_errors_lie() -> None:
    assert balanced_accuracy([[2, 18], [16, 4]]) != balanced_accuracy(
        [[3, 17], [17, 3]]
    )  # 0.15, rounded apart
    one, other = scorer.balanced_accuracies(torch.tensor([[[2, 18], [16, 4]], [[3, 17], [17, 3]]]))
    assert one == other


def test_the_order_in_which_clients_answer_changes_nothing() -> None:
    selections = 3 * torch.arange(6) + torch.arange(3).unsqueeze(1)
    sim = simulate(_method(selections=selections))
    replies, seen = _replies(sim), set()
    for trial in range(20):
        clients = torch.randperm(6, generator=generator(0, "order", trial))
        shuffled = select(replies, (3 * clients.unsqueeze(1) + torch.arange(3)).flatten())
        answered = recorded(sim, shuffled)
        state, outcome = answered.advance(sim.open(), [Task(k) for k in range(18)])
        assert not outcome.skipped
        seen.add(fingerprint(sim, state))
    assert len(seen) == 1


@pytest.mark.parametrize("spoilt", [range(1), range(18)], ids=["one", "all"])
def test_a_round_that_lacks_a_reply_is_skipped_and_changes_nothing(spoilt: range) -> None:
    sim = simulate(_method())
    state, replies = sim.open(), _replies(sim)
    bad = tmap(torch.clone, replies.delta)
    for leaf in bad.values():
        leaf[list(spoilt)] = torch.nan
    tasks = [Task(k) for k in range(18)]
    answered = recorded(sim, replies._replace(delta=bad))
    after, outcome = answered.advance(state, tasks)
    assert outcome.skipped
    assert len(outcome.rejected) == len(spoilt)
    assert after.round == 1
    assert distance(all_state(sim, after), all_state(sim, state)) == 0


def _line(error: pytest.ExceptionInfo[ConfigError]) -> str:
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


@pytest.mark.parametrize("cohort", [Cohort(3), Cohort(5, "bernoulli")], ids=["some", "by chance"])
def test_partial_participation_is_refused(cohort: Cohort) -> None:
    with pytest.raises(ConfigError) as caught:
        build_simulation(unequal_federation(), ["fedavg", "fedhoo"], small_model(), rounds=1, cohort=cohort)
    assert f"needs all 6 clients in every round, not cohort.size = {cohort.size}" in _line(caught)


def test_a_search_without_samples_to_score_on_is_refused() -> None:
    federation = _without_server_set(unequal_federation())
    nothing = tuple(rows[:0] for rows in federation.held_out)
    with pytest.raises(ConfigError) as caught:
        simulate("fedhoo", federation=replace(federation, held_out=nothing))
    assert "data.validation or partition.validation must be above 0" in _line(caught)


KEEPERS = {"scaffold": "control_variates", "feddyn": "dynamic_regulariser"}


@pytest.mark.parametrize("name", KEEPERS)
@pytest.mark.parametrize("search", ["fedhoo", "hoo"])
def test_client_memory_is_refused(name: str, search: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_method([name, search])
    assert f"{search} tries settings out, and {KEEPERS[name]} keeps one memory" in _line(caught)


def test_two_searches_are_refused() -> None:
    with pytest.raises(ConfigError, match="only one part may"):
        compose(_method(), replace(_picker(), name="second"))


@pytest.mark.parametrize(
    "proposed", [[Task(0)], [Task(0), Task(1), Task(1)], [Task(0), Task(1), Task(2)], []], ids=len
)
def test_tasks_that_are_uneven_or_of_other_clients_are_refused(proposed: list[Task]) -> None:
    method = compose(build_method("fedavg"), Part("asker", propose=lambda slot, round, cohort: proposed))
    with pytest.raises(ConfigError, match="asker must propose equally many tasks for each of the 2 clients"):
        search.propose_tasks(method, {}, 0, [0, 1])
