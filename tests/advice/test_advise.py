"""Advice from the data to the files: an obvious winner, no look at the test set, tiny data, stops, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import assert_refused, call, write_tiny

import counterpoise as cp
from counterpoise.advice import plan, rules
from counterpoise.advice.outlook import look
from counterpoise.advice.page import Advice
from counterpoise.advice.race import Board
from counterpoise.core.rng import generator
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.run.config.experiment import load_experiment, make_experiment
from counterpoise.run.store.folder import read_rows
from counterpoise.sweep.specs import put

pytestmark = pytest.mark.usefixtures("short_races")

LONG = 60.0  # minutes: more than a race of this size can use
DIGITS: dict[str, Any] = {
    "rounds": 8,
    "data": {"name": "digits", "imbalance": 50.0},
    "partition": {"name": "iid", "clients": 4},
    "model": {"name": "mlp", "hidden": [32]},
    "local": {"lr": 0.1, "batch_size": 16, "epochs": 2},
}


def blobs(sizes: tuple[int, int] = (120, 12), apart: float = 1.0) -> Federation:
    """Two classes of points on two clients, the second rare; `apart` 0 leaves nothing to learn."""
    labels = torch.cat([torch.full((size,), float(c)).long() for c, size in enumerate(sizes)])
    noise = torch.randn(len(labels), 3, generator=generator(0, "blobs"))
    samples = Samples(noise + apart * labels.view(-1, 1), labels)
    rows = torch.arange(len(labels))
    clients = (rows[::2], rows[1::2])
    return Federation(samples, samples, ("common", "rare"), no_scaling(), clients, name="blobs")


def ask(federation: Federation, out: Path, **options: Any) -> Advice:
    given = {"minutes": LONG, "rounds": 4, "processes": 1, "model": {"name": "mlp", "hidden": [4]}} | options
    return cp.advise(federation, out=out, local={"lr": 0.1, "batch_size": 16}, **given)


def decided(advice: Advice) -> Any:
    """All that was found but for the time it took."""
    return advice.method, advice.settings, advice.found.recommendation._replace(seconds=None)


@pytest.fixture(scope="module")
def digits(short_races: None, tmp_path_factory: pytest.TempPathFactory) -> Advice:
    """With more seeds than the others, and fewer candidates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MOST_SEEDS", 6)
        patch.setattr(rules, "RULES", rules.RULES[:5])
        return cp.advise(make_experiment(DIGITS), LONG, processes=1, out=tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def plain(short_races: None, tmp_path_factory: pytest.TempPathFactory) -> Advice:
    return ask(blobs(), tmp_path_factory.mktemp("plain"))


def test_an_obvious_winner_is_recommended(digits: Advice) -> None:
    found = digits.found.recommendation
    assert found.method != "fedavg" == found.baseline
    assert found.interval is not None
    assert found.difference > 0.05
    assert digits.paragraph.startswith(f"Use {found.method}: balanced accuracy +")
    assert "The server learns" in digits.paragraph


def test_further_runs_are_planned_with_what_those_before_them_took(digits: Advice) -> None:
    race = digits.found.race
    spend, runs = race.time(), race._measured
    rounds = sum(len(run.rows) for run in runs)
    assert runs
    assert len(runs) * spend.overhead + rounds * spend.pace == pytest.approx(race._worked)
    assert spend.pace == pytest.approx(sum(sum(run.seconds) for run in runs) / rounds)


def test_what_is_recommended_can_be_run(digits: Advice) -> None:
    experiment = load_experiment(digits.toml)
    assert experiment.tables()["method"] == digits.method
    assert experiment.local.lr == digits.settings["local.lr"]
    assert experiment.rounds == DIGITS["rounds"]
    assert experiment.data.imbalance == 50.0
    assert " ".join(digits.toml.read_text().split("\n\n")[0].replace("# ", "").split()) == digits.paragraph


def test_the_report_opens_with_the_same_paragraph(digits: Advice) -> None:
    page = digits.report.read_text()
    assert digits.found.recommendation.method in page
    words = digits.paragraph.partition(" against")[0]
    assert page.index(words) < page.index("Scores are on validation samples") < page.index("What was tried")
    assert "Scores are on the test set" not in page
    known = json.loads((digits.out / "recommendation.json").read_text())
    assert known["paragraph"] == digits.paragraph
    assert {one["method"] for one in known["finalists"]} <= {one["method"] for one in known["candidates"]}


def test_the_worse_half_never_runs_again(plain: Advice) -> None:
    runs = sorted(path.name for path in (plain.out / "tuning").iterdir())
    first = {name.partition("-lr=")[0] for name in runs if name.endswith("seed=1000")}
    final = {name.partition("-lr=")[0] for name in runs if name.endswith("seed=0")}
    assert len(final) <= 4 < len(first)
    assert all(sum(name.endswith(f"seed={seed}") for name in runs) == len(final) for seed in range(3))


def test_the_test_set_is_never_looked_at(plain: Advice, tmp_path: Path) -> None:
    federation = blobs()
    wrong = replace(federation, test=Samples(federation.test.x, 1 - federation.test.y))
    other = ask(wrong, tmp_path)
    assert decided(other) == decided(plain)
    logs = [
        {path.parent.name: read_rows(path) for path in advice.out.glob("tuning/*/metrics.jsonl")}
        for advice in (plain, other)
    ]
    assert logs[0] == logs[1] != {}


def test_a_race_that_was_stopped_goes_on_to_the_same_end(plain: Advice, tmp_path: Path) -> None:
    calls = iter(range(1000))

    def stop(board: Board) -> None:
        if next(calls) % 12 == 11:
            raise KeyboardInterrupt

    stops = 0
    while True:
        try:
            again = ask(blobs(), tmp_path, show=stop)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops >= 2
    assert decided(again) == decided(plain)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("tuning/*/metrics.jsonl")}
    assert decided(ask(blobs(), tmp_path)) == decided(plain)  # nothing is left to run
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("tuning/*/metrics.jsonl")} == before


