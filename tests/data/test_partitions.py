"""Every partition, whichever is registered: disjoint, complete, deterministic, quick, and above its minimum."""

from __future__ import annotations

import math
import time
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.data.partition import PARTITIONS, Split
from counterpoise.data.partitions.owners import draw_shares
from counterpoise.data.types import Labels
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Interval
from counterpoise.registry.settings import Parameter
from counterpoise.system import capacity

NAMES = PARTITIONS.names()
FLOATS = [1e-300, 1e-5, 0.01, 0.1, 0.5, 1.0, 3.0, 100.0, 1e6]
ONE_EACH = -(-10_000 // len(NAMES))  # so many cases a partition make 10,000 together


class Case(NamedTuple):
    labels: Labels
    clients: int
    seed: int


@st.composite
def cases(draw: st.DrawFn, least_each: int = 0) -> Case:
    """Up to 25 clients and 12 classes, from balanced to a few classes without any sample."""
    clients, classes = draw(st.integers(1, 25)), draw(st.integers(2, 12))
    samples = draw(st.integers(max(least_each * clients, 1), least_each * clients + 150))
    seed, decay = draw(st.integers(0, 2**32)), draw(st.sampled_from([1.0, 0.8, 0.3]))
    weights = decay ** np.arange(classes)
    y = np.random.default_rng(seed).choice(classes, samples, p=weights / weights.sum())
    return Case(Labels(y, classes, np.arange(samples) % clients), clients, seed)


def values_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    """Legal values by the schema alone, so that a new partition is tried with its own arguments."""
    interval = parameter.interval or Interval()
    if parameter.type is float:
        return st.sampled_from([value for value in FLOATS if value in interval])
    if parameter.type is int:
        low = int(max(interval.low, 0))
        return st.integers(low, int(min(interval.high, low + 14)))
    if parameter.type is bool:
        return st.booleans()
    if get_origin(parameter.type) is Literal:
        return st.sampled_from(get_args(parameter.type))
    return st.just(parameter.default)


def arguments_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    parameters = PARTITIONS.entry(name).parameters
    return st.fixed_dictionaries({}, optional={key: values_of(p) for key, p in parameters.items()})


def split_case(name: str, case: Case, arguments: dict[str, Any] | None = None) -> Split:
    return PARTITIONS.build(name, arguments)(case.labels, case.clients, np.random.default_rng(case.seed))


def minimum_of(name: str, arguments: dict[str, Any] | None = None) -> int:
    parameter = PARTITIONS.entry(name).parameters.get("minimum")
    return int((arguments or {}).get("minimum", parameter.default if parameter else 1))


def assert_sound(split: Split, case: Case, minimum: int) -> None:
    assert len(split.clients) == case.clients
    assert all(rows.dtype == np.int64 and (np.diff(rows) > 0).all() for rows in split.clients)
    everything = np.sort(np.concatenate(split.clients))
    assert (everything == np.arange(len(case.labels.y))).all()
    assert min(len(rows) for rows in split.clients) >= minimum
    assert all(isinstance(note, str) and "\n" not in note for note in split.repairs)


def assert_same(one: Split, other: Split) -> None:
    assert all((a == b).all() for a, b in zip(one.clients, other.clients, strict=True))
    assert one.repairs == other.repairs


def asks_too_much(case: Case, arguments: dict[str, Any], minimum: int) -> bool:
    """More samples or clients than there are, or a whole number that may stand for more classes than there are."""
    most = max((v for key, v in arguments.items() if type(v) is int and key != "minimum"), default=0)
    return max(minimum, 1) * case.clients > len(case.labels.y) or most > case.labels.classes


def split_or_refusal(name: str, case: Case, arguments: dict[str, Any]) -> Split | str:
    try:
        return split_case(name, case, arguments)
    except ConfigError as error:
        return str(error)


def assert_sound_or_refused(name: str, case: Case, arguments: dict[str, Any]) -> None:
    """With any valid arguments: a sound split, twice the same, or one line that says what is needed."""
    minimum = minimum_of(name, arguments)
    split = split_or_refusal(name, case, arguments)
    if isinstance(split, str):
        assert "must be" in split or "needs" in split
        assert "\n" not in split
        assert asks_too_much(case, arguments, minimum)
    else:
        assert_sound(split, case, minimum)
        assert_same(split, split_case(name, case, arguments))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_defaults_split_any_data_with_enough_samples(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(least_each=minimum_of(name)))
    assert_sound(split_case(name, case), case, minimum_of(name))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_arguments_give_a_sound_split_or_one_line(name: str, data: st.DataObject) -> None:
    assert_sound_or_refused(name, data.draw(cases()), data.draw(arguments_of(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=ONE_EACH, deadline=None)
def test_ten_thousand_cases_are_sound(name: str, data: st.DataObject) -> None:
    arguments = data.draw(arguments_of(name))
    assert_sound_or_refused(name, data.draw(cases(minimum_of(name, arguments))), arguments)


def long_tail(classes: int, size: int, factor: float, clients: int) -> Case:
    sizes = [math.floor(size * factor ** (-c / (classes - 1))) for c in range(classes)]
    y = np.repeat(np.arange(classes), sizes)
    return Case(Labels(y, classes, np.arange(len(y)) % clients), clients, 3)


@pytest.mark.parametrize("clients", [100, 1000])
@pytest.mark.parametrize(("classes", "size"), [(10, 5000), (100, 500)])
@pytest.mark.parametrize("name", NAMES)
def test_hard_settings_end_soon(name: str, classes: int, size: int, clients: int) -> None:
    case = long_tail(classes, size, 100, clients)
    arguments = {"alpha": 0.01} if "alpha" in PARTITIONS.entry(name).parameters else {}
    start = time.perf_counter()
    split = split_case(name, case, arguments)
    assert time.perf_counter() - start < 10  # well under one second when nothing else runs
    assert_sound(split, case, minimum_of(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "natural"])
def test_another_stream_gives_another_split(name: str) -> None:
    case = long_tail(10, 300, 5, 10)
    one, other = split_case(name, case), split_case(name, case._replace(seed=4))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one.clients, other.clients, strict=True))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "natural"])
