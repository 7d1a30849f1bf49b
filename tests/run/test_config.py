"""Configs: every key is known, every value has a range, and an error names the key, what was given and what is legal."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import TINY, tiny

from counterpoise.core.method import METHODS, PARTS
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import is_table
from counterpoise.registry.settings import OpenTable, Settings
from counterpoise.run.config.experiment import (
    Experiment,
    load_experiment,
    make_experiment,
    open_experiment,
    parse_experiment,
)
from counterpoise.system.toml import override, write_toml

TABLES: dict[str, type[Settings]] = {
    name: parameter.type for name, parameter in Experiment.parameters().items() if is_table(parameter.type)
}
CLOSED = [name for name, table in TABLES.items() if not issubclass(table, OpenTable)]


def refusal(*assignments: str) -> str:
    """The one line that says why the experiment is not legal."""
    with pytest.raises(ConfigError) as caught:
        tiny(*assignments)
    assert caught.value.exit_code == 2
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_every_key_is_described(name: str) -> None:
    assert TABLES[name].__doc__
    for key, parameter in TABLES[name].parameters().items():
        assert parameter.description, key


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("round", "rounds"),
        ("sed", "seed"),
        ("methods", "method"),
        ("datas", "data"),
        ("cohort.sise", "size"),
        ("local.learning_rate", None),
        ("local.epoch", "epochs"),
        ("local.momentom", "momentum"),
        ("engine.proceses", "processes"),
        ("engine.devise", "device"),
        ("evaluate.evry", "every"),
        ("checkpoint.kep", "keep"),
        ("str", None),
        ("int", None),
        ("float", "local"),
        ("local.str", None),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_legal_one(key: str, near: str | None) -> None:
    line = refusal(f"{key}=1")
    assert f"no key {key}; " in line
    assert (f"did you mean '{near}'?" in line) if near else ("one of " in line)


@pytest.mark.parametrize("table", CLOSED)
def test_all_legal_keys_are_told(table: str) -> None:
    line = refusal(f"{table}.nonsense=1")
    for key in TABLES[table].parameters():
        assert key in line


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("seed=-1", "seed must be ... not -1"),
        ("seed=1.5", "seed must be ... not 1.5"),
        ("seed=true", "seed must be ... not True"),
        ("seed='1'", "seed must be ... not '1'"),
        (f"seed={2**63}", "seed must be ... not "),
        ("rounds=0", "rounds must be ... not 0"),
        ("rounds=-3", "rounds must be ... not -3"),
        ("rounds=1e3", "rounds must be ... not 1000.0"),
        ("rounds=many", "rounds must be ... not 'many'"),
        ("rounds=[1]", "rounds must be ... not [1]"),
        ("rounds=1979-05-27", "rounds must be ... not "),
        ("data=digits", "data must be a table (data.name, "),
        ("local=3", "local.lr"),
        ("checkpoint=[]", "checkpoint.every, checkpoint.keep"),
        ("data.name=3", "data.name must be ... not 3"),
        ("data.root=3", "data.root must be ... not 3"),
        ("data.imbalance=inf", "data.imbalance must be ... not inf"),
        ("data.imbalance=nan", "data.imbalance must be ... not nan"),
        ("data.imbalance=true", "data.imbalance must be ... not True"),
        ("data.imbalance={step=1}", "data.imbalance.step must be a table, not 1"),
        ("data.validation=1.0", "data.validation must be ... not 1.0"),
        ("data.validation=-0.1", "data.validation must be ... not -0.1"),
        ("data.augment=flip", "data.augment must be ... not 'flip'"),
        ("data.augment=[3]", "data.augment.0 must be ... not 3"),
        ("partition.clients=-1", "partition.clients must be ... not -1"),
        ("partition.clients=2.0", "partition.clients must be ... not 2.0"),
        ("partition.validation=nan", "partition.validation must be ... not nan"),
        ("cohort.size=0", "cohort.size must be ... not 0"),
        ("cohort.sampling=uniform", "cohort.sampling must be 'exact' or 'bernoulli', not 'uniform'"),
        ("local.lr=-0.1", "local.lr must be ... not -0.1"),
        ("local.lr=inf", "local.lr must be ... not inf"),
        ("local.lr=nan", "local.lr must be ... not nan"),
        ("local.lr=fast", "local.lr must be ... not 'fast'"),
        ("local.lr=.5", "local.lr must be ... not '.5'"),
        ("local.lr=true", "local.lr must be ... not True"),
        ("local.lr={a=1}", "local.lr must be ... not {'a': 1}"),
        ("local.schedule=3", "local.schedule must be ... not 3"),
        ("local.schedule={cosine=1}", "local.schedule.cosine must be ... not 1"),
        ("local.batch_size=0", "local.batch_size must be ... not 0"),
        ("local.batch_size=1000000000000", "local.batch_size must be ... not 1000000000000"),
        ("local.epochs=0", "local.epochs must be ... not 0"),
        ("local.epochs=1000000000000", "local.epochs must be ... not 1000000000000"),
        ("local.momentum=1", "local.momentum must be ... not 1"),
        ("local.weight_decay=inf", "local.weight_decay must be ... not inf"),
        ("local.clip=0", "local.clip must be ... not 0"),
        ("local.batching=fill", "local.batching must be 'auto' or 'pad' or 'wrap' or 'drop', not 'fill'"),
        ("engine.name=loops", "engine.name must be 'auto' or 'loop' or 'stacked' or 'flower', not 'loops'"),
        ("engine.compile=True", "engine.compile must be ... not 'True'"),
        ("engine.processes=100000", "engine.processes must be ... not 100000"),
        ("engine.threads=0", "engine.threads must be ... not 0"),
        ("engine.threads=100000", "engine.threads must be ... not 100000"),
        ("engine.dtype=float16", "'float32' or 'float64'"),
        ("evaluate.every=0", "evaluate.every must be ... not 0"),
        ("evaluate.shots=papr", "evaluate.shots must be 'rule' or 'paper' or { head, medium, tail }, not 'papr'"),
        ("evaluate.shots={head=[0]}", "evaluate.shots.medium is missing"),
        ("evaluate.shots={head=[0],medium=[1],tail=[2],tial=[3]}", "no key evaluate.shots.tial; did you mean 'tail'?"),
        ("evaluate.shots={head=['a'],medium=[1],tail=[2]}", "evaluate.shots.head.0 must be ... not 'a'"),
        ("evaluate.recall_weights=[inf]", "evaluate.recall_weights.0 must be ... not inf"),
        ("evaluate.recall_weights=[1,-1]", "evaluate.recall_weights.1 must be ... not -1"),
        ("checkpoint.keep=1", "checkpoint.keep must be ... not 1"),
        ("checkpoint.every=0", "checkpoint.every must be ... not 0"),
    ],
)  # fmt: skip
def test_an_illegal_value_is_named_with_its_key(assignment: str, words: str) -> None:
    key, _, given = words.partition(" ... ")
    line = refusal(assignment)
    assert key in line
    assert given in line


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("rounds = 0")
    with pytest.raises(ConfigError, match=str(path)):
        load_experiment(path)


def test_what_was_given_is_shortened() -> None:
    assert len(refusal(f"local.lr={'x' * 10_000}")) < 200


def test_of_the_file_and_the_command_line_the_latter_counts(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("seed = 1\n[local]\nlr = 0.5\nepochs = 3")
    experiment = open_experiment(path, ["local.lr=0.25", "rounds=7"])
    assert (experiment.seed, experiment.rounds) == (1, 7)
    assert (experiment.local.lr, experiment.local.epochs) == (0.25, 3)


def test_an_empty_file_is_a_legal_experiment() -> None:
    assert parse_experiment("") == Experiment()


def test_whole_numbers_serve_as_numbers_and_nothing_else_converts() -> None:
    assert tiny("local.lr=1").local.lr == 1.0
    assert tiny("data.imbalance=100").data.imbalance == 100.0


def test_further_keys_of_open_tables_are_arguments() -> None:
    experiment = tiny("partition.alpha=0.25", "model.hidden=[3]", "data.anything=1")
    assert experiment.partition.arguments == {"alpha": 0.25}
    assert experiment.model.arguments == {"hidden": [3]}
    assert experiment.data.arguments == {"anything": 1}


def test_an_experiment_cannot_be_changed_by_hand() -> None:
    with pytest.raises(FrozenInstanceError):
        tiny().local.lr = 3.0  # type: ignore[misc]


METHOD_ITEMS = st.one_of(
    st.sampled_from([*METHODS.names(), *PARTS.names()]),
    st.dictionaries(
        st.sampled_from(METHODS.names()),
        st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(-9, 9) | st.floats(-9, 9)),
        min_size=1,
        max_size=2,
    ),
)
ASSIGNMENTS: dict[str, st.SearchStrategy[Any]] = {
    "seed": st.integers(0, 2**63 - 1),
    "rounds": st.integers(1, 10**6),
    "method": METHOD_ITEMS | st.lists(METHOD_ITEMS, min_size=1, max_size=3),
    "data.imbalance": st.floats(0.001, 1000) | st.just({"step": {"factor": 3.0}}),
    "data.root": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "data.augment": st.lists(st.sampled_from(["flip", {"crop": {"padding": 2}}]), max_size=2),
    "partition.alpha": st.floats(0.001, 100),
    "partition.seed": st.integers(0, 99),
    "cohort.size": st.integers(1, 9),
    "local.lr": st.floats(1e-9, 10),
    "local.clip": st.floats(1e-9, 10),
    "model.hidden": st.lists(st.integers(1, 99), max_size=3),
    "evaluate.shots": st.sampled_from(["rule", {"head": [0], "medium": [1], "tail": [2, 3]}]),
    "evaluate.recall_weights": st.lists(st.floats(0, 10), max_size=3),
}


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=ASSIGNMENTS))
def test_a_config_that_is_written_and_read_again_is_the_same(changes: dict[str, Any]) -> None:
    tables = TINY
    for path, value in changes.items():
        *outer, key = path.split(".")
        tables = tables | ({outer[0]: tables.get(outer[0], {}) | {key: value}} if outer else {key: value})
    experiment = make_experiment(tables)
    text = write_toml(experiment.tables())
    again = parse_experiment(text)
    assert again.tables() == experiment.tables()
    assert write_toml(again.tables()) == text
    assert tomllib.loads(text).keys() <= Experiment.parameters().keys()


@given(st.fixed_dictionaries({}, optional=ASSIGNMENTS))
def test_the_command_line_says_what_the_file_can_say(changes: dict[str, Any]) -> None:
    tables: dict[str, Any] = {}
    for path, value in changes.items():
        tables = override(tables, write_toml({"x": [value]}).replace("x = [", f"{path} = ", 1).strip()[:-1])
    assert tables == _nested(changes)


def _nested(changes: dict[str, Any]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for path, value in changes.items():
        *outer, key = path.split(".")
        place = tables.setdefault(outer[0], {}) if outer else tables
        place[key] = value
    return tables


def test_what_may_change_when_a_run_goes_on_is_not_binding() -> None:
    usual = tiny().binding_tables()
    assert (
        tiny(
            "engine.processes=2", "engine.reason=x", "checkpoint.every=5", "checkpoint.keep=9"
        ).binding_tables()
        == usual
    )
    for binding in ("engine.chunk=3", "engine.threads=2", "engine.name=loop", "seed=1", "evaluate.every=2"):
        assert tiny(binding).binding_tables() != usual
