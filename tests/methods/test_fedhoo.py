"""FedHOO and HOO at work: limits, engines, what they keep and show, resume, and the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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
)
from runs import assert_refused, call, result, tiny, write_tiny

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import read_rows
from counterpoise.server.round import diagnose

SEARCHES: list[MethodSpec] = [
    ["fedavg", {"fedhoo": {"warmup": 1}}],
    ["fedcgnm", {"fedhoo": {"warmup": 0, "selection": "optimistic", "reward": "advantage"}}],
    ["fedavgm", "balanced_softmax", {"fedhoo": {"warmup": 0, "clusters": 2, "depth": 1}}],
    ["fedprox", {"hoo": {"warmup": 1, "clusters": 2}}],
]
IDS = ["fedhoo", "optimistic", "clusters", "hoo"]
QUICK = Local(lr=0.5, batch_size=12)


def _slot(state: Any) -> Any:
    return state.slots.get("fedhoo") or state.slots["hoo"]


@pytest.mark.parametrize("rate", [0.0, 0.6])
@pytest.mark.parametrize("name", ["fedhoo", "hoo"])
def test_with_one_rate_to_choose_it_is_that_rate_bit_for_bit(name: str, rate: float) -> None:
    search = simulate(["fedavg", {name: {"low": rate, "high": rate, "warmup": 1}}])
    plain = simulate(["fedavg", {"resample": {"rate": rate}}], cohort=None)
    assert distance(run_rounds(search).params, run_rounds(plain).params) == 0


@pytest.mark.parametrize("spec", SEARCHES, ids=IDS)
def test_stacked_equals_loop_while_the_tree_grows(spec: MethodSpec) -> None:
    expected = None
    for engine in (LOOP, replace(STACKED, chunk=5)):
        sim = simulate(spec, engine=engine, local=QUICK)
        state = run_rounds(sim)
        assert len(_slot(state)["nodes"]["parent"]) > 1
        expected = expected or all_state(sim, state)
        assert distance(expected, all_state(sim, state)) < 1e-8


def test_batch_norm_is_searched_with_its_buffers() -> None:
    # Smooth, since a client of one sample has no variance, and rounding would decide on which side of a kink it lies.
    model = small_model("mlp", hidden=[6], norm="batch", activation="tanh")
    local = Local(lr=0.1, batch_size=8, batching="wrap")
    sims = [
        simulate(SEARCHES[0], local=local, model=model, engine=engine)
        for engine in (LOOP, replace(STACKED, chunk=4))
    ]
    first, second = (all_state(sim, run_rounds(sim)) for sim in sims)
    assert distance(first, second) < 1e-8


def test_the_model_kept_is_the_best_of_all_mixtures_on_validation() -> None:
    sim = simulate(["fedavg", {"fedhoo": {"warmup": 0, "clusters": 3}}], local=QUICK, rounds=5)
    state = sim.open()
    for _ in range(5):
        state, _ = sim.advance(state)
        nodes = _slot(state)["nodes"]
        kept = sim.evaluate(state)["validation"]["balanced_accuracy"]
        assert kept == pytest.approx(float(nodes["value"][-8:].max()))
        assert kept == pytest.approx(float(_slot(state)["reward"]))


def test_the_rates_shown_are_those_that_the_clients_trained_with() -> None:
    sim = simulate([SEARCHES[0], "epoch_growth"], local=QUICK, rounds=4)
    state = run_rounds(sim)
    shown = diagnose(sim.method, state)
    federation = sim.work.federation
    for client, rate in enumerate(shown["fedhoo"]["rates"]):
        counts = federation.counts()[client].double()
        own = counts[counts > 0]
        grown = (own * (own.max() / own) ** rate + 0.5).floor().sum() / own.sum()
        assert shown["epoch_growth"]["growth"][client] == pytest.approx(float(grown), rel=1e-6)
    assert shown["fedhoo"]["reward"] == pytest.approx(float(_slot(state)["reward"]))


SEARCHING = (
    'method=["fedavg", { fedhoo = { warmup = 1, depth = 2 } }]',
    "data.validation=0.2",
    "rounds=6",
    "engine.name=loop",
    "engine.processes=1",
)


def test_a_run_resumed_in_the_middle_of_the_search_comes_to_the_same_end(tmp_path: Path) -> None:
    experiment = tiny(*SEARCHING, "cohort.size=4")
    whole = start(experiment, tmp_path / "whole")
    start(experiment, tmp_path / "cut")
    for newest in sorted((tmp_path / "cut" / "checkpoints").glob("round-*.json"))[-2:]:
        newest.unlink()
    assert result(resume(tmp_path / "cut")) == result(whole)
    rows = read_rows(tmp_path / "whole" / "metrics.jsonl")
    sizes = [len(row["diagnostics"]["fedhoo"]["tree"]) for row in rows]
    assert sizes[0] == 1
    assert sizes[-1] > sizes[1] > 1


def test_the_command_line_refuses_a_search_that_does_not_fit_in_one_line(tmp_path: Path) -> None:
    def run(*more: str) -> Any:
        return call("validate", write_tiny(tmp_path, *SEARCHING, *more))

    assert_refused(run(), 2, "all 4 clients", "not cohort.size = 2")
    assert_refused(
        run("cohort.size=13", "partition.clients=13", "partition.alpha=1000.0"), 2, "8192", "clusters"
    )
    finished = run("cohort.size=4")
    assert finished.code == 0
    assert finished.out.splitlines()[-1] == "valid"


def test_names_and_defaults_are_those_of_the_paper() -> None:
    for name in ("fedhoo", "hoo"):
        method = build_method(["fedcgnm", name])
        assert [part.name for part in method.parts][-2:] == ["resample", name]
        assert method.weighting == "samples"
    sim = simulate("fedhoo")
    nodes = sim.open().slots["fedhoo"]["nodes"]
    assert nodes["lower"].tolist() == [[0.4] * 6]
    assert nodes["upper"].tolist() == [[0.8] * 6]
    assert len(_slot(run_rounds(sim, rounds=3))["nodes"]["parent"]) == 1  # three rounds of warm-up
    assert len(_slot(run_rounds(sim, rounds=4))["nodes"]["parent"]) == 65
    assert torch.equal(nodes["depth"], torch.zeros(1, dtype=torch.int64))
