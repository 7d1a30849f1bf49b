"""FedReLa in runs: when labels change, that they stay, who counts them, and what the server learns."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    all_state,
    altered,
    ask_clients,
    distance,
    run_rounds,
    simulate,
    small_model,
    unequal_federation,
)
from runs import read_summary, result, rounds_done, spawn, tiny, wait_until, write_tiny
from torch import Tensor

from counterpoise.core.codec import digest
from counterpoise.core.messages import Broadcast, Replies
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import ClientData, Part, Stats, Visit
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree
from counterpoise.data.augment import AUGMENTATIONS
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.runner import resume, start
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.checkpoint import CheckpointStore

SOON = {"at": 1, "tau": 30.0, "audit": "flow"}
HOSTS: list[MethodSpec] = [
    [{"fedrela": SOON}],
    [{"fedrela": SOON}, {"resample": {"rate": 0.7}}],
    [{"fedrela": SOON}, "balanced_softmax", "balanced_sampler"],
    ["scaffold", {"relabel": SOON}],
    ["moon", {"relabel": SOON}],
    [{"relabel": SOON}, {"resample": {"rate": 0.5}}, {"fedcgnm": {"group_batches": "separate"}}],
]


def _kept(sim: Simulation) -> dict[int, list[int]]:
    """Client -> its labels, where it re-labelled."""
    memory = {client: own.get("relabel", {}) for client, own in sim.engine.memory.items()}
    return {client: own["labels"].tolist() for client, own in memory.items() if "labels" in own}


def _before(sim: Simulation, client: int) -> list[int]:
    return sim.work.federation.client(client).labels.tolist()


def _flow(sim: Simulation) -> Tensor:
    """[C, C] changed labels of all clients, counted one by one."""
    classes = len(sim.work.federation.classes)
    flow = torch.zeros(classes, classes, dtype=torch.int64)
    for client, labels in _kept(sim).items():
        for before, now in zip(_before(sim, client), labels, strict=True):
            flow[before, now] += before != now
    return flow


def test_a_run_that_ends_before_its_round_is_fedavg_bit_for_bit() -> None:
    plain, late = simulate("fedavg"), simulate({"fedrela": {"at": 3}})
    assert digest(run_rounds(plain).params) == digest(run_rounds(late).params)
    assert not late.engine.memory


def test_rounds_before_it_are_those_of_fedavg_and_later_ones_are_not() -> None:
    plain, on = simulate("fedavg", cohort=None), simulate({"fedrela": SOON}, cohort=None)
    before = run_rounds(plain, rounds=1), run_rounds(on, rounds=1)
    assert digest(before[0].params) == digest(before[1].params)
    assert distance(run_rounds(plain, before[0], 1).params, run_rounds(on, before[1], 1).params) > 1e-6


def test_a_client_re_labels_on_its_first_visit_after_the_round_and_never_again() -> None:
    sim = simulate({"fedrela": SOON})  # cohorts (0, 1, 3), (2, 3, 4), (1, 3, 5)
    state = run_rounds(sim, rounds=2)
    first = _kept(sim)
    assert sorted(first) == [2, 3, 4]
    run_rounds(sim, state, 1)
    last = _kept(sim)
    assert sorted(last) == [1, 2, 3, 4, 5]
    assert last[3] == first[3] != _before(sim, 3)


def _spied(spec: MethodSpec, seen: list[Any], **settings: Any) -> Simulation:
    """A run with a part that notes what other parts are told about each client."""

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        seen.append(data)
        return data, {}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        seen.append(stats)
        return {}, {}

    return simulate(compose(build_method(spec), Part("spy", prepare=prepare, finish=finish)), **settings)


@pytest.mark.parametrize("rate", [0.0, 0.7])
def test_what_comes_after_counts_the_new_labels_and_what_was_owned_stays(rate: float) -> None:
    seen: list[Any] = []
    sim = _spied([{"fedrela": SOON}, {"resample": {"rate": rate}}], seen, cohort=None)
    run_rounds(sim)
    labels = torch.tensor(_kept(sim)[1])
    data, stats = seen[-10], seen[-9]  # client 1 in the last round
    held_out = unequal_federation().held_out
    counts, owned = (
        torch.bincount(labels, minlength=4),
        torch.bincount(torch.tensor(_before(sim, 1)), minlength=4),
    )
    assert torch.equal(data.held_out, held_out[1])
    assert torch.equal(stats.owned, owned)
    assert stats.owned.tolist() != counts.tolist()
    assert torch.equal(stats.counts, torch.bincount(data.labels, minlength=4))
    assert torch.equal(stats.counts, counts) == (rate == 0)
    assert stats.counts.sum() >= counts.sum()
    assert stats.moved.sum() == (labels != torch.tensor(_before(sim, 1))).sum()  # copies do not count


def test_without_a_part_that_re_labels_nothing_is_counted() -> None:
    seen: list[Any] = []
    run_rounds(_spied("fedavg", seen), rounds=1)
    assert seen[-1].moved.shape == ()


@pytest.mark.parametrize("spec", HOSTS, ids=str)
def test_it_goes_with_other_methods_on_every_engine(spec: MethodSpec) -> None:
    runs = [simulate(spec, engine=e) for e in (LOOP, STACKED, EngineSettings("loop", "cpu", processes=2))]
    states = [run_rounds(sim) for sim in runs]
    try:
        assert int(_flow(runs[0]).sum()) > 0
        assert distance(all_state(runs[0], states[0]), all_state(runs[1], states[1])) < 1e-8
        assert distance(all_state(runs[0], states[0]), all_state(runs[2], states[2])) == 0
    finally:
        for sim in runs:
            sim.close()


def test_it_goes_with_a_search_of_sampling_rates() -> None:
    sim = simulate([{"relabel": SOON}, "fedhoo"])
    run_rounds(sim)
    assert len(_kept(sim)) == 6


def test_the_server_adds_up_flows_and_knows_each_clients_share() -> None:
    sim = simulate({"fedrela": SOON}, rounds=5, cohort=None)
    state = run_rounds(sim)
    slot, flow = state.slots["relabel"], _flow(sim)
    assert torch.equal(slot["flow"], flow)
    assert int(flow.sum()) > 0
    shares = [
        sum(a != b for a, b in zip(_before(sim, k), labels, strict=True)) / len(labels)
        for k, labels in sorted(_kept(sim).items())
    ]
    assert slot["share"].tolist() == pytest.approx(shares)
    told = sim.diagnostics(state)["diagnostics"]["relabel"]
    assert told == {"share": slot["share"].tolist(), "flow": flow.tolist()}


@pytest.mark.parametrize(
    ("audit", "sent"), [("off", None), ("share", {"share"}), ("flow", {"share", "flow"})]
)
def test_clients_tell_no_more_than_they_are_asked_to(audit: str, sent: set[str] | None) -> None:
    seen: list[Replies] = []

    def note(replies: Replies) -> Replies:
        seen.append(replies)
        return replies

    sim = simulate({"fedrela": {**SOON, "audit": audit}})
    run_rounds(altered(sim, note))
    assert _kept(sim)
    told = seen[-1].upload.get("relabel")
    assert (told if told is None else set(told)) == sent


def test_labels_of_a_reply_that_was_not_used_are_drawn_again() -> None:
    sim = simulate({"fedrela": SOON}, cohort=None)
    state = run_rounds(sim, rounds=1)
    lost = altered(sim, lambda r: r._replace(delta={n: d * float("nan") for n, d in r.delta.items()}))
    state, outcome = ask_clients(lost, state, [1])
    assert outcome.skipped
    assert not _kept(sim)
    state, _ = ask_clients(sim, state, [1])
    assert sorted(_kept(sim)) == [1]


def test_augmented_passes_look_at_other_pictures() -> None:
    shape = (1, 6, 6)
    sim = simulate(
        "fedavg", federation=unequal_federation(shape), model=small_model("mlp", shape, hidden=[6])
    )
    work, state = replace(sim.work, augment=AUGMENTATIONS.build("flip", {"p": 1.0})), sim.open()
    sent, rows = Broadcast(0, 0.1, state.params, state.buffers, {}), work.federation.clients[0]
    module, x = work.model.load(state.params, {}), work.federation.train.x[rows]
    plain, flipped = (work.outputs_on(sent, rows, s).logits for s in (None, generator(0, "look")))
    assert torch.allclose(plain, module(x).detach(), atol=1e-12)
    assert torch.allclose(flipped, module(x.flip(-1)).detach(), atol=1e-12)
    assert float((plain - flipped).abs().max()) > 1e-3


RUN = (
    'method={"fedrela"={"at"=2,"tau"=30.0,"audit"="flow"}}',
    "rounds=6",
    "checkpoint.every=1",
    "cohort.size=3",
)


@pytest.mark.parametrize("left", [1, 2])
def test_a_resumed_run_keeps_the_labels(tmp_path: Path, left: int) -> None:
    folder = tmp_path / "run"
    summary = start(tiny(*RUN), folder)
    kept = _labels_on_disk(folder)
    for manifest in sorted((folder / "checkpoints").glob("round-*.json"))[left:]:
        manifest.unlink()
    assert result(resume(folder)) == result(summary)
    assert _labels_on_disk(folder) == kept
    assert kept


def _labels_on_disk(folder: Path) -> dict[int, list[int]]:
    saved = CheckpointStore(folder / "checkpoints").load()
    assert saved is not None
    return {
        client: own["relabel"]["labels"].tolist() for client, own in saved.memory.items() if "relabel" in own
    }


def test_a_run_that_is_killed_after_it_re_labelled_ends_alike(tmp_path: Path) -> None:
    path, folder = write_tiny(tmp_path, *RUN, "rounds=30"), tmp_path / "killed"
    process = spawn("run", path, "--out", folder)
    wait_until(lambda: rounds_done(folder) > 3 or process.poll() is not None, "re-labelling")
    process.kill()
    process.communicate()
    assert 3 < rounds_done(folder) < 30
    resume(folder)
    whole = tmp_path / "whole"
    start(load_experiment(path), whole)
    assert result(read_summary(folder)) == result(read_summary(whole))
    shutil.rmtree(whole)
