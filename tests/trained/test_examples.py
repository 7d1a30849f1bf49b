"""The programs of an export read what `predict` reads, and say in one line what they cannot read."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runs import call
from used_runs import Used, make_run

import counterpoise as cp
from counterpoise.trained.predict import predict_file

SCRIPTS = ("example_torch.py", "example_onnx.py")
READABLE = (
    "comma.csv",
    "semicolon.csv",
    "comma.txt",
    "tab.tsv",
    "bar.txt",
    "mark.csv",
    "latin.csv",
    "packed.csv.gz",
    "blank.csv",
)
UNREADABLE = {
    "none.csv": "No such file",
    "empty.csv": "lacks some of the columns",
    "less.csv": "lacks some of the columns",
    "short.csv": "a row has 3 cells, the header 15",
    "word.csv": "could not convert string to float: 'much'",
    "header.csv": "no rows below the header",
    "wide.csv": "lacks some of the columns",
    "infinite.csv": "inf is no number, or too large",
    "grouped.csv": "1_000 is no number, or too large",
    "twice.csv": "two columns have one name",
}  # fmt: skip

# Runs both scripts on all files in a process that cannot import this package; what ends a script is printed as its words.
RUN_ALL = """
import runpy, sys
sys.modules["counterpoise"] = None
sys.path[0] = "."
scripts, *files = [given.split("|") for given in sys.argv[1:]]
for script in scripts:
    for [file] in files:
        sys.argv = [script, file]
        print(">")
        try: runpy.run_path(script)
        except SystemExit as end: print(end.code)