@pytest.mark.parametrize("minutes", [1e-6, LONG, LONG + 1])
def test_what_was_reached_stays_whatever_the_minutes(minutes: float, plain: Advice) -> None:
    known = plain.out / "advice.json"
    known.write_text(json.dumps(json.loads(known.read_text()) | {"spent": 61 * 60 * LONG}))  # no time is left
    assert decided(ask(blobs(), plain.out, minutes=minutes)) == decided(plain)
    assert load_experiment(plain.toml).tables()["method"] == plain.method


def test_of_tiny_data_it_says_that_it_cannot_tell(tmp_path: Path) -> None:
    advice = ask(blobs((12, 3), apart=0.0), tmp_path)
    assert advice.paragraph.startswith(("Cannot tell: ", "Use fedavg: no other method"))
    assert advice.found.outlook.held.rarest == 1


def test_without_time_it_says_so(tmp_path: Path) -> None:
    advice = ask(blobs(), tmp_path, minutes=1e-6)
    assert advice.method == "fedavg"
    assert advice.paragraph.startswith(
        "Cannot tell: no finalist could be compared with fedavg in the time; give it"
    )


def test_a_first_call_without_time_does_not_cut_the_race_of_a_longer_one(tmp_path: Path) -> None:
    first, longer = (ask(blobs(), tmp_path, minutes=minutes, rounds=8).found for minutes in (1e-6, LONG))
    assert first.tried < longer.tried == len(longer.outlook.candidates)


def test_samples_that_the_experiment_holds_out_are_used(tmp_path: Path) -> None:
    federation = blobs()
    held = replace(federation, validation=federation.test, held_out=())
    advice = ask(held, tmp_path, minutes=1e-6)
    outlook = advice.found.outlook
    assert (outlook.held.own, outlook.held.anew, advice.found.course.held) == (True, False, 0.0)
    assert outlook.held_words.startswith("scored on the experiment's own 132 validation samples")


