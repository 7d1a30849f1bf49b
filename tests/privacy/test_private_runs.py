"""Runs with a hidden histogram: the same model as in the clear, and a record of what was sent and learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import run_rounds, simulate, unequal_federation
from runs import TINY, call

pytest.importorskip("cryptography", reason="pip install 'counterpoise[privacy]'")
pytest.importorskip("tenseal", reason="pip install 'counterpoise[privacy]'")

from counterpoise.core.codec import digest
from counterpoise.core.method import build_method, compose
from counterpoise.core.part import Part
from counterpoise.errors import ConfigError, SecurityError
from counterpoise.results.privacy import privacy_report
from counterpoise.results.results import read_result
from counterpoise.run.config.experiment import load_experiment, make_experiment
from counterpoise.run.learned import ROUNDS, Learned, learned_in
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder

COUNTING = ["fedavg", "logit_adjustment", {"weighted_ce": {"counts": "global"}}]
LARGE = Part("shares", tally=lambda data, classes: {"shares": torch.full((classes,), 2**32 - 1)})


@pytest.mark.parametrize("histogram", ["masks", "bfv"])
@pytest.mark.parametrize("spec", [COUNTING, "fedwcm"], ids=["counts", "fedwcm"])  # which adds shares up too
def test_a_hidden_histogram_gives_the_same_run_bit_for_bit(spec: Any, histogram: str) -> None:
    found = [simulate(spec), simulate(spec, privacy={"histogram": histogram})]
    states = [run_rounds(sim) for sim in found]
    assert digest(states[0].to_tree()) == digest(states[1].to_tree())


@pytest.mark.parametrize("histogram", ["plain", "masks", "bfv"])
def test_parts_that_tally_the_same_get_it_from_one_sum_and_others_their_own(histogram: str) -> None:
    method = compose(build_method(COUNTING), LARGE)
    sim = simulate(method, privacy={"histogram": histogram})
    total = sim.engine.tally(range(6))
    counts = unequal_federation().counts().sum(0)
    assert sorted(total) == ["logit_adjustment", "shares", "weighted_ce"]
    assert total["weighted_ce"]["counts"].equal(counts)
    assert total["logit_adjustment"]["counts"].equal(counts)
    assert total["shares"]["shares"].tolist() == [6 * (2**32 - 1)] * len(counts)


def test_a_method_that_counts_nothing_sends_nothing() -> None:
    sim = simulate("scaffold", privacy={"histogram": "masks"})
    sim.open()
    assert sim.engine.tallied == {}


def test_messages_and_bytes_are_those_of_the_protocol() -> None:
    """Two questions and two answers per client; in BFV one and one, and two of each for the key holder."""
    sims = {mode: simulate(COUNTING, privacy={"histogram": mode}) for mode in ("masks", "bfv")}
    for sim in sims.values():
        sim.open()
    masks, bfv = (sims[mode].engine.tallied for mode in ("masks", "bfv"))
    assert (masks["messages"], bfv["messages"]) == (4 * 6, 2 * 6 + 4)
    assert bfv["bytes_up"] > 6 * 88_000 > 100 * masks["bytes_up"]
    assert masks["clients"] == masks["asked"] == 6


def test_noise_changes_the_counts_and_never_below_zero() -> None:
    sim = simulate(COUNTING, privacy={"histogram": "masks", "epsilon": 0.05})
    found = torch.stack([sim.engine.tally(range(6))["weighted_ce"]["counts"] for _ in range(5)])
    assert found.min() >= 0
    assert (
        len({tuple(row) for row in found.tolist()}) == 5
    )  # as after a resume, which asks again: fresh noise


def test_noise_is_for_class_counts_only() -> None:
    method = compose(build_method(COUNTING), LARGE)
    with pytest.raises(
        ConfigError, match=r"privacy.epsilon is for class counts; shares tallies other numbers"
    ):
        simulate(method, privacy={"epsilon": 1.0})


def test_two_clients_are_refused_before_anything_runs() -> None:
    with pytest.raises(SecurityError, match="at least 3 clients, not 2"):
        simulate(
            COUNTING,
            federation=unequal_federation(sizes=(20, 30)),
            cohort=None,
            privacy={"histogram": "masks"},
        )


@pytest.mark.parametrize("wrong", [{"histogram": "rot13"}, {"epsilon": 0.0}, {"epsilon": -1}, {"noise": 1.0}])
def test_wrong_keys_are_one_line(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="privacy"):
        make_experiment({"privacy": wrong})


def test_client_counts_and_a_hidden_histogram_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match="use only one of them"):
        make_experiment({"privacy": {"histogram": "masks"}, "flower": {"client_counts": True}})


def _run(out: Path, **tables: Any) -> Path:
    start(make_experiment({**TINY, "method": COUNTING[:2], "rounds": 1, **tables}), out)
    return out


def test_the_record_and_the_commands_tell_what_was_sent(tmp_path: Path) -> None:
    out = _run(tmp_path / "out", privacy={"histogram": "masks", "epsilon": 2.0})
    tallied = json.loads(RunFolder(out).record.read_text())["tallied"]
    assert (tallied["histogram"], tallied["epsilon"], tallied["clients"]) == ("masks", 2.0, 4)
    assert tallied["messages"] == 16
    assert min(tallied["bytes_up"], tallied["bytes_down"], tallied["seconds"]) > 0
    shown = call("show", out).out
    assert (
        f"class counts of 4 of 4 clients (masks): 16 messages, {tallied['bytes_up'] / 1000:,.1f} kB" in shown
    )
    told = call("privacy", out).out
    for words in ("under pairwise masks", "epsilon 2", "Keys were not signed", "LLG, RLU", "a simulation"):
        assert words in told
    sections = json.loads(call("privacy", out, "--json").out)["sections"]
    assert list(sections) == [
        "Class counts before the first round",
        "The server learned",
        "What that can tell",
    ]


def _told(out: Path) -> str:
    found = privacy_report(read_result(out), learned_in(load_experiment(RunFolder(out).config)))
    return "\n".join(line for section in found for line in section.lines)


def test_the_report_says_what_each_run_tells(tmp_path: Path) -> None:
    plain = _told(_run(tmp_path / "plain"))
    assert "saw each client's numbers and added them up itself" in plain
    assert "signed" not in plain
    nothing = _told(_run(tmp_path / "nothing", method="fedavg"))
    assert "Nothing was added up" in nothing
    assert "Confusion counts" not in nothing
    held_out = {**TINY["partition"], "validation": 0.2}
    scored = _told(_run(tmp_path / "scored", partition=held_out, evaluate={"clients": True}))
    assert "add up to its class counts there" in scored
    assert "key holder" in _told(_run(tmp_path / "bfv", privacy={"histogram": "bfv"}))
    assert "FedWCM's scores s_k" in _told(_run(tmp_path / "fedwcm", method="fedwcm"))
    surveyed = {"method": {"fedhoo": {"clusters": 2}}, "partition": held_out, "cohort": {}}
    assert "told class counts of each client" in _told(_run(tmp_path / "fedhoo", **surveyed))


def test_a_part_that_weighs_by_what_clients_send_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedWCM's scores re-leak the histogram; a part that weighs by the server's own numbers does not."""
    scored, silent = (
        Part(name, weigh=lambda weights, slot, exchange: (weights, {})) for name in ("scored", "silent")
    )
    method = compose(build_method("fedavg"), scored, silent)
    monkeypatch.setattr("counterpoise.results.privacy.build_method", lambda spec: method)
    run = read_result(_run(tmp_path / "out"))
    found = privacy_report(run, [Learned("a score of its samples", ROUNDS, "scored")])
    told = [line for line in found[-1].lines if "FedWCM's scores" in line]
    assert len(told) == 1
    assert told[0].startswith("scored weighs clients")
