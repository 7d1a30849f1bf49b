"""Damaged and foreign files: one line, an exit code, and an earlier predictions.csv stays as it was."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from runs import assert_refused, call
from used_runs import Used

EARLIER = "row,class,p(kept)\n1,kept,1\n"

Damage = Callable[[Path], Path]  # a folder with copies of a run's files -> the file to predict


def edit(change: Callable[[str], str], name: str = "test.csv") -> Damage:
    def damaged(folder: Path) -> Path:
        path = folder / name
        path.write_text(change(path.read_text()))
        return path

    return damaged


def written(name: str, content: bytes) -> Damage:
    def damaged(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return damaged


def cut(name: str, of: str) -> Damage:
    """A file of the run cut in half; `of` is predicted."""

    def damaged(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return folder / of

    return damaged


def arrays_of(**arrays: np.ndarray) -> Damage:
    def damaged(folder: Path) -> Path:
        np.savez(folder / "new.npz", **arrays)
        return folder / "new.npz"

    return damaged


def picture(mode: str, size: tuple[int, int]) -> Damage:
    def damaged(folder: Path) -> Path:
        (folder / "new").mkdir()
        Image.new(mode, size).save(folder / "new" / "x.png")
        return folder / "new"

    return damaged


def first_cell(cell: str, column: int) -> Callable[[str], str]:
    def change(text: str) -> str:
        head, row, *rest = text.splitlines()
        cells = row.split(",")
        cells[column] = cell
        return "\n".join([head, ",".join(cells), *rest]) + "\n"

    return change


X = np.zeros((3, 8, 8), np.uint8)
# Name -> kind of run, damage, exit code, words of the one line.
DAMAGED: dict[str, tuple[str, Damage, int, tuple[str, ...]]] = {
    "no such file": ("table", lambda folder: folder / "none.csv", 3, ("none.csv", "no such file")),
    "an empty file": ("table", written("new.csv", b""), 3, ("is empty",)),
    "missing columns": (
        "table",
        edit(lambda t: t.replace("ash,", "asch,", 1).replace("alcohol,", "wine,", 1)),
        3,
        ("no columns 'alcohol', 'ash', which the model needs",),
    ),
    "a missing column": ("table", edit(lambda t: t.replace("ash,", "asch,", 1)), 3, ("no column 'ash'",)),
    "a word among numbers": ("table", edit(first_cell("much", 2)), 3, ("row 2", "'much'")),
    "a number beyond floats": ("table", edit(first_cell("1e300", 2)), 3, ("row 2", "1e300")),
    "a number too far away": ("table", edit(first_cell("3e38", 1)), 3, ("row 2", "too far")),
    "a short row": ("table", edit(lambda t: t + "red,1,2\n"), 3, ("has 3 cells",)),
    "an open quote": ("table", edit(lambda t: t + '"red,1'), 3, ("a quote is never closed",)),
    "a zero byte": ("table", edit(lambda t: t + "\0"), 3, ("zero byte",)),
    "a label that is no class": ("table", edit(first_cell("class_9", -1)), 3, ("row 2", "'class_9' is no class")),
    "two columns of one name": ("table", edit(lambda t: t.replace("ash,", "alcohol,", 1)), 3, ("two columns",)),
    "only a header": ("table", edit(lambda t: t.splitlines()[0]), 3, ("no rows below the header",)),
    "UTF-16": ("table", written("new.csv", "a,b\n".encode("utf-16")), 3, ("UTF-16",)),
    "a damaged gzip file": ("table", written("new.csv.gz", b"\x1f\x8b\x08nothing"), 3, ("damaged gzip",)),
    "no Parquet file": ("table", written("new.parquet", b"PAR1 not"), 3, ("Parquet",)),
    "an unknown kind": ("table", written("new.xlsx", b"PK"), 3, ("cannot tell what .xlsx holds",)),
    "a truncated npz": ("arrays", cut("test.npz", "test.npz"), 3, ("damaged or not an npz file",)),
    "an npz without x": ("arrays", arrays_of(z=X), 3, ("holds z; needs x, or x_test",)),
    "pixels as shares of one": ("arrays", arrays_of(x=X / 255), 3, ("from 0 to 255",)),
    "another shape": ("arrays", arrays_of(x=X[:, :5]), 3, ("[n, 1, 8, 8]",)),
    "a label beyond the classes": ("arrays", arrays_of(x=X, y=np.array([0, 1, 77])), 3, ("row 3", "'77'")),
    "labels for other samples": ("arrays", arrays_of(x=X, y=np.array([0, 1])), 3, ("one label per sample",)),
    "pickled objects": ("arrays", arrays_of(x=np.array([{}], dtype=object)), 3, ("needs numbers",)),
    "no image": ("images", written("new.png", b"\x89PNG nothing"), 3, ("cannot be read as an image",)),
    "an image in colour": ("images", picture("RGB", (8, 8)), 3, ("in colour", "grey")),
    "a folder without images": ("images", lambda folder: (folder / "run" / "checkpoints"), 3, ("image",)),
    "a cut model": ("table", cut("run/model.safetensors", "test.csv"), 3, ("model.safetensors has changed",)),
    "a cut preprocessing": ("table", cut("run/preprocessing.json", "test.csv"), 3, ("preprocessing.json",)),
    "a cut summary": ("table", cut("run/summary.json", "test.csv"), 3, ("summary.json",)),
    "a changed encoder": (
        "table",
        lambda folder: edit(lambda t: t.replace("red", "tan"), "run/preprocessing.json")(folder).parents[1] / "test.csv",
        3,
        ("preprocessing.json is damaged",),
    ),
    "no run": ("table", lambda folder: [(folder / "run" / "config.toml").unlink(), folder / "test.csv"][1], 2, ("no run",)),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_line_and_loses_nothing(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind, damage, code, words = DAMAGED[name]
    used: Used = request.getfixturevalue(kind)
    shutil.copytree(used.run, tmp_path / "run")
    if used.test.is_file():
        shutil.copy(used.test, tmp_path)
    out = tmp_path / "predictions.csv"
    out.write_text(EARLIER)
    file = damage(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert_refused(call("predict", tmp_path / "run", file, "-o", out), code, *words)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert out.read_text() == EARLIER


def test_the_file_to_predict_is_never_written_over(table: Used, tmp_path: Path) -> None:
    shutil.copy(table.test, tmp_path / "mine.csv")
    (tmp_path / "other.csv").symlink_to(tmp_path / "mine.csv")
    refused = call("predict", table.run, tmp_path / "mine.csv", "-o", tmp_path / "other.csv")
    assert_refused(refused, 2, "which would be lost")
    assert (tmp_path / "mine.csv").read_bytes() == table.test.read_bytes()


def test_a_place_that_cannot_be_written_is_named_before_the_model_is_loaded(tmp_path: Path) -> None:
    """The words were those on a temporary file, and came last, with the exit code of a run to be resumed."""
    (tmp_path / "text").write_text("x")
    no_run, file = tmp_path / "no run", tmp_path / "no file.csv"  # neither is asked for
    for out, words in {
        tmp_path / "no" / "p.csv": f"needs the folder {tmp_path / 'no'}, which is not there",
        tmp_path / "text" / "p.csv": f"needs the folder {tmp_path / 'text'}",
        tmp_path: f"--out must be a file, not {tmp_path}, which is a folder",
        Path("/dev/null"): "--out must be a file, not /dev/null",
    }.items():
        assert_refused(call("predict", no_run, file, "-o", out), 2, words)


@pytest.mark.parametrize("name", ["summary.json", "new.csv", "checkpoints/new.csv"])
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["plain", "force"])
def test_nothing_is_written_into_a_run(
    name: str, force: tuple[str, ...], table: Used, tmp_path: Path
) -> None:
    """`-o RUN/summary.json` destroyed the run."""
    shutil.copytree(table.run, tmp_path / "run")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = call("predict", tmp_path / "run", table.test, "-o", tmp_path / "run" / name, *force)
    assert_refused(refused, 2, "must not lie in the folder of a run")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_only_predictions_are_written_over_without_force(table: Used, tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    for other in ("row,class\n1,mine\n", "precious\n", ""):
        out.write_text(other)
        refused = call("predict", table.run, table.test, "-o", out)
        assert_refused(refused, 2, "mine.csv is there already and holds no predictions", "--force")
        assert out.read_text() == other
    assert call("predict", table.run, table.test, "-o", out, "--force").code == 0
    first = out.read_bytes()
    assert call("predict", table.run, table.test, "-o", out).code == 0
    assert out.read_bytes() == first


def test_an_experiment_called_config_is_no_run(table: Used, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("rounds = 1\n")
    assert call("predict", table.run, table.test, "-o", tmp_path / "p.csv").code == 0


def test_a_missing_pyarrow_is_one_line(table: Used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    refused = call("predict", table.run, tmp_path / "x.parquet", "-o", tmp_path / "p.csv")
    assert_refused(refused, 3, "install counterpoise[parquet]")