@pytest.mark.parametrize(
    ("changed", "anew", "keys"),
    [
        ({}, True, ()),
        ({"data.validation": 0.2}, False, ("data.validation",)),
        ({"data.validation": 0.2, "evaluate.patience": 2}, False, ()),  # which needs them
        ({"partition.validation": 0.2}, True, ()),
        ({"partition.validation": 0.2, "partition.seed": 1}, False, ("partition.validation",)),
        (
            {"data.validation": 0.2, "partition.validation": 0.2},
            False,
            ("data.validation", "partition.validation"),
        ),
    ],
)
def test_it_is_known_which_keys_give_all_seeds_the_same_samples(
    changed: dict[str, Any], anew: bool, keys: tuple[str, ...]
) -> None:
    tables = DIGITS
    for key, value in changed.items():
        tables = put(tables, key, value)
    held = look(make_experiment(tables), "balanced_accuracy")[0].held
    assert (held.anew, held.fixed_by) == (anew, keys)


def test_another_goal_is_another_race_over_the_same_runs(plain: Advice) -> None:
    other = ask(blobs(), plain.out, goal="recall:common")
    assert other.found.recommendation.score == "recall of common"
    assert other.report.exists()


def test_a_class_shares_what_it_gives_to_validation() -> None:
    from counterpoise.data.held_out import hold_out_classes

    federation = blobs((40, 4))
    held = hold_out_classes(federation, 0.25, seed=1)
    kept = torch.cat(held.clients)
    assert torch.bincount(federation.train.y[torch.cat(held.held_out)]).tolist() == [10, 1]
    assert sorted([*kept.tolist(), *torch.cat(held.held_out).tolist()]) == list(range(44))
    assert not torch.equal(kept, torch.cat(hold_out_classes(federation, 0.25, seed=2).clients))


def test_a_client_keeps_a_sample_to_train_on() -> None:
    from counterpoise.data.held_out import hold_out_classes

    federation = replace(blobs((40, 4)), clients=tuple(torch.tensor([row]) for row in range(44)))
    held = hold_out_classes(federation, 0.5, seed=1)
    assert held.samples().tolist() == [1] * 44


def test_the_command_prints_the_data_the_candidates_and_the_advice(tmp_path: Path) -> None:
    file = write_tiny(tmp_path, "rounds=2")
    code, out, err = call("advise", file, "--minutes", 0.02, "--processes", 1, "--out", tmp_path / "out")
    assert code == 0, err
    assert "imbalance 10.1 to 1: 0 is the largest class, 9 the rarest" in out
    assert "fedavg: the baseline that every gain is measured against" in out
    assert "the test set is not used" in out
    assert f"to run it: counterpoise run {tmp_path / 'out' / 'recommended.toml'}" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--goal", "speed"], ["goal must be one of", "speed"]),
        (["--goal", "recall:nine"], ["no such class", "nine"]),
        (["--minutes", "0"], ["minutes must be a number above 0", "0"]),
        (["--minutes", "nan"], ["minutes must be a number above 0", "nan"]),
        (["--minutes", "soon"], ["soon"]),
    ],
)
def test_bad_options_are_refused_in_one_line(options: list[str], words: list[str], tmp_path: Path) -> None:
    refused = call("advise", write_tiny(tmp_path), "--out", tmp_path / "out", *options)
    assert_refused(refused, 2, *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("file", "what"), [("config.toml", "a run"), ("sweep.toml", "a sweep")])
def test_advice_takes_no_folder_of_something_else(file: str, what: str, tmp_path: Path) -> None:
    """In that of a sweep it wrote over the report."""
    (tmp_path / file).write_text("")
    with pytest.raises(ConfigError, match=f"holds {what}, whose pictures or report would be overwritten"):
        ask(blobs(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_a_folder_with_advice_on_another_federation_is_refused(plain: Advice) -> None:
    """It gave the recommendation for the first one, without a word."""
    with pytest.raises(ConfigError, match="holds advice on other data; name another folder"):
        ask(blobs((120, 13)), plain.out)


def test_what_is_no_federation_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="federation must be a Federation"):
        cp.advise([1, 2], out=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs two classes or more"):
        ask(blobs((20, 0)), tmp_path)
