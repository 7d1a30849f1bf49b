"""`init` writes an experiment and a sweep for a table, says what it assumed, and overwrites nothing unasked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from runs import assert_refused, call

from counterpoise.results.statistics import ALPHA, holm, signed_rank
from counterpoise.run.config.experiment import load_experiment
from counterpoise.sweep.jobs import expand
from counterpoise.sweep.sweep import load_sweep
from counterpoise.sweep.tune import searches_of
from counterpoise.system.toml import read_toml

COLUMNS = "patient_id,name,age,bmi,sex,hospital,ward,outcome"


def write_patients(path: Path, rows: int = 240, columns: str = COLUMNS) -> Path:
    """A made-up clinic: age decides, one in eight dies, some weights are missing, and each row has its own id and name."""
    draw = random.Random(0)
    lines = [columns]
    for row in range(rows):
        age, bmi = draw.gauss(60, 10), "" if row % 20 == 0 else f"{draw.gauss(26, 4):.1f}"
        outcome = "died" if age > 71 else "lived"
        place = ("north", "south", "east")[row % 3]
        lines.append(f"{10_007 + 7 * row},p{row},{age:.0f},{bmi},{'fm'[row % 2]},{place},A,{outcome}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_patients(tmp_path / "patients.csv")
    return Path("patients.csv")


def test_it_writes_what_can_be_run_and_compared_and_says_how(patients: Path) -> None:
    done = call("init", patients, "--label", "outcome", "--client", "hospital")
    assert (done.code, done.err) == (0, "")
    _, _, commands = done.out.partition("go on with\n\n")
    files = ("advise patients.toml", "run patients.toml", "compare patients-sweep.toml")
    assert commands == "".join(f"  counterpoise {words}\n" for words in files)
    checked = call("validate", "patients.toml")
    assert checked.code == 0, checked.err
    assert "clients    3 of " in checked.out
    ended = call("run", "patients.toml", "rounds=2", "--out", "runs/first")
    assert ended.code == 0, ended.err
    planned = call("compare", "patients-sweep.toml", "base.rounds=1", "--dry-run")
    assert planned.code == 0, planned.err


def test_it_says_what_it_assumed_in_the_output_and_in_the_file(patients: Path) -> None:
    done = call("init", patients, "--label", "outcome", "--client", "hospital")
    for words in (
        "'died' is the positive class, the rarer of two, with ",
        "left out: 'patient_id', a different whole number in each row",
        "left out: 'name', 240 different words in 240 rows",
        "clients: 3, one per name in 'hospital', with ",
        "missing numbers take the median of the training rows and an indicator column: bmi 12",
        "numbers, standardised by the training rows: age, bmi",
        "words, one-hot: sex",
        "constant over the training rows, dropped: ward",
        "48 of 240 samples are the test set",
    ):
        assert words in done.out
        assert words in Path("patients.toml").read_text()
    data = read_toml(Path("patients.toml"))["data"]
    assert data["drop"] == ["patient_id", "name"]
    assert data["positive"] == "died"
    assert read_toml(Path("patients-sweep.toml"))["base"]["data"]["positive"] == "died"
    assert (data["path"], data["label"], data["client"]) == ("patients.csv", "outcome", "hospital")


def test_without_a_client_column_rows_are_cut_and_the_output_says_so(patients: Path) -> None:
    done = call("init", patients, "--label", "outcome")
    assert "clients: 3 simulated ones, with " in done.out
    assert "words, one-hot: sex, hospital" in done.out
    assert load_experiment(Path("patients.toml")).partition.name == "dirichlet"


def test_the_seeds_are_enough_for_every_method_to_be_found_better(patients: Path) -> None:
    call("init", patients, "--label", "outcome")
    sweep = load_sweep(Path("patients-sweep.toml"))
    better = signed_rank([0.01 * (1 + seed) for seed in sweep.seeds])
    assert max(holm([better.p] * (len(sweep.methods) - 1))) < ALPHA
    equal = signed_rank([0.0, 0.0, *(0.01 * (1 + seed) for seed in sweep.seeds[2:])])  # two seeds say nothing
    assert max(holm([equal.p] * (len(sweep.methods) - 1))) < ALPHA
    searches, jobs = searches_of(sweep), expand(sweep)  # both check every config
    assert len(jobs) == len(sweep.methods) * len(sweep.seeds)
    assert all(len(search.trials) == 3 for search in searches)


def test_even_classes_start_from_plain_averaging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("even.csv").write_text("a,y\n" + "".join(f"{row % 7 + row / 9},{row % 2}\n" for row in range(120)))
    assert call("init", "even.csv", "--label", "y").code == 0
    assert read_toml(Path("even.toml"))["method"] == "fedavg"
    assert read_toml(Path("even.toml"))["data"]["positive"] == "1"
    assert call("validate", "even.toml").code == 0


def test_of_more_than_two_classes_none_is_positive(patients: Path) -> None:
    patients.write_text(patients.read_text().replace("lived", "moved", 7))
    assert "'moved' is the rarest class" in call("init", patients, "--label", "outcome").out
    assert "positive" not in read_toml(Path("patients.toml"))["data"]
    assert call("validate", "patients.toml").code == 0


def test_nothing_is_overwritten_unasked(patients: Path) -> None:
    Path("patients-sweep.toml").write_text("mine")
    assert_refused(call("init", patients, "--label", "outcome"), 2, "patients-sweep.toml is there", "--force")
    assert Path("patients-sweep.toml").read_text() == "mine"
    assert not Path("patients.toml").exists()
    assert call("init", patients, "--label", "outcome", "--force").code == 0
    assert Path("patients-sweep.toml").read_text() != "mine"


def test_another_folder_is_made_and_named_in_the_commands(patients: Path) -> None:
    done = call("init", patients, "--label", "outcome", "--out", "my files")
    assert done.out.endswith("compare 'my files/patients-sweep.toml'\n")
    assert call("validate", "my files/patients.toml").code == 0


def test_what_is_written_into_another_folder_holds_from_anywhere(
    patients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("init", patients, "--label", "outcome", "--out", "mine/first")
    assert read_toml(Path("mine/first/patients.toml"))["data"]["path"] == "../../patients.csv"
    monkeypatch.chdir("mine/first")
    assert call("validate", "patients.toml").code == 0
    assert call("compare", "patients-sweep.toml", "--dry-run").code == 0
    monkeypatch.chdir("/")
    assert call("validate", tmp_path / "mine/first/patients.toml").code == 0
    assert_refused(call("init", "patients.csv", "--label", "outcome"), 3, "patients.csv: no such file")


def test_rows_without_a_class_or_a_client_are_refused_with_the_way_out(patients: Path) -> None:
    head, *rows = patients.read_text().splitlines()
    rows = [row.replace(",north,", ",?,") if place < 9 else row for place, row in enumerate(rows)]
    patients.write_text("\n".join([head, *rows]) + "\n")
    given = "init", patients, "--label", "outcome", "--client", "hospital"
    said = "row 2: 'hospital' is missing, as in 3 of 240 rows", "--skip leaves such rows out"
    assert_refused(call(*given), 3, *said)
    done = call(*given, "--skip")
    assert done.code == 0, done.err
    assert "skipped 3 of 240 rows that cannot be used: row 2: 'hospital' is missing; row 5" in done.out
    assert "clients: 3, one per name in 'hospital'" in done.out
    assert read_toml(Path("patients.toml"))["data"]["on_error"] == "skip"
    assert call("run", "patients.toml", "rounds=1", "--out", "runs/first").code == 0


def test_a_word_for_a_gap_among_the_classes_is_pointed_out(patients: Path) -> None:
    patients.write_text(patients.read_text().replace("lived", "NA", 7))
    done = call("init", patients, "--label", "outcome")
    assert "'outcome' is 'NA' in 7 rows, taken as a name and not as a gap" in done.out
    assert "'outcome' is 'NA' in 7 rows" in call("validate", "patients.toml").out


def test_copies_of_rows_are_counted(patients: Path) -> None:
    head, *rows = patients.read_text().splitlines()
    patients.write_text("\n".join([head, *rows, rows[3], rows[5], rows[5]]) + "\n")
    said = call("init", patients, "--label", "outcome").out
    assert "look at the rows: 3 of 243 are copies of an earlier one, and may test what trained" in said


def test_numbers_that_may_be_codes_are_pointed_out(patients: Path) -> None:
    head, *rows = patients.read_text().splitlines()
    rows = [f"{row},{place % 4},{place % 2}" for place, row in enumerate(rows)]
    patients.write_text("\n".join([f"{head},pain,smokes", *rows]) + "\n")
    assert (
        "whole numbers of few kinds, read as amounts: pain; "
        in call("init", patients, "--label", "outcome").out
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, ["--label is missing", "one of patient_id, name, age, bmi, sex, hospital, ward, outcome"]),
        (["--label", "outcom"], 3, ["no column 'outcom'", "did you mean 'outcome'?", "one of patient_id, "]),
        (["--label", "outcome", "--client", "clinic"], 3, ["--client: no column 'clinic'", "hospital"]),
        (["--label", "outcome", "--client", "outcome"], 3, ["cannot be both --label and --client"]),
        (["--label", "outcome", "--client", "ward"], 3, ["'ward' names one client"]),
        (["--label", "ward"], 3, ["holds 1 class"]),
        (["--label", "name"], 3, ["--label: 'name' holds 240 different values in 240 rows; needs classes"]),
        (["--label", "outcome", "--out", "first.toml"], 2, ["--out must be a folder", "first.toml"]),
        (["--label", "outcome", "--out", "patients.csv"], 2, ["--out must be a folder"]),
    ],
)
def test_a_wrong_column_is_one_line_with_the_names_that_exist(
    patients: Path, words: list[str], code: int, said: list[str]
) -> None:
    assert_refused(call("init", patients, *words), code, *said)
    assert not Path("patients.toml").exists()


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    assert_refused(call("init", tmp_path / "none.csv", "--label", "y"), 3, "none.csv: no such file")
    (tmp_path / "a.npz").write_bytes(b"")
    assert_refused(call("init", tmp_path / "a.npz", "--label", "y"), 2, "a.npz must be a table")


def test_a_label_of_many_numbers_is_pointed_out(patients: Path) -> None:
    done = call("init", patients, "--label", "age")
    assert done.code == 0, done.err
    assert "look at 'age': " in done.out
    assert "a quantity must be cut into ranges first" in done.out


def test_names_cannot_write_into_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    head, *rows = write_patients(tmp_path / "p.csv").read_text().splitlines()
    head = head.replace("name", '"a\nrounds = 7"')
    (tmp_path / "p.csv").write_text("\n".join([head, *rows]) + "\n")
    assert call("init", "p.csv", "--label", "outcome").code == 0
    assert read_toml(Path("p.toml"))["rounds"] == 50
    assert read_toml(Path("p.toml"))["data"]["drop"] == ["patient_id", "a\nrounds = 7"]
