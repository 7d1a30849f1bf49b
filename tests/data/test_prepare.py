"""From a data set to a federation, into a pack and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from counterpoise.api import load_data
from counterpoise.data.dataset import Dataset, Samples
from counterpoise.data.federation import Federation
from counterpoise.data.own import open_pack, write_pack
from counterpoise.data.prepare import (
    apply_imbalance,
    assigned_federation,
    labels_of,
    pack_federation,
    split_federation,
)
from counterpoise.data.skew import class_sizes
from counterpoise.errors import ConfigError
from counterpoise.run.assemble import fingerprint, load_federation
from counterpoise.run.config.experiment import make_experiment


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_data("digits")


def test_a_number_is_a_long_tail_and_its_inverse_the_same(digits: Dataset) -> None:
    ten, tenth = apply_imbalance(digits, 10.0), apply_imbalance(digits, 0.1)
    assert torch.equal(ten.train.y, tenth.train.y)
    counts = torch.bincount(ten.train.y)
    assert (
        int(counts[0]) == int(torch.bincount(digits.train.y).max())
        or counts[0] == (digits.train.y == 0).sum()
    )
    assert counts[0] / counts[-1] == pytest.approx(10, rel=0.1)
    assert any("10" in note and "0.1" in note for note in ten.notes)


def test_balanced_data_stays_as_it_is_and_nonsense_is_refused(digits: Dataset) -> None:
    assert apply_imbalance(digits, 1.0) is digits
    for wrong in (0.0, -3.0):
        with pytest.raises(ConfigError, match="imbalance"):
            apply_imbalance(digits, wrong)


def test_the_test_set_stays_as_it_is_unless_it_shall_be_alike(digits: Dataset) -> None:
    plain, alike = (
        apply_imbalance(digits, {"minority": {"factor": 20.0}}, test=test) for test in (False, True)
    )
    assert plain.test is digits.test
    assert torch.equal(
        plain.train.y, alike.train.y
    )  # whether the test set is cut does not touch the training set
    before, after = torch.bincount(digits.test.y), torch.bincount(alike.test.y)
    rarest = int(before.argmin())
    assert after[rarest] == before.max() // 20
    assert torch.equal(after[torch.arange(10) != rarest], before[torch.arange(10) != rarest])
    assert "the test set has the same imbalance" in alike.notes


def test_a_config_may_ask_for_a_test_set_of_the_same_imbalance() -> None:
    tables = {"data": {"name": "digits", "imbalance": 10.0, "imbalanced_test": True}}
    counts = torch.bincount(load_federation(make_experiment(tables)).test.y)
    assert counts[0] / counts[-1] == pytest.approx(
        10, rel=0.35
    )  # some 36 samples a class: the last has 3 or 4


def test_every_training_sample_has_one_place(digits: Dataset) -> None:
    federation = split_federation(
        digits, "dirichlet", 7, alpha=0.3, seed=3, validation=0.25, server_validation=0.2
    )
    assert federation.validation is not None
    rows = torch.cat([*federation.clients, *federation.held_out])
    assert sorted(rows.tolist()) == list(range(len(federation.train.y)))
    assert len(federation.train.y) + len(federation.validation.y) == len(digits.train.y)


def test_the_server_takes_the_same_share_of_every_class(digits: Dataset) -> None:
    federation = split_federation(digits, "iid", 3, server_validation=0.25)
    assert federation.validation is not None
    taken = torch.bincount(federation.validation.y, minlength=10)
    assert taken.tolist() == [int(0.25 * n) for n in torch.bincount(digits.train.y).tolist()]


def test_shares_are_of_decimal_numbers() -> None:
    """29 % of 100 samples are 29, though 0.29 * 100 in floats is less; a third of 300 is 100, though the float is less than a third."""
    for share, of, held in ((0.29, 100, 29), (1 / 3, 300, 100)):
        samples = Samples(torch.zeros(2 * of, 1), torch.arange(2 * of) % 2)
        data = Dataset("halves", samples, samples, ("a", "b"))
        federation = split_federation(data, "iid", 1, server_validation=share)
        assert federation.validation is not None
        assert torch.bincount(federation.validation.y).tolist() == [held, held]
        kept = split_federation(data, "iid", 2, validation=share).held_out
        assert [len(rows) for rows in kept] == [held, held]


def test_a_client_holds_out_its_share_but_keeps_one_to_train_on(digits: Dataset) -> None:
    federation = split_federation(digits, "dirichlet", 30, alpha=0.05, validation=0.9)
    for train, held in zip(federation.clients, federation.held_out, strict=True):
        whole = len(train) + len(held)
        assert len(held) == min(int(0.9 * whole), whole - 1)
        assert len(train) >= 1


def test_the_server_s_share_does_not_depend_on_the_run_s_seed(digits: Dataset) -> None:
    first, second = (split_federation(digits, "iid", 3, seed=seed, server_validation=0.1) for seed in (0, 1))
    assert first.validation is not None
    assert second.validation is not None
    assert torch.equal(first.validation.x, second.validation.x)
    assert not all(torch.equal(a, b) for a, b in zip(first.clients, second.clients, strict=True))


def packed(federation: Federation, path: Path) -> Federation:
    dataset = pack_federation(federation)
    assert dataset.assignment is not None
    write_pack(dataset, dataset.assignment, path, {})
    return assigned_federation(open_pack(path))


def owned(data: Dataset, names: tuple[str, ...]) -> Dataset:
    """The data set with natural clients of these names."""
    return replace(data, clients=torch.arange(len(data.train.y)) % len(names), client_names=names)


@pytest.mark.parametrize("partition", [{"partition": "dirichlet", "clients": 5}, {"partition": "natural"}])
def test_a_pack_gives_the_same_federation(partition: dict[str, Any], digits: Dataset, tmp_path: Path) -> None:
    data = owned(digits, ("north", "south", "west"))
    federation = split_federation(data, **partition, validation=0.1, server_validation=0.1)
    assert bool(federation.client_names) == (partition["partition"] == "natural")
    found = packed(federation, tmp_path / "it.safetensors")
    assert federation.validation is not None
    assert found.validation is not None
    assert torch.equal(found.validation.x, federation.validation.x)
    for name in ("clients", "held_out"):
        for ours, theirs in zip(getattr(federation, name), getattr(found, name), strict=True):
            assert torch.equal(ours, theirs)
            assert torch.equal(federation.train.x[ours], found.train.x[theirs])
    assert torch.equal(found.test.y, federation.test.y)
    assert found.client_names == federation.client_names


def test_a_run_from_a_pack_sees_what_the_run_from_the_files_sees(tmp_path: Path) -> None:
    plain = make_experiment({"data": {"imbalance": 5.0}, "partition": {"clients": 4, "alpha": 0.5}})
    federation = load_federation(plain)
    path = tmp_path / "it.safetensors"
    packed(federation, path)
    again = load_federation(make_experiment({"data": {"name": "pack", "path": str(path)}}))
    assert fingerprint(again) == fingerprint(federation)


@pytest.mark.parametrize(
    "wrong",
    [
        {"partition": {"name": "iid"}},
        {"partition": {"alpha": 0.3}},
        {"data": {"imbalance": 10.0}},
        {"data": {"validation": 0.1}},
    ],
)
def test_a_pack_is_not_prepared_twice(wrong: dict[str, dict[str, object]], tmp_path: Path) -> None:
    path = tmp_path / "it.safetensors"
    packed(load_federation(make_experiment({})), path)
    tables = {"data": {"name": "pack", "path": str(path)} | wrong.get("data", {})}
    with pytest.raises(ConfigError, match="pack"):
        load_federation(make_experiment(tables | {k: v for k, v in wrong.items() if k != "data"}))


def test_natural_clients_keep_their_names_when_one_of_them_vanishes() -> None:
    samples = Samples(torch.zeros(6, 2), torch.tensor([0, 1, 0, 1, 0, 1]))
    data = Dataset(
        "own",
        samples,
        samples,
        ("a", "b"),
        clients=torch.tensor([0, 0, 1, 1, 2, 2]),
        client_names=("x", "y", "z"),
    )
    kept = data.keep(torch.from_numpy(np.array([0, 1, 4, 5])))
    assert split_federation(kept, "natural", 0).client_names == ("x", "z")


def test_classes_that_the_servers_share_leaves_out_are_counted_in_a_note() -> None:
    y = torch.tensor([0] * 40 + [1] * 20 + [2] * 9 + [3] * 3)
    samples = Samples(torch.arange(len(y)).float().view(-1, 1), y)
    data = Dataset("mine", samples, samples, ("a", "b", "rare", "rarer"))
    federation = split_federation(data, "iid", 2, server_validation=0.1)
    (note,) = [note for note in federation.notes if "validation" in note]
    assert note.startswith("2 of 4 classes have no validation sample")
    assert note.endswith(": rare, rarer")
    for share in (0.0, 0.4):
        notes = split_federation(data, "iid", 2, server_validation=share).notes
        assert not [note for note in notes if "validation" in note]


def part_of(sizes: list[int]) -> Dataset:
    """What is left of an official set with 100 training samples of each class."""
    y = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    samples = Samples(torch.arange(float(len(y))).view(-1, 1), y)
    return Dataset("part", samples, samples, tuple("abcde"[: len(sizes)]), official=(100,) * len(sizes))


@pytest.mark.parametrize("imbalance", [10.0, 0.1, 40.0, {"longtail": {"factor": 20.0}}, "natural", 1.0])
def test_part_of_a_set_gives_the_imbalances_that_it_holds(imbalance: Any) -> None:
    tail = part_of([100, 31, 10])  # a long tail of 10 to 1
    kept = apply_imbalance(tail, imbalance, seed=3)
    whole = replace(part_of([100] * 3), official=())
    sizes = class_sizes(labels_of(apply_imbalance(whole, imbalance, seed=3))).tolist()
    assert class_sizes(labels_of(kept)).tolist() == (
        [100, 31, 10] if imbalance in ("natural", 1.0) else sizes
    )


@pytest.mark.parametrize(
    ("imbalance", "words"),
    [
        (5.0, "data.imbalance = 5.0 needs 44 training samples of class 'b', but this part of part has 31"),
        ({"step": {"factor": 10.0}}, "needs 100 training samples of class 'b'"),
        (
            {"longtail": {"factor": 10.0, "shuffle_classes": True}},
            "needs a long tail of at least its own 10, or natural",
        ),
    ],
)
def test_part_of_a_set_refuses_an_imbalance_that_needs_more(imbalance: Any, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        apply_imbalance(part_of([100, 31, 10]), imbalance, seed=1)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