"""


def run_scripts(folder: Path, *files: Path) -> list[list[str]]:
    """The lines that each script prints of each file."""
    command = [sys.executable, "-c", RUN_ALL, "|".join(SCRIPTS), *map(str, files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [text.splitlines() for text in done.stdout.split(">\n")[1:]]


def write_readable(text: str, folder: Path) -> None:
    contents = {
        "comma.csv": text.encode(),
        "semicolon.csv": text.replace(",", ";").encode(),
        "comma.txt": text.replace(",", ";").replace(".", ",").encode(),  # as in Paris and Berlin
        "tab.tsv": text.replace(",", "\t").encode(),
        "bar.txt": text.replace(",", "|").encode(),
        "mark.csv": text.encode("utf-8-sig"),  # as Excel writes it
        "latin.csv": text.replace("rose", "rosé").encode("latin-1"),
        "packed.csv.gz": gzip.compress(text.encode()),
        "blank.csv": f"\n{text}\n\n".encode(),
    }
    assert contents.keys() == {*READABLE}
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def write_unreadable(text: str, folder: Path) -> None:
    header, first, *rest = text.splitlines()
    cells = first.split(",")
    contents = {
        "empty.csv": "",
        "less.csv": text.replace("ash,", "asch,", 1),
        "short.csv": f"{text}red,1,2\n",
        "word.csv": "\n".join([header, ",".join([*cells[:2], "much", *cells[3:]]), *rest]),
        "header.csv": header,
        "infinite.csv": "\n".join([header, ",".join([*cells[:2], "inf", *cells[3:]]), *rest]),
        "grouped.csv": "\n".join([header, ",".join([*cells[:2], "1_000", *cells[3:]]), *rest]),
        "twice.csv": "\n".join(line + "," + line.split(",")[1] for line in text.splitlines()),
    }
    for name, content in contents.items():
        (folder / name).write_text(content)
    (folder / "wide.csv").write_bytes(text.encode("utf-16"))


@pytest.fixture(scope="module")
def exported(table: Used, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples") / "table"
    assert call("export", table.run, folder).code == 0
    return folder


def test_examples_read_every_text_file_that_predict_reads(
    exported: Path, table: Used, tmp_path: Path
) -> None:
    """A semicolon, a byte order mark and Latin-1 each ended in a traceback."""
    write_readable(table.test.read_text(), tmp_path)
    run, files = cp.load_run(table.run), [tmp_path / name for name in READABLE]
    wanted = [predict_file(run, file).said for file in files]
    printed = run_scripts(exported, *files)
    for lines, said in zip(printed, wanted * len(SCRIPTS), strict=True):
        rows = [line.split() for line in lines]
        assert [row[0] for row in rows] == said.labels
        shares = np.array([row[1:] for row in rows], dtype=float)
        assert np.abs(shares - said.probabilities.numpy()).max() < 1e-4


def test_what_an_example_cannot_read_is_one_line(exported: Path, table: Used, tmp_path: Path) -> None:
    write_unreadable(table.test.read_text(), tmp_path)
    files = [tmp_path / name for name in UNREADABLE]
    printed = run_scripts(exported, *files)
    words = [*UNREADABLE.items()] * len(SCRIPTS)
    for [line], (name, reason) in zip(printed, words, strict=True):
        assert line.startswith(f"{tmp_path / name}: ")
        assert reason in line
        assert line.endswith("needs a CSV file with the columns of training, in any order")


def test_examples_of_arrays_take_the_training_file_and_refuse_others_in_one_line(
    arrays: Used, tmp_path: Path
) -> None:
    """Of a file with halves the test half is taken, as `predict` does."""
    assert call("export", arrays.run, tmp_path / "out").code == 0
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    np.savez(tmp_path / "wide.npz", x=np.zeros((4, 3, 8, 7), np.uint8))
    np.savez(tmp_path / "large.npz", x=np.zeros((4, 16, 16), np.uint8))
    np.savez(tmp_path / "shares.npz", x=np.full((4, 8, 8), 0.5, np.float32))
    np.savez(tmp_path / "beyond.npz", x=np.full((4, 8, 8), 300))
    np.savez(tmp_path / "empty.npz", x=np.zeros((0, 8, 8), np.uint8))
    (tmp_path / "text.npz").write_text("no arrays")
    names = ("other", "wide", "large", "shares", "beyond", "empty", "text", "none")
    bad = [tmp_path / f"{name}.npz" for name in names]
    wanted = predict_file(cp.load_run(arrays.run), arrays.data).said.labels
    printed = run_scripts(tmp_path / "out", arrays.data, *bad)
    for place in (0, len(bad) + 1):
        assert [line.split()[0] for line in printed[place]] == wanted
        for [line], file in zip(printed[place + 1 : place + 1 + len(bad)], bad, strict=True):
            assert line.startswith(f"{file}: ")
            assert line.endswith("needs an npz file with an array x [n, 1, 8, 8] of bytes from 0 to 255")


def test_examples_of_arrays_take_channels_wherever_predict_takes_them(arrays: Used, tmp_path: Path) -> None:
    assert call("export", arrays.run, tmp_path / "out").code == 0
    x = np.random.default_rng(0).integers(0, 256, (5, 8, 8))
    for name, given in {"none": x, "first": x[:, None], "last": x[..., None]}.items():
        np.savez(tmp_path / f"{name}.npz", x=given.astype(np.uint8))
    files = [tmp_path / f"{name}.npz" for name in ("none", "first", "last")]
    wanted = predict_file(cp.load_run(arrays.run), files[0]).said.labels
    for lines in run_scripts(tmp_path / "out", *files):
        assert [line.split()[0] for line in lines] == wanted


def test_examples_of_numbers_refuse_what_is_not_finite(arrays: Used, tmp_path: Path) -> None:
    """NaN became an answer without a word."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", x=rng.normal(size=(60, 4)), y=np.arange(60) % 2)
    run = make_run(
        tmp_path / "run", {"name": "arrays", "path": str(tmp_path / "rows.npz"), "test_share": 0.3}
    )
    assert call("export", run, tmp_path / "out").code == 0
    np.savez(tmp_path / "gap.npz", x=np.where(np.eye(4) > 0, np.nan, 1.0))
    for [line] in run_scripts(tmp_path / "out", tmp_path / "gap.npz"):
        assert "x holds numbers that are not finite" in line
