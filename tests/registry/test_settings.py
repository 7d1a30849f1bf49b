"""One schema of settings: a file, a dict and Python are taken alike, and refused in the same words."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.core.local import Local, cosine
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.registry.settings import Settings
from counterpoise.run.config.experiment import Experiment, make_experiment, parse_experiment
from counterpoise.run.config.tables import DataTable, EvaluateTable, PartitionTable, ShotsTable
from counterpoise.server.cohort import Cohort
from counterpoise.system.toml import write_toml

FORMS: dict[str, type[Settings]] = {"local": Local, "cohort": Cohort, "engine": EngineSettings}
KEYS = [(table, key) for table, form in FORMS.items() for key in form.parameters()]
WORDS = [
    "auto", "loop", "stacked", "flower", "cpu", "exact", "bernoulli", "pad", "wrap", "drop", "full", "tf32", "float32",
    "float64", "constant", "cosine", "cosin", "", "Loop", "x" * 200, "a{b}c",
]  # fmt: skip
NUMBERS = st.sampled_from(
    [0, 1, 2, 512, 513, 10_000, 10_001, 1 << 20, (1 << 20) + 1, -1, 0.0, -0.0, 0.5, 1.0]
)
PLAIN = (
    NUMBERS
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.booleans()
    | st.sampled_from(WORDS)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
)
SCHEDULES = st.dictionaries(
    st.sampled_from(["cosine", "factor", "steps", "nonsense"]),
    PLAIN | st.dictionaries(st.sampled_from(["floor", "by", "at"]), PLAIN | st.lists(PLAIN, max_size=2)),
    max_size=2,
)
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | SCHEDULES


def outcome_of(make: Any) -> Any:
    """The settings, or the line that refuses them without its source."""
    try:
        return make()
    except ConfigError as error:
        return str(error).removeprefix("experiment: ")


@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize(("table", "key"), KEYS)
@given(value=VALUES)
def test_a_file_a_dict_and_python_agree(table: str, key: str, value: Any) -> None:
    form = FORMS[table]
    made = outcome_of(lambda: form(**{key: value}))
    assert outcome_of(lambda: form.read({key: value})) == made
    assert outcome_of(lambda: getattr(make_experiment({table: {key: value}}), table)) == made
    text = write_toml({table: {key: value}})
    assert outcome_of(lambda: getattr(parse_experiment(text), table)) == made
    if isinstance(made, str):
        assert len(made.splitlines()) == 1
        assert made.startswith((f"{table}.{key}", "schedule "))


@pytest.mark.parametrize(
    ("table", "key", "inside", "outside"),
    [
        ("local", "lr", 0, -1e-300),
        ("engine", "processes", 512, 513),
        ("engine", "threads", 512, 513),
        ("cohort", "size", 1, 0),
        ("cohort", "max_influence", 0, 0.5),
        ("cohort", "max_influence", 1, 0.999),
    ],
)
def test_bounds_are_the_same_in_python_and_in_a_file(table: str, key: str, inside: Any, outside: Any) -> None:
    form = FORMS[table]
    assert getattr(form(**{key: inside}), key) == inside
    assert getattr(getattr(parse_experiment(f"{table}.{key} = {inside}"), table), key) == inside
    for make in (
        lambda: form(**{key: outside}),
        lambda: replace(form(), **{key: outside}),
        lambda: parse_experiment(f"{table}.{key} = {outside}"),
    ):
        with pytest.raises(ConfigError, match=rf"{table}\.{key} must be .*, not "):
            make()


def test_settings_are_made_by_place_and_by_name() -> None:
    engine = EngineSettings("loop", "cpu", processes=1)
    assert (engine.name, engine.device, engine.processes) == ("loop", "cpu", 1)
    assert Cohort(3, "bernoulli") == Cohort(size=3, sampling="bernoulli")
    assert Local(1).lr == 1.0


def test_tables_within_settings_may_be_dicts() -> None:
    groups = {"head": [0], "medium": [1], "tail": [2]}
    given = Experiment(local={"lr": 0.5}, evaluate={"shots": groups})  # type: ignore[arg-type]
    assert given.local == Local(lr=0.5)
    assert given.evaluate == EvaluateTable(shots=ShotsTable([0], [1], [2]))
    assert given == make_experiment({"local": {"lr": 0.5}, "evaluate": {"shots": groups}})


def test_further_keys_of_an_open_table_are_arguments_whatever_they_are_called() -> None:
    read = PartitionTable.read({"name": "iid", "alpha": 0.5, "arguments": 3})
    assert read.arguments == {"alpha": 0.5, "arguments": 3}
    assert read == PartitionTable("iid", arguments={"alpha": 0.5, "arguments": 3})
    assert {key: read.tables()[key] for key in ("name", "alpha", "arguments")} == read.given()


def test_what_was_written_is_known_also_where_it_is_the_default() -> None:
    tables = {"rounds": 50, "partition": {"name": "dirichlet", "alpha": 1.0}, "local": {}}
    assert make_experiment(tables).given() == tables
    assert Experiment(rounds=50, local=Local(lr=0.5)).given() == {"local": {"lr": 0.5}}


def test_tables_are_plain() -> None:
    table = DataTable(arguments={"when": datetime.date(2020, 1, 2), "sizes": (1, 2)}).tables()
    assert (table["when"], table["sizes"]) == ("2020-01-02", [1, 2])


def test_a_schedule_of_python_alone_is_for_local_and_not_for_a_file() -> None:
    local = Local(schedule=cosine())
    with pytest.raises(ConfigError, match=r"local\.schedule of an experiment must be a name"):
        Experiment(local=local)
