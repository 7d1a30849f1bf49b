"""Whatever a Python caller gives: it works where it is plainly meant, and else one line says what is legal."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from federations import small_model, unequal_federation

import counterpoise as cp
from counterpoise.api import SimulationResult
from counterpoise.core.local import cosine
from counterpoise.data.dataset import no_scaling
from counterpoise.data.prepare import apply_imbalance
from counterpoise.errors import ConfigError, DataError

X = torch.arange(24.0).view(12, 2)
Y = torch.arange(12) % 3
FEDERATION, MODEL = unequal_federation(), small_model()


def dataset(x: Any = X, y: Any = Y, **other: Any) -> cp.Dataset:
    """Twelve samples of three classes; the test set is the training set unless given."""
    given = {"test": cp.Samples(X, Y), "classes": ("a", "b", "c")} | other
    return cp.Dataset("mine", cp.Samples(x, y), **given)


def simulate(**given: Any) -> SimulationResult:
    """One round on a small federation, with what is given put in."""
    pieces: dict[str, Any] = {"federation": FEDERATION, "model": MODEL, "rounds": 1, "engine": "loop"}
    return cp.simulate(**(pieces | given))


def assert_one_line(refused: pytest.ExceptionInfo[Any], *words: str) -> None:
    text = str(refused.value)
    assert "\n" not in text
    assert all(word in text for word in words), text


LOCAL = {
    "negative rate": ({"lr": -1}, "lr must be", "not -1", "a number in [0, inf)"),
    "rate that is no number": ({"lr": "0.1"}, "lr must be", "not '0.1'", "a number"),
    "NaN rate": ({"lr": float("nan")}, "lr must be", "not nan", "a number"),
    "momentum above one": ({"momentum": 3}, "momentum must be", "not 3", "[0, 1)"),
    "no epochs": ({"epochs": 0}, "epochs must be", "not 0", "a whole number in [1, 10000]"),
    "half an epoch": ({"epochs": 0.5}, "epochs must be", "not 0.5", "a whole number"),
    "no batch": ({"batch_size": 0}, "batch_size must be", "not 0", "a whole number in [1, "),
    "unknown batching": ({"batching": "wrp"}, "batching must be", "not 'wrp'", "'pad' or 'wrap' or 'drop'"),
    "clip of zero": ({"clip": 0}, "clip must be", "not 0", "a number in (0, inf) or none"),
    "negative decay": ({"weight_decay": -0.1}, "weight_decay must be", "not -0.1", "[0, inf)"),
    "schedule that is none": (
        {"schedule": 5},
        "local.schedule must be a function or a word or { name",
        "not 5",
    ),
    "misspelt schedule": ({"schedule": "cosin"}, "no schedule 'cosin'; did you mean 'cosine'?"),
    "schedule's argument": (
        {"schedule": {"cosine": {"flor": 0}}},
        "no argument 'flor'; did you mean 'floor'?",
    ),
}


@pytest.mark.parametrize(("given", "words"), [(g, w) for g, *w in LOCAL.values()], ids=LOCAL)
def test_a_wrong_local_setting_is_told_where_it_is_made(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        cp.Local(**given)
    assert_one_line(refused, *words)
    with pytest.raises(ConfigError) as refused:
        simulate(local=given)
    assert_one_line(refused, *words)


SIMULATE = {
    "no rounds": ({"rounds": 0}, "rounds must be", "not 0", "a whole number in [1, inf)"),
    "half a round": ({"rounds": 1.5}, "rounds must be", "not 1.5", "a whole number"),
    "never evaluated": (
        {"evaluate_every": 0},
        "evaluate_every must be",
        "not 0",
        "a whole number in [1, inf)",
    ),
    "negative seed": ({"seed": -1}, "seed must be", "not -1", "a whole number in [0, "),
    "half a seed": ({"seed": 0.5}, "seed must be", "not 0.5", "a whole number"),
    "misspelt argument": ({"modl": "mlp"}, "simulate: no argument 'modl'; did you mean 'model'?"),
    "argument of local": ({"lr": 0.1}, "simulate: no argument 'lr'", "local={'lr': ...}"),
    "argument of engine": ({"device": "cpu"}, "no argument 'device'", "engine={'device': ...}"),
    "misspelt local": ({"local": {"lrr": 0.1}}, "no key local.lrr; did you mean 'lr'?"),
    "local that is a number": (
        {"local": 0.1},
        "local must be a table (local.lr, local.batch_size",
        "not 0.1",
    ),
    "misspelt engine": ({"engine": "lop"}, "engine.name must be", "'loop' or 'stacked'", "not 'lop'"),
    "no thread": ({"engine": {"threads": 0}}, "engine.threads must be", "[1, 512], not 0"),
    "misspelt engine setting": (
        {"engine": {"nam": "loop"}},
        "no key engine.nam; did you mean 'name'?",
    ),
    "half a client": ({"cohort": 1.5}, "cohort.size must be a whole number in [1, inf) or none", "not 1.5"),
    "no client": ({"cohort": 0}, "cohort.size must be a whole number in [1, inf)", "not 0"),
    "too many clients": ({"cohort": 7}, "cohort.size must be at most 6", "not 7"),
    "misspelt sampling": (
        {"cohort": {"size": 2, "sampling": "bernouli"}},
        "sampling must be",
        "not 'bernouli'",
        "'exact'",
    ),
    "data that is not cut": (
        {"federation": dataset()},
        "federation must be",
        "split(data, ...)",
        "not Dataset",
    ),
    "class of a model": ({"model": torch.nn.Linear}, "torch.nn.modules.linear.Linear", "an nn.Module"),
    "argument of the engine": ({"dtype": "float64"}, "no argument 'dtype'", "engine={'dtype': ...}"),
}


@pytest.mark.parametrize(("given", "words"), [(g, w) for g, *w in SIMULATE.values()], ids=SIMULATE)
def test_a_wrong_argument_of_a_run_is_one_line(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        simulate(**given)
    assert_one_line(refused, *words)


def test_settings_of_an_engine_are_told_where_they_are_made() -> None:
    for make in (lambda: cp.EngineSettings("lop"), lambda: simulate(engine={"name": "lop"})):  # type: ignore[arg-type]
        with pytest.raises(ConfigError) as refused:
            make()
        assert_one_line(refused, "engine.name must be", "'loop' or 'stacked'", "not 'lop'")


def test_the_type_of_the_numbers_is_a_setting_of_the_engine() -> None:
    exact = simulate(engine={"name": "loop", "dtype": "float64"})
    assert {leaf.dtype for leaf in exact.module.parameters()} == {torch.float64}
    assert exact["params_sha256"] != simulate(engine={"name": "loop"})["params_sha256"]


def test_settings_may_be_written_as_in_a_config() -> None:
    plain = simulate(
        local=cp.Local(lr=0.3, schedule=cosine()),
        engine=cp.EngineSettings("loop"),
        cohort=cp.Cohort(2, "bernoulli"),
        rounds=3,
    )
    short = simulate(
        local={"lr": 0.3, "schedule": "cosine"},
        engine={"name": "loop"},
        cohort={"size": 2, "sampling": "bernoulli"},
        rounds=3,
    )
    assert plain["params_sha256"] == short["params_sha256"]
    assert [row["lr"] for row in short.rows] == pytest.approx([0.3, 0.15, 0.0])


def test_numbers_of_numpy_are_numbers() -> None:
    settings = cp.Local(lr=np.float32(0.5), batch_size=np.int64(8))  # type: ignore[arg-type]
    assert (settings.lr, settings.batch_size) == (0.5, 8)
    assert type(settings.batch_size) is int
    outcome = simulate(
        rounds=np.int64(1), seed=np.uint8(3), cohort=np.int32(2), local={"lr": np.float64(0.1)}
    )
    assert (outcome["rounds"], outcome["seed"]) == (1, 3)


NAN = X.clone()
NAN[[4, 7], 1] = torch.tensor([float("nan"), float("inf")])

DATA: dict[str, tuple[Any, ...]] = {
    "more inputs than labels": (
        dataset(y=Y[:9]),
        "mine: train: x is float32 [12, 2] and y int64 [9]; needs a row of x",
    ),
    "inputs without rows": (
        dataset(torch.tensor(1.0)),
        "mine: train: x is float32 [] and y int64 [12]",
    ),
    "test set that does not fit": (
        dataset(test=cp.Samples(X[:5], Y)),
        "mine: test: x is float32 [5, 2] and y int64 [12]",
    ),
    "too few clients": (dataset(clients=torch.arange(5)), "clients has 5 entries; needs 12"),
    "clients in halves": (dataset(clients=X[:, 0]), "mine: clients must be whole numbers", "float32 [12]"),
    "labels in halves": (
        dataset(y=X[:, 0]),
        "mine: train.y must be whole numbers",
        "float32 [12]",
    ),
    "labels one hot": (dataset(y=torch.eye(3).long()), "mine: train.y must be", "[n]", "not int64 [3, 3]"),
    "labels in words": (dataset(y=np.array(["a"] * 12)), "mine: train.y must be", "numbers", "not <U1"),
    "ragged inputs": (dataset([[1.0], [1.0, 2.0]]), "mine: train.x must be a tensor or an array", "not list"),
    "pair that is no Samples": (dataset(test=(X, Y)), "mine: test must be Samples(x, y), not tuple"),
    "number of classes": (dataset(classes=3), "mine: classes must be names, such as ('a', 'b'), not 3"),
    "test inputs of another width": (
        dataset(X[:, :1]),
        "test.x is float32 [12, 2] and train.x float32 [12, 1]",
    ),
    "pixels and floats": (dataset(X.byte()), "test.x is float32", "train.x uint8"),
    "label above": (
        dataset(classes=("a", "b")),
        "mine: train.y holds the label 2; must be 0 to 1",
    ),
    "label below": (dataset(y=Y - 1), "mine: train.y holds the label -1; must be 0 to 2"),
    "test label above": (dataset(test=cp.Samples(X, Y + 1)), "mine: test.y holds the label 3"),
    "not finite": (
        dataset(NAN),
        "train.x holds NaN or infinity in 2 of 12 rows, first in row 4",
        "finite numbers",
    ),
    "test not finite": (dataset(test=cp.Samples(NAN, Y)), "mine: test.x holds NaN"),
    "client without a name": (
        dataset(clients=Y, client_names=("A", "B")),
        "clients holds 2; must be 0 to 1",
    ),
}


@pytest.mark.parametrize(("data", "words"), [(d, w) for d, *w in DATA.values()], ids=DATA)
def test_data_that_nobody_can_learn_from_is_not_cut(data: cp.Dataset, words: list[str]) -> None:
    with pytest.raises(DataError) as refused:
        cp.split(data, "iid", clients=2)
    assert_one_line(refused, *words)


def test_arrays_become_tensors() -> None:
    frozen = X.numpy().astype(np.float64)[::-1]
    frozen.flags.writeable = False
    data = dataset(frozen, Y.numpy().astype(np.uint8), clients=np.arange(12, dtype=np.int32) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        federation = cp.split(data, "natural", clients=0)
    assert torch.equal(federation.train.x, X.flip(0).double())
    assert torch.equal(federation.train.y, Y)
    assert federation.train.y.dtype == torch.int64
    assert [rows.tolist() for rows in federation.clients] == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    assert cp.simulate(federation, rounds=1, engine="loop")["rounds"] == 1


def test_arrays_may_be_made_a_long_tail() -> None:
    data = dataset(np.zeros((300, 2)), np.arange(300) % 3)
    assert torch.bincount(apply_imbalance(data, 4.0).train.y).tolist() == [100, 50, 25]
    with pytest.raises(DataError, match=r"mine: train\.y holds the label 3"):
        apply_imbalance(dataset(np.zeros((12, 2)), Y + 1), 4.0)


def test_data_that_fits_is_not_copied() -> None:
    data = dataset(clients=Y)
    assert data.fitted() is data


SPLIT: dict[str, tuple[Any, ...]] = {
    "name of data": ({"data": "digits"}, "split: data must be a Dataset"),
    "half a client": ({"clients": 1.5}, "split: clients must be", "not 1.5", "a whole number"),
    "no clients": ({"clients": -1}, "clients must be at least 1", "not -1"),
    "negative seed": ({"seed": -1}, "split: seed must be", "not -1", "a whole number in [0, "),
    "all held out": ({"validation": 1.0}, "split: validation must be", "not 1.0", "[0, 1)"),
    "negative share": ({"server_validation": -0.1}, "split: server_validation must be", "not -0.1", "[0, 1)"),
    "partition in a table": (
        {"partition": {"iid": {}}},
        "split: partition must be",
        "not {'iid': {}}",
        "a word",
    ),
    "misspelt partition": ({"partition": "idd"}, "no partition 'idd'; did you mean 'iid'?"),
    "misspelt argument": ({"alhpa": 0.3}, "partition dirichlet: no argument 'alhpa'; did you mean 'alpha'?"),
}


@pytest.mark.parametrize(("given", "words"), [(g, w) for g, *w in SPLIT.values()], ids=SPLIT)
def test_a_wrong_cut_is_one_line(given: dict[str, Any], words: list[str]) -> None:
    pieces: dict[str, Any] = {"data": dataset(), "clients": 2}
    with pytest.raises(ConfigError) as refused:
        cp.split(**(pieces | given))
    assert_one_line(refused, *words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": 5}, "load_data: name must be a word, not 5"),
        ({"name": "digit"}, "did you mean 'digits'?"),
        (
            {"name": "digits", "imbalance": None},
            "load_data: imbalance must be a number or a word or a table, not None",
        ),
        ({"name": "digits", "imbalance": -1}, "data.imbalance must be above 0"),
    ],
)
def test_wrong_data_is_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cp.load_data(**given)
    assert_one_line(refused, words)


HAND_MADE = {
    "arrays": (cp.Samples(X.numpy(), Y), "federation: train.x must be a tensor", "not ndarray"),  # type: ignore[arg-type]
    "lengths": (
        cp.Samples(X, Y[:9]),
        "federation: train: x is float32 [12, 2] and y int64 [9]; needs a row of x",
    ),
    "labels": (cp.Samples(X, Y + 1), "federation: train.y holds the label 3; must be 0 to 2"),
    "narrow labels": (cp.Samples(X, Y.int()), "federation: train.y must be int64", "not int32 [12]"),
}


@pytest.mark.parametrize(("train", "words"), [(t, w) for t, *w in HAND_MADE.values()], ids=HAND_MADE)
def test_a_federation_made_by_hand_is_checked_before_it_trains(train: cp.Samples, words: list[str]) -> None:
    rows = (torch.arange(6), torch.arange(6, 9))
    whole = cp.Federation(train, cp.Samples(X, Y), ("a", "b", "c"), no_scaling(), rows)
    with pytest.raises(DataError) as refused:
        cp.simulate(whole, rounds=1)
    assert_one_line(refused, *words)


def test_the_note_on_a_long_tail_tells_what_was_reached() -> None:
    y = torch.arange(3).repeat_interleave(100)
    data = dataset(torch.zeros(300, 2), y)
    assert apply_imbalance(data, 1000.0).notes == (
        "long tail: largest over smallest class 100, smallest over largest 0.01 (asked for: 1000, 0.001)",
    )
    assert apply_imbalance(data, 10.0).notes == (
        "long tail: largest over smallest class 10, smallest over largest 0.1",
    )


# BatchNorm: Python takes what a config takes

NORMED = small_model("mlp", hidden=[6], norm="batch")


def test_a_model_with_batch_norm_wraps_by_itself_as_in_a_config() -> None:
    by_itself = simulate(model=NORMED)
    assert by_itself["params_sha256"] == simulate(model=NORMED, local={"batching": "wrap"})["params_sha256"]
    assert by_itself["params_sha256"] != simulate(model=NORMED, local={"batching": "drop"})["params_sha256"]


def test_a_model_without_batch_norm_pads_by_itself() -> None:
    by_itself = simulate()
    assert by_itself["params_sha256"] == simulate(local=cp.Local(batching="pad"))["params_sha256"]
    assert by_itself["params_sha256"] != simulate(local=cp.Local(batching="wrap"))["params_sha256"]


def test_padding_that_is_asked_for_is_refused_with_batch_norm() -> None:
    with pytest.raises(ConfigError) as refused:
        simulate(model=NORMED, local={"batching": "pad"})
    assert_one_line(refused, "local.batching must be", "not 'pad'")


def test_what_a_listener_does_to_its_row_stays_its_own() -> None:
    """A score that it overwrote stood in the outcome, and so in every table made of it."""

    def spoil(row: Any) -> None:
        row["per_class_recall"].clear()
        row["accuracy"] = 5.0

    spoiled, plain = simulate(on_round=spoil), simulate()
    assert spoiled.rows == plain.rows
    assert spoiled["accuracy"] == plain["accuracy"]
    with pytest.raises(ConfigError) as refused:
        simulate(on_round=3)
    assert_one_line(refused, "on_round must be a function or none, not 3")


def test_data_shows_itself_in_a_line_and_not_as_pages_of_samples() -> None:
    assert repr(dataset()) == "mine: 12 training and 12 test samples of 3 classes"
    split = cp.split(dataset(), "iid", clients=5)
    words = "mine: 5 clients with 2 to 3 training samples, 12 in all; 12 test samples, 3 classes"
    assert repr(split) == words


def test_two_arrays_are_told_where_they_belong() -> None:
    """The error asked for a pair (x, y), which is what was given."""
    with pytest.raises(ConfigError) as refused:
        cp.load_data((X.numpy(), Y.numpy()))  # type: ignore[arg-type]
    assert_one_line(refused, "load_data: arrays", "Dataset(name, train=Samples(x, y)")
