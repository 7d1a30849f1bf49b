"""Each client alone and all samples in one place: their limits, budgets, scores, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from runs import tiny

from counterpoise.api import simulate as simulate_in_python
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.core.tree import Params
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.metrics.scoring import Scoring
from counterpoise.metrics.shots import shots_by_rule
from counterpoise.run.learned import what_the_server_learns
from counterpoise.run.pooling import pooled
from counterpoise.run.runner import start
from counterpoise.run.simulation import Simulation
from counterpoise.server.cohort import Cohort
from counterpoise.trained.load import load_run

EXTRAS = Local(lr=0.1, batch_size=12, epochs=2, momentum=0.5, weight_decay=0.01)
ENGINES = pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])


def _only(client: int) -> Federation:
    """The federation in which all other clients have nothing to train on."""
    federation = unequal_federation()
    clients = tuple(own if k == client else own[:0] for k, own in enumerate(federation.clients))
    return replace(federation, clients=clients)


def _own(sim: Simulation, client: int) -> Params:
    return sim.engine.memory[client]["trained_alone"]["params"]


@ENGINES
def test_with_one_client_alone_pooled_and_federated_are_the_same_bit_for_bit(engine: EngineSettings) -> None:
    given = {"federation": _only(1), "local": EXTRAS, "engine": engine}
    fedavg, alone, central = (simulate(spec, **given) for spec in ("fedavg", "local", "centralised"))  # type: ignore[arg-type]
    states = [run_rounds(sim) for sim in (fedavg, alone, central)]
    assert distance(states[0].params, _own(alone, 1)) == 0
    assert distance(states[0].params, states[2].params) == 0
    first, *others = (
        {key: value for key, value in sim.evaluate(state).items() if key != "diagnostics"}
        for sim, state in zip((fedavg, alone, central), states, strict=True)
    )
    assert others == [first, first]


@ENGINES
def test_each_client_alone_is_a_federation_of_that_client_only(engine: EngineSettings) -> None:
    together = simulate("local", local=EXTRAS, cohort=None, engine=engine)
    first = together.open().params
    assert distance(run_rounds(together).params, first) == 0  # nothing is averaged
    for client in (0, 4, 5):
        single = simulate("fedavg", federation=_only(client), local=EXTRAS)
        assert distance(run_rounds(single).params, _own(together, client)) < 1e-12


def test_running_statistics_of_a_client_alone_are_its_own() -> None:
    def model() -> torch.nn.Module:
        return small_model("mlp", hidden=[6], norm="batch")

    local = Local(lr=0.1, batch_size=8, batching="wrap")
    alone = simulate("local", model=model(), local=local)  # asks three of six clients in a round
    first = alone.open().buffers
    state = run_rounds(alone)
    # Cohorts (0, 1, 3), (2, 3, 4), (1, 3, 5): client 3 is asked in every round.
    single = simulate("fedavg", model=model(), local=local, federation=_only(3))
    expected = run_rounds(single)
    kept = alone.engine.memory[3]["trained_alone"]
    assert distance(kept["buffers"], expected.buffers) < 1e-12
    assert distance(kept["params"], expected.params) < 1e-12
    assert distance(state.buffers, first) == 0


def test_scores_alone_are_means_over_the_clients_models() -> None:
    sim = simulate("local", cohort=None)
    state = run_rounds(sim)
    found = sim.evaluate(state)
    recalls, accuracies = [], []
    test = sim.work.federation.test
    for client in range(6):
        said, _ = sim.work.model.apply(_own(sim, client), {}, test.x, train=False)
        right = said.logits.argmax(1) == test.y
        recalls.append([right[test.y == c].double().mean() for c in range(4)])
        accuracies.append(right.double().mean())
    means = torch.tensor(recalls).double().mean(0)
    assert found["accuracy"] == pytest.approx(float(torch.stack(accuracies).mean()), abs=1e-12)
    assert found["per_class_recall"] == pytest.approx(means.tolist(), abs=1e-7)
    assert found["balanced_accuracy"] == pytest.approx(float(means.mean()), abs=1e-7)
    assert int(sim.confusion(state).sum()) == 6 * len(test.y)


def test_held_out_samples_of_a_client_alone_are_scored_with_its_own_model() -> None:
    sim = simulate("local", cohort=None)
    scoring = Scoring(shots_by_rule([1] * 4), sim.scoring.classes, clients=True, personal=True)
    sim = replace(sim, scoring=scoring)
    found = sim.evaluate(run_rounds(sim))
    assert found["clients"] == found["personal"]


@pytest.mark.parametrize(
    "cohort", [None, Cohort(2), Cohort(3, "bernoulli")], ids=["everyone", "two", "bernoulli"]
)
@pytest.mark.parametrize("spec", ["centralised", ["centralised", "resample"]], ids=["plain", "resampled"])
def test_pooled_training_takes_the_steps_of_the_federated_run(
    spec: MethodSpec, cohort: Cohort | None
) -> None:
    local = Local(lr=0.1, batch_size=12, epochs=2)
    sim, fedavg = simulate(spec, cohort=cohort, local=local), simulate("fedavg", cohort=cohort, local=local)
    state, federated = sim.open(), fedavg.open()
    for _ in range(3):
        sizes = fedavg.work.federation.samples()[[task.client for task in fedavg.tasks(federated)]]
        expected = sum(2 * -(-int(n) // 12) for n in sizes)
        assert _steps(sim, state) == expected
        (state, outcome), (federated, _) = sim.advance(state), fedavg.advance(federated)
        assert (outcome.asked, outcome.bytes_up, outcome.bytes_down) == (1, 0, 0)


def _steps(sim: Simulation, state: object) -> int:
    from counterpoise.engines.opening import open_task
    from counterpoise.engines.service import first_memory
    from counterpoise.server.round import announce

    [task] = sim.tasks(state)  # type: ignore[arg-type]
    memory = first_memory(sim.work, state.params, state.buffers)  # type: ignore[attr-defined]
    return open_task(sim.work, task, memory, announce(sim.method, state, 0.1)).plan.steps  # type: ignore[arg-type]


def test_pooling_keeps_every_sample_and_what_clients_hold_out() -> None:
    federation = unequal_federation()
    one = pooled(federation)
    assert torch.equal(one.clients[0], torch.cat(federation.clients).sort().values)
    assert not sum(len(rows) for rows in one.clients[1:])
    assert one.held_out == federation.held_out


@pytest.mark.parametrize("spec", ["local", "centralised"])
def test_engines_agree_without_a_federation(spec: MethodSpec) -> None:
    loop, stacked = simulate(spec, engine=LOOP), simulate(spec, engine=STACKED)
    found = [all_state(sim, run_rounds(sim)) for sim in (loop, stacked)]
    assert distance(*found) < 1e-8


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (["local", "server_momentum"], "averages nothing, and server_momentum acts"),
        (["local", "trimmed_mean"], "averages nothing"),
        (["local", "pooled_data"], "puts all samples in one place"),
        (["centralised", "dp"], "puts all samples in one place"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_run_without_a_federation_is_refused(spec: MethodSpec, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_method(spec)


def test_the_server_learns_nothing_or_everything() -> None:
    alone, central = (what_the_server_learns(build_method(name)) for name in ("local", "centralised"))
    assert [one.what.partition(":")[0] for one in (*alone, *central)] == ["nothing", "everything"]


def test_a_run_alone_has_no_model_to_use(tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(tiny("method=local", "rounds=1"), out)
    with pytest.raises(ConfigError, match="no model to use: with trained_alone every client has its own"):
        _ = load_run(out).module
    with pytest.raises(ConfigError, match=r"model\.weights: .* has no final weights"):
        start(tiny("rounds=1", f'model.weights="{out}"'), tmp_path / "other")
    found = simulate_in_python(unequal_federation(), "local", rounds=1)
    assert 0 <= found["balanced_accuracy"] <= 1
    with pytest.raises(ConfigError, match="no model to use"):
        found.predict(unequal_federation().test.x[:2])


def test_neither_goes_over_a_network(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")
    from counterpoise.flower.commands import prepare

    for method, words in {
        "local": "sends nothing over a network",
        "centralised": "samples of all clients in one place",
    }.items():
        with pytest.raises(ConfigError, match=words):
            prepare(tiny(f"method={method}"), tmp_path / method, named_nodes=False)
