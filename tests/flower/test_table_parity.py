"""One table, cut into a file a client: over messages its rows become the inputs, and its run the model, of `run`."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import torch
from local_net import Net
from torch import Tensor

from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.data.own import read_table
from counterpoise.data.split import stratified_split
from counterpoise.data.tables.cells import names_of
from counterpoise.data.tables.table import FittedTable, fitted_table, open_table
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.errors import ConfigError, DataError, RunError
from counterpoise.flower.own_data import describe_form, own_federation, server_data
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.runner import start

SITES = ("north", "south", "west")
COLUMNS = ["age", "dose", "late", "city", "unit", "site", "risk"]
Row = dict[str, str]


def plain_rows(count: int = 90, seed: int = 3) -> list[Row]:
    rng = random.Random(seed)
    return [
        {
            "age": f"{rng.gauss(50, 9):.4f}",
            "dose": f"{rng.gauss(3e5, 2):.5f}",
            "late": f"{rng.expovariate(0.1):.3f}",
            "city": rng.choice(["oslo", "rome"]),
            "unit": "mg",
            "site": SITES[row % len(SITES)],
            "risk": ["2", "10", "2", "2"][row % 4],
        }
        for row in range(count)
    ]


def held_by_run(folder: Path, rows: list[Row]) -> FittedTable:
    """As `run` reads it; the rows that it keeps for the test do not depend on what they hold."""
    return fitted_table(write(folder / "whole.csv", rows), ColumnUses("risk", "site"))


def write(path: Path, rows: list[Row], columns: list[str] = COLUMNS) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def cut(folder: Path, rows: list[Row]) -> dict[str, Path | None]:
    """A file a client, without the column that names it."""
    files: dict[str, Path | None] = {}
    for site in SITES:
        own = [row for row in rows if row["site"] == site]
        files[site] = write(folder / f"{site}.csv", own, [name for name in COLUMNS if name != "site"])
    return files


def config(path: Path, **tables: Any) -> Experiment:
    settings: dict[str, Any] = {
        "rounds": 2,
        "method": "scaffold",
        "data": {"name": "table", "path": str(path), "label": "risk", "client": "site"},
        "model": {"name": "mlp", "hidden": [8]},
        "local": {"batch_size": 8},
        "engine": {"device": "cpu", "processes": 1, "name": "loop"},
        "flower": {"clients": list(SITES), "wait": 0.3},
    }
    return make_experiment({**settings, **tables})


def gaps_in_training(rows: list[Row], split: Any) -> None:
    for row in split.train[:40:5].tolist():
        rows[row]["dose"] = ["", "NA"][row % 2]


def gap_in_a_test_row(rows: list[Row], split: Any) -> None:
    rows[split.test[0]]["late"] = "?"


def unseen_words(rows: list[Row], split: Any) -> None:
    rows[split.test[1]]["city"], rows[split.test[2]]["city"] = "bergen", ""


def missing_words(rows: list[Row], split: Any) -> None:
    for row in split.train[:9].tolist():
        rows[row]["city"] = "null"


DAMAGES: dict[str, tuple[list[Callable[[list[Row], Any], None]], int]] = {
    "clean": ([], 3 + 2),  # three numbers, two words; what is constant is dropped
    "gaps in training": ([gaps_in_training], 4 + 2),
    "a gap outside training": ([gap_in_a_test_row], 4 + 2),
    "unseen words": ([unseen_words], 3 + 3),
    "missing words": ([missing_words], 3 + 3),
    "all": ([gaps_in_training, gap_in_a_test_row, unseen_words, missing_words], 5 + 4),
}


def damaged(folder: Path, damages: list[Callable[[list[Row], Any], None]]) -> list[Row]:
    rows = plain_rows()
    split = held_by_run(folder, rows).split
    for damage in damages:
        damage(rows, split)
    return rows


def whole_inputs(folder: Path) -> tuple[Tensor, Tensor]:
    """Inputs and labels of `run`, its training and test rows back in the order of the file."""
    data = read_table(folder / "whole.csv", "risk", "site")
    split = fitted_table(folder / "whole.csv", ColumnUses("risk", "site")).split
    order = torch.from_numpy(np.argsort(np.concatenate([split.train, split.test])))
    return torch.cat([data.train.x, data.test.x])[order], torch.cat([data.train.y, data.test.y])[order]


def rows_of(folder: Path) -> list[Tensor]:
    """Which rows of the whole file each client has."""
    sites = names_of(open_table(folder / "whole.csv"), "site")
    return [
        torch.from_numpy(np.flatnonzero(sites.codes == sites.names.index(site)).astype(np.int64))
        for site in SITES
    ]


@pytest.mark.parametrize(("damages", "width"), DAMAGES.values(), ids=DAMAGES)
def test_inputs_of_clients_are_those_of_run_bit_for_bit(damages: Any, width: int, tmp_path: Path) -> None:
    rows = damaged(tmp_path, damages)
    path, files = write(tmp_path / "whole.csv", rows), cut(tmp_path, rows)
    x, y = whole_inputs(tmp_path)
    form = describe_form(config(path))
    assert x.shape == (len(rows), width)
    for number, (places, file) in enumerate(zip(rows_of(tmp_path), files.values(), strict=True)):
        own = own_federation(str(file), {}, form, number, len(SITES))
        assert own.train.x.numpy().tobytes() == x[places].numpy().tobytes()
        assert torch.equal(own.train.y, y[places])
        assert own.classes == ("2", "10")


@pytest.mark.parametrize(("damages", "width"), [DAMAGES["clean"], DAMAGES["all"]], ids=["clean", "all"])
def test_a_whole_run_is_that_of_the_loop_bit_for_bit(damages: Any, width: int, tmp_path: Path) -> None:
    rows = damaged(tmp_path, damages)
    path, files = write(tmp_path / "whole.csv", rows), cut(tmp_path, rows)
    remote = Net(tmp_path, files).run(config(path), tmp_path / "remote")
    alone = start(config(path), tmp_path / "alone", federation=_in_one_place(tmp_path))
    assert remote["params_sha256"] == alone["params_sha256"]
    assert remote["accuracy"] == alone["accuracy"]
    assert server_data(config(path)).form.shape == (width,)


def _in_one_place(folder: Path) -> Federation:
    """The whole table as `run` encodes it; each client holds out of its rows what it would at home."""
    x, y = whole_inputs(folder)
    rows, held = [], []
    for places in rows_of(folder):
        split = stratified_split(y[places].numpy(), 0.2, numpy_generator(0, "test rows"))
        rows.append(places[split.train])
        held.append(places[split.test])
    data, form = Samples(x, y), server_data(config(folder / "whole.csv")).form
    return Federation(data, data, form.classes, form.scaling, tuple(rows), tuple(held), client_names=SITES)


def served(folder: Path, rows: list[Row]) -> str:
    return describe_form(config(write(folder / "whole.csv", rows)))


def own_inputs(folder: Path, rows: list[Row], form: str) -> Tensor:
    file = write(folder / "own.csv", rows, [name for name in COLUMNS if name != "site"])
    return own_federation(str(file), {}, form, 0, len(SITES)).train.x


def test_a_gap_that_only_a_client_has_takes_the_median_and_no_input_more(tmp_path: Path) -> None:
    rows = plain_rows()
    form, split = served(tmp_path, rows), held_by_run(tmp_path, rows).split
    late = np.array([float(row["late"]) for row in rows])[split.train]
    filled = [{**row, "late": repr(float(np.median(late)))} for row in rows[:20]]
    gappy = [{**row, "late": "?"} for row in rows[:20]]
    inputs = own_inputs(tmp_path, gappy, form)
    assert torch.equal(inputs, own_inputs(tmp_path, filled, form))
    assert inputs.shape == (20, 5)


def test_a_word_that_only_a_client_has_is_all_zeros_unless_others_have_a_category(tmp_path: Path) -> None:
    rows, strange = plain_rows(), [{**row, "city": "bergen"} for row in plain_rows()[:20]]
    inputs = own_inputs(tmp_path, strange, served(tmp_path, rows))
    assert inputs[:, 3:].tolist() == [[0.0, 0.0]] * 20
    with_others = damaged(tmp_path, [unseen_words])
    inputs = own_inputs(tmp_path, strange, served(tmp_path, with_others))
    assert inputs[:, 3:].tolist() == [[1.0, 0.0, 0.0]] * 20  # (other), oslo, rome


def test_what_is_constant_at_the_server_may_vary_at_a_client_and_is_no_input(tmp_path: Path) -> None:
    rows = plain_rows()
    others = [{**row, "unit": f"u{place}"} for place, row in enumerate(rows[:20])]
    form = served(tmp_path, rows)
    assert torch.equal(own_inputs(tmp_path, others, form), own_inputs(tmp_path, rows[:20], form))


def test_a_stray_word_among_the_servers_numbers_is_refused_as_in_run(tmp_path: Path) -> None:
    rows = plain_rows()
    rows[7]["age"] = "old"
    path = write(tmp_path / "whole.csv", rows)
    with pytest.raises(DataError, match="row 9: 'age' holds 'old' among numbers") as over_flower:
        describe_form(config(path))
    with pytest.raises(DataError) as alone:
        read_table(path, "risk", "site")
    assert str(over_flower.value) == str(alone.value)


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("age", "old", "row 9: 'age' holds 'old'; needs a number"),
        ("age", "inf", "row 9: 'age' holds 'inf'; needs a number"),
        ("dose", "3e38", "row 9: 'dose' is too far from the training rows to standardise"),
    ],
)
def test_a_cell_that_is_no_number_at_a_client_is_refused_in_one_line(
    column: str, cell: str, reason: str, tmp_path: Path
) -> None:
    rows = plain_rows()
    for row in rows:
        row["dose"] = f"{float(row['dose']) % 1 * 1e-3:.7f}"  # so little spread that 3e38 leaves float32
    path, files = write(tmp_path / "whole.csv", rows), cut(tmp_path, rows)
    own = [dict(row) for row in rows if row["site"] == "north"]
    own[7][column] = cell
    files["north"] = write(tmp_path / "north.csv", own, [name for name in COLUMNS if name != "site"])
    with pytest.raises(DataError, match=rf"north\.csv: {reason}") as refused:
        own_federation(str(files["north"]), {}, describe_form(config(path)), 0, len(SITES))
    assert "\n" not in str(refused.value)
    with pytest.raises(RunError, match="1 of 3 clients did not connect: north"):
        Net(tmp_path, files).run(config(path), tmp_path / "out")


def test_a_column_that_a_client_lacks_is_named(tmp_path: Path) -> None:
    form = served(tmp_path, plain_rows())
    file = write(tmp_path / "own.csv", plain_rows(), ["age", "city", "risk"])
    with pytest.raises(DataError, match=r"own\.csv: row 1: no columns 'dose', 'late', which the model needs"):
        own_federation(str(file), {}, form, 0, len(SITES))


def test_columns_that_count_rows_are_noted_of_the_servers_table(tmp_path: Path) -> None:
    rows = [{**row, "unit": str(place)} for place, row in enumerate(plain_rows())]
    path = write(tmp_path / "whole.csv", rows)
    (warning,) = server_data(config(path)).warnings
    assert warning.startswith("column 'unit' counts the rows, 0 to 89")
    assert warning in read_table(path, "risk", "site").notes


def test_an_argument_that_run_refuses_is_refused_of_the_servers_table(tmp_path: Path) -> None:
    path = write(tmp_path / "whole.csv", plain_rows())
    data = {"name": "table", "path": str(path), "label": "risk", "categoricl": ["unit"]}
    with pytest.raises(ConfigError, match="no argument 'categoricl'"):
        server_data(config(path, data=data))
