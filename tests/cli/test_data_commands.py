"""`counterpoise data`: inspect, pack and download as a user meets them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from PIL import Image
from runs import TINY, assert_refused, call, read_summary, write_tiny

from counterpoise.system.toml import write_toml

TABLE = ["age,site,y", *(f"{k},a,ok" for k in range(8)), *(f"{k},b,bad" for k in range(8))]


def test_inspect_tells_of_classes_and_clients_and_draws_them(tmp_path: Path) -> None:
    table, picture = tmp_path / "mine.csv", tmp_path / "it.png"
    table.write_text("\n".join(TABLE))
    done = call("data", "inspect", table, "--label", "y", "--client", "site", "--picture", picture)
    assert done.code == 0, done.err
    assert "2 classes, 2 clients" in done.out
    assert "clients whose largest class is not the largest of all" in done.out
    with Image.open(picture) as drawn:
        assert drawn.width > 200


def test_a_packed_table_is_inspected_and_trained_on(tmp_path: Path) -> None:
    packed = tmp_path / "mine.csv.gz"
    packed.write_bytes(gzip.compress("\n".join(TABLE).encode()))
    looked = call("data", "inspect", packed, "--label", "y", "--picture", tmp_path / "it.png")
    assert looked.code == 0, looked.err
    assert looked.out.startswith("mine: 12 training and 4 test samples, 2 classes")
    own = {"name": "table", "path": str(packed), "label": "y"}
    (tmp_path / "mine.toml").write_text(
        write_toml(TINY | {"data": own, "partition": {"name": "iid", "clients": 2}})
    )
    done = call("run", tmp_path / "mine.toml", "--out", tmp_path / "run")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["mine.csv", "empty"]),
        ("age,y\n", ["mine.csv"]),
        ("age,y\n1,ok\n2\n", ["mine.csv", "row 3"]),
        ("age,y\n" + "1,ok\n" * 9, ["mine.csv", "class"]),
        ("age,y\n1,\n" + "1,ok\n2,bad\n" * 9, ["mine.csv", "row 2"]),
        ('age,y\n"1,ok\n' + "2,bad\n" * 9, ["mine.csv"]),
    ],
)
def test_a_bad_table_ends_with_exit_code_3_and_one_line(
    tmp_path: Path, content: str, words: list[str]
) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(content)
    assert_refused(
        call("data", "inspect", table, "--label", "y", "--picture", tmp_path / "it.png"), 3, *words
    )


def test_a_missing_set_says_what_to_put_where(tmp_path: Path) -> None:
    done = call("data", "inspect", "mnist", "--root", tmp_path, "--picture", tmp_path / "it.png")
    assert_refused(done, 3, "train-images-idx3-ubyte", str(tmp_path), "counterpoise data download mnist")


def test_download_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    assert_refused(call("data", "download", "mnst", "--root", tmp_path), 2, "mnst", "did you mean 'mnist'")


def test_a_run_from_a_pack_is_the_run_from_the_data(tmp_path: Path) -> None:
    experiment, pack = write_tiny(tmp_path), tmp_path / "it.safetensors"
    made = call("data", "pack", experiment, pack)
    assert made.code == 0, made.err
    assert "MiB" in made.out
    assert call("run", experiment, "--out", tmp_path / "one").code == 0
    other = tmp_path / "other.toml"
    elsewhere = {key: table for key, table in TINY.items() if key != "partition"}
    other.write_text(write_toml({**elsewhere, "data": {"name": "pack", "path": str(pack)}}))
    done = call("run", other, "--out", tmp_path / "two")
    assert done.code == 0, done.err
    first, second = (read_summary(tmp_path / name) for name in ("one", "two"))
    assert first["params_sha256"] == second["params_sha256"]
    record = json.loads((tmp_path / "two" / "record.json").read_text())
    assert record["data"]["name"] == "digits"


def test_a_pack_has_its_suffix(tmp_path: Path) -> None:
    assert_refused(call("data", "pack", write_tiny(tmp_path), tmp_path / "it.zip"), 2, ".safetensors")


def test_a_pack_overwrites_nothing_but_a_pack(tmp_path: Path) -> None:
    """It wrote over the final weights of a run."""
    experiment, target = write_tiny(tmp_path), tmp_path / "it.safetensors"
    assert call("run", experiment, "--out", tmp_path / "run").code == 0
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    target.write_bytes(weights)
    assert_refused(call("data", "pack", experiment, target), 2, "is there already and is no pack")
    within = tmp_path / "run" / "model.safetensors"
    assert_refused(call("data", "pack", experiment, within), 2, "TARGET must not lie in the folder of a run")
    assert within.read_bytes() == target.read_bytes() == weights
    target.unlink()
    for _ in range(2):
        assert call("data", "pack", experiment, target).code == 0


def test_a_place_that_is_not_there_is_named_before_any_work(tmp_path: Path) -> None:
    experiment, missing = write_tiny(tmp_path), tmp_path / "missing"
    packed = call("data", "pack", experiment, missing / "it.safetensors")
    assert_refused(packed, 2, "TARGET", "needs the folder")
    drawn = call("data", "inspect", experiment, "--picture", missing / "it.png")
    assert_refused(drawn, 2, "--picture", "needs the folder")
    assert not drawn.out


def test_inspect_takes_the_overrides_of_run(tmp_path: Path) -> None:
    table, picture = tmp_path / "mine.csv", ("--picture", tmp_path / "it.png")
    table.write_text("\n".join(TABLE))
    write_tiny(tmp_path)
    looked = call("data", "inspect", tmp_path / "tiny.toml", "partition.clients=3", *picture)
    assert "10 classes, 3 clients" in looked.out, looked.err
    cut = call(
        "data", "inspect", table, "partition.name=iid", "partition.clients=4", "--label", "y", *picture
    )
    assert "2 classes, 4 clients" in cut.out, cut.err
    own = call("data", "inspect", table, "data.imbalance=2", "--label", "y", "--client", "site", *picture)
    assert "imbalance: 2 to 1" in own.out, own.err
    named = call("data", "inspect", "digits", "data.imbalance=20", *picture)
    assert "10 classes, 1 client" in named.out, named.err
    assert_refused(call("data", "inspect", table, "data.labl=y", *picture), 2, "data")