def test_what_cannot_be_split_is_refused(name: str) -> None:
    case = long_tail(4, 10, 1, 8)  # 40 samples
    with pytest.raises(
        ConfigError, match=r"8 clients with at least 6 samples each need 48 samples, .* are 40"
    ):
        split_case(name, case, {"minimum": 6})
    assert_sound(split_case(name, case, {"minimum": 5}), case, 5)
    with pytest.raises(ConfigError, match=r"41 clients .*; needs at most 40 clients, or a smaller minimum"):
        split_case(name, case._replace(clients=41), {"minimum": 1})
    with pytest.raises(ConfigError, match="clients must be at least 1, not 0"):
        split_case(name, case._replace(clients=0))
    with pytest.raises(ConfigError, match="no samples"):
        split_case(name, Case(Labels(np.zeros(0, np.int64), 4), 3, 0), {"minimum": 0})


@pytest.mark.parametrize("name", [name for name in NAMES if name != "natural"])
def test_a_number_of_clients_that_no_machine_holds_is_refused_before_anything_is_made(name: str) -> None:
    labels = Labels(np.arange(100) % 4, 4)
    with pytest.raises(ConfigError, match=r"^clients must be at most 10,000,000, not 100,000,000$"):
        PARTITIONS.build(name, {"minimum": 0})(labels, 100_000_000, np.random.default_rng(0))


def test_clients_are_compared_with_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 1 << 30)
    labels, rule = Labels(np.arange(100) % 4, 4), PARTITIONS.build("iid", {"minimum": 0})
    with pytest.raises(ConfigError, match=r"^clients = 1,000,000 needs 1\.4 GB of memory; at most 1"):
        rule(labels, 1_000_000, np.random.default_rng(0))
    assert len(rule(labels, 1_000, np.random.default_rng(0)).clients) == 1_000


def test_drawing_shares_takes_no_table_of_clients_by_clients() -> None:
    shares = draw_shares(0.5, (2, 500_000), np.random.default_rng(0))  # two terabytes
    assert shares.sum(axis=-1).tolist() == pytest.approx([1, 1])
