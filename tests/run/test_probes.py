"""Probes of a run: how a config names them, what rows, record and commands tell, and that they change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import STACKED, run_rounds, share_samples, simulate, small_model, unequal_federation
from runs import Hearing, assert_refused, call, read_strictly, read_summary, tiny, write_tiny

from counterpoise.api import simulate as simulate_from_python
from counterpoise.core.local import Local
from counterpoise.errors import ConfigError
from counterpoise.metrics.concentration import concentrations
from counterpoise.metrics.probe import PROBES, Numbers, Probe, View, build_probes, probe
from counterpoise.results.labels import label_problems
from counterpoise.results.results import read_results
from counterpoise.run.assemble import load_federation
from counterpoise.run.build import build_simulation
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.joined import join
from counterpoise.run.runner import resume, start
from counterpoise.run.simulation import Simulation, advance, evaluate
from counterpoise.run.store.folder import RunFolder, read_rows
from counterpoise.run.track import scores_of
from counterpoise.server.state import ServerState

PROBED = 'evaluate.probes=["concentration"]'


def probed(**settings: Any) -> Simulation:
    """A run in float64 on a small federation, probed."""
    federation = settings.pop("federation", None) or unequal_federation()
    given = {"local": Local(lr=0.1, batch_size=12), "rounds": 3, "cohort": 3, "seed": 46, **settings}
    given["engine"] = given.get("engine", "loop")
    model = given.pop("model", None) or small_model(shape=federation.input_shape, hidden=[6, 4])
    return build_simulation(
        federation, "fedavg", model, draw_parameters=True, probes=["concentration"], **given
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probed") / "run"
    start(tiny(PROBED, "model.hidden=[8, 6]", "evaluate.every=2"), folder)
    return folder


@pytest.fixture
def plugin() -> Iterator[None]:
    """A probe as a plugin would add it, known for one test."""
    PROBES.names()
    known = dict(PROBES._entries)

    @probe()
    def samples_seen(factor: float = 1.0) -> Probe:
        """``factor`` times the samples seen."""

        def look(view: View) -> Numbers:
            return {"mean": factor * sum(len(batch.y) for batch in view.batches())}

        return Probe(look)

    yield
    PROBES._entries.clear()
    PROBES._entries.update(known)


def test_rows_of_evaluated_rounds_have_the_numbers_of_each_layer(run: Path) -> None:
    rows = read_rows(RunFolder(run).metrics)
    assert ["probes" in row for row in rows] == [False, True, False, True]
    found = rows[-1]["probes"]["concentration"]
    assert list(found) == ["mean", "body.3", "body.6"]
    assert found["mean"] == pytest.approx((found["body.3"] + found["body.6"]) / 2)
    assert 0 < found["mean"] < 1
    assert read_summary(run)["probes"] == rows[-1]["probes"]


def test_the_numbers_are_those_of_the_presented_model_on_the_test_inputs() -> None:
    sim = probed(federation=(federation := unequal_federation()))
    state = run_rounds(sim)
    module, x = sim.module(state).requires_grad_(False), federation.test.x.float()
    first, second = (module.body[:4], module.body[:7])
    wanted = [float(concentrations(half(x)).mean()) for half in (first, second)]
    found = sim.evaluate(state)["probes"]["concentration"]
    assert [found["body.3"], found["body.6"]] == pytest.approx(wanted, rel=1e-5)


def test_a_model_that_a_part_presents_is_the_one_that_is_probed() -> None:
    federation, probes = unequal_federation(), [{"concentration": {"layers": "head"}}]
    method = ["fedavg", "logit_adjustment"]
    sim = build_simulation(federation, method, rounds=2, seed=46, engine="loop", probes=probes)
    state = run_rounds(sim)
    presented, trained = sim.module(state), sim.work.model.load(state.params, state.buffers)
    with torch.no_grad():
        wanted, other = (
            float(concentrations(module(federation.test.x.float())).mean()) for module in (presented, trained)
        )
    assert sim.evaluate(state)["probes"]["concentration"]["head"] == pytest.approx(wanted, rel=1e-5)
    assert abs(wanted - other) > 1e-3


def test_the_record_names_the_layers_that_were_found(run: Path) -> None:
    record = json.loads((run / "record.json").read_text())
    numbers = ["mean", "body.3", "body.6"]
    assert record["probes"] == [
        {"name": "concentration", "title": "Neuron concentration", "numbers": numbers}
    ]


def test_validate_names_them_too(tmp_path: Path) -> None:
    told = call("validate", write_tiny(tmp_path), PROBED)
    assert "probe      concentration: mean, body.3\n" in told.out


def test_a_probe_changes_neither_the_model_nor_any_other_score(tmp_path: Path) -> None:
    plain, watched = start(tiny(), tmp_path / "plain"), start(tiny(PROBED), tmp_path / "watched")
    for summary in (plain, watched):
        for key in ("seconds", "state_sha256", "files_sha256", "seal", "sha256"):
            summary.pop(key, None)
    assert plain["params_sha256"] == watched["params_sha256"]
    assert watched.pop("probes").keys() == {"concentration"}
    assert watched == plain
    rows = [read_rows(RunFolder(tmp_path / name).metrics) for name in ("plain", "watched")]
    assert [{key: row[key] for key in row if key != "probes"} for row in rows[1]] == rows[0]


def test_running_statistics_are_as_without_a_probe() -> None:
    shape = (2, 6, 6)
    settings = {
        "federation": unequal_federation(shape),
        "local": Local(lr=0.05, batch_size=16, batching="wrap"),
    }
    ended = []
    for probes in ((), ("concentration",)):
        model = small_model("resnet8", shape, norm="batch", width=2)
        sim = build_simulation(
            settings["federation"], "fedavg", model, rounds=2, seed=46, cohort=3, local=settings["local"],
            engine="loop", draw_parameters=True, probes=probes,
        )  # fmt: skip
        state = sim.open()
        for _ in range(2):
            state, _ = sim.advance(state)
            before = {name: b.clone() for name, b in state.buffers.items()}
            sim.evaluate(state)
            assert all(torch.equal(state.buffers[name], b) for name, b in before.items())
        assert not any(layer._forward_hooks for layer in sim.work.model.module.modules())
        ended.append(state)
    for tree in ("params", "buffers"):
        one, other = getattr(ended[0], tree), getattr(ended[1], tree)
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_resumed_run_has_the_same_rows(run: Path, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(row: Any, rounds: int) -> None:
        if row["round"] == 2:
            raise StoppedError

    experiment = tiny(PROBED, "model.hidden=[8, 6]", "evaluate.every=2")
    with pytest.raises(StoppedError):
        start(experiment, tmp_path / "run", [Hearing(stop)])
    resume(tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


def test_probes_belong_to_what_a_resumed_run_must_keep(run: Path) -> None:
    config = (run / "config.toml").read_text()
    assert 'probes = ["concentration"]' in config
    assert "probes" in tiny(PROBED).binding_tables()["evaluate"]


def test_a_run_that_began_before_there_were_probes_can_be_resumed() -> None:
    assert tiny().binding_tables()["evaluate"]["probes"] is None  # as a key that was not there reads


def test_joined_seeds_are_probed_as_each_alone() -> None:
    seeds, federation = (46, 3), unequal_federation()
    engine = {"name": "stacked", "device": "cpu", "dtype": "float64"}
    together = join(
        [
            probed(seed=seed, engine=engine, federation=share_samples(first, unequal_federation()))
            for first in [simulate("fedavg", engine=STACKED, federation=federation).work.federation]
            for seed in seeds
        ]
    )
    states: list[ServerState] = [sim.open() for sim in together]
    for _ in range(3):
        states = [state for state, _ in advance(together, states)]
    for seed, row in zip(seeds, evaluate(together, states), strict=True):
        alone = probed(seed=seed, engine=engine)
        wanted = alone.evaluate(run_rounds(alone))["probes"]["concentration"]
        assert row["probes"]["concentration"] == pytest.approx(wanted, abs=1e-8)
    first, second = (row["probes"] for row in evaluate(together, states))
    assert first != second


def test_the_servers_validation_samples_are_looked_at_where_there_are_any() -> None:
    experiment = tiny(PROBED, "data.validation=0.2")
    federation = load_federation(experiment)
    assert federation.validation is not None
    seen: list[int] = []

    def look(view: View) -> Numbers:
        seen.append(sum(len(batch.y) for batch in view.batches()))
        return {}

    sim = build_simulation(federation, "fedavg", rounds=1, probes=[Probe(look, name="count")])
    sim.evaluate(sim.open())
    assert seen == [1, len(federation.validation.y)]


def test_from_python_a_run_takes_probes_by_name(plugin: None) -> None:
    federation = load_federation(tiny())
    found = simulate_from_python(
        federation, rounds=1, probes=["concentration", {"samples_seen": {"factor": 2.0}}]
    )
    assert found.rows[0]["probes"]["samples_seen"] == {"mean": 2.0 * len(federation.test.y)}
    assert found["probes"].keys() == {"concentration", "samples_seen"}


def test_a_probe_of_a_plugin_is_listed_shown_and_run(plugin: None, tmp_path: Path) -> None:
    assert "samples_seen" in call("ls", "probes").out
    assert "factor: a number" in call("show", "samples_seen").out
    ran = call(
        "run", write_tiny(tmp_path, "rounds=1"), 'evaluate.probes=["samples_seen"]', "--out", tmp_path / "run"
    )
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["probes"] == [{"name": "samples_seen", "title": "samples_seen", "numbers": ["mean"]}]


def test_show_tells_the_definition_and_whose_it_is() -> None:
    told = call("show", "concentration")
    assert told.code == 0
    assert "concentration  (probes)" in told.out
    assert "(sum_j p_j^2 - 1/d) / (1 - 1/d)" in told.out
    assert "The definition is ours" in told.out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('["consentration"]', "evaluate.probes: no probe 'consentration'; did you mean 'concentration'?"),
        ('"concentration"', "evaluate.probes must be list of"),
        ("[3]", "evaluate.probes.0 must be"),
        ('[{concentration={layer="x"}}]', "probe concentration: no argument 'layer'; did you mean 'layers'?"),
        ("[{concentration={layers=3}}]", "probe concentration: layers must be a word or list of a word"),
        ('[{concentration={layers="bodi.3"}}]', "layers: 'bodi.3' fits no layer; did you mean 'body.3'?"),
        ('["concentration", "concentration"]', "evaluate.probes: 'concentration' is listed twice"),
        ("[{concentration={}, other={}}]", "evaluate.probes must be one name"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_one_line(tmp_path: Path, given: str, words: str) -> None:
    out = tmp_path / "run"
    assert_refused(call("run", write_tiny(tmp_path), f"evaluate.probes={given}", "--out", out), 2, words)
    assert not out.exists()


def test_a_model_without_a_hidden_layer_is_refused(tmp_path: Path) -> None:
    refused = call("validate", write_tiny(tmp_path, "model.hidden=[]"), PROBED)
    assert_refused(refused, 2, "no activation layer of 2 units or more", "one of body, body.0, head")


@pytest.mark.parametrize(
    "given", ['["concentration"]', "[{concentration={}}]", '[{concentration={layers="body.3"}}]', '[{concentration={layers=["body.3"]}}]']
)  # fmt: skip
def test_each_way_to_write_a_probe_gives_the_same(given: str) -> None:
    experiment: Experiment = tiny(f"evaluate.probes={given}")
    (built,) = build_probes(experiment.evaluate.probes or ())
    assert (built.name, built.title) == ("concentration", "Neuron concentration")
    sim = probed(model=small_model(hidden=[6]))
    names = build_simulation(
        unequal_federation(),
        "fedavg",
        small_model(hidden=[6]),
        rounds=1,
        probes=experiment.evaluate.probes or (),
    ).probe_names()
    assert names == sim.probe_names() == {"concentration": ["mean", "body.3"]}


def test_probes_from_python_must_be_a_list() -> None:
    with pytest.raises(ConfigError, match=r"evaluate\.probes must be a list of names, not 'concentration'"):
        build_probes("concentration")


def test_a_dead_model_leaves_rows_that_json_can_hold() -> None:
    sim = probed(model=small_model(hidden=[6], activation="relu"))
    state = sim.open()
    params = {
        name: torch.full_like(value, -1.0 if "bias" in name else 0.0) for name, value in state.params.items()
    }
    row = sim.evaluate(replace(state, params=params))
    assert row["probes"]["concentration"] == {"mean": None, "body.3": None}
    read_strictly(json.dumps(row["probes"]))


def test_trackers_get_the_numbers(run: Path) -> None:
    row = read_rows(RunFolder(run).metrics)[-1]
    assert scores_of(row)["probes/concentration/body.3"] == row["probes"]["concentration"]["body.3"]


def test_runs_with_and_without_a_probe_are_of_one_problem(tmp_path: Path) -> None:
    start(tiny("rounds=1"), tmp_path / "a")
    start(tiny("rounds=1", PROBED, "seed=1"), tmp_path / "b")
    assert set(label_problems(read_results([tmp_path]))) == {""}
