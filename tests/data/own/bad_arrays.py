"""npz files that are wrong, or only look so: what each holds and what is said of it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.data.dataset import Dataset
from counterpoise.data.own import read_npz

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12) % 3
HALVES = {"x_train": X, "y_train": Y, "x_test": X[:3], "y_test": Y[:3]}
CUTS = 20


def with_value(array: np.ndarray, row: int, value: Any) -> np.ndarray:
    changed = array.copy()
    changed[row] = value
    return changed


# name -> arrays, and a part of the error; None where the arrays are to be read
ARRAYS: dict[str, tuple[dict[str, Any], str | None]] = {
    "class missing from the test": (HALVES | {"x_test": X[:2], "y_test": Y[:2]}, None),
    "labels with gaps": ({"x": X, "y": Y * 1_000_000_007}, None),
    "one-sample client": ({"x": X, "y": Y, "client": np.array([7] + [9] * 11)}, None),
    "constant pixels": ({"x": np.zeros((12, 4, 4), np.uint8), "y": Y}, None),
    "largest numbers": ({"x": X * 1e37, "y": Y}, None),
    "objects": ({"x": np.array([[{}]] * 12, dtype=object), "y": Y}, "x holds dtype('O')"),
    "complex numbers": ({"x": X + 1j, "y": Y}, "x holds dtype('complex128')"),
    "dates": ({"x": X.astype("M8[s]"), "y": Y}, "x holds dtype"),
    "records": ({"x": np.zeros((12, 2), [("a", "f4")]), "y": Y}, "x holds dtype"),
    "words for numbers": ({"x": X.astype(str), "y": Y}, "x holds <U"),
    "float labels": ({"x": X, "y": Y * 1.0}, "y holds float64; needs whole numbers"),
    "word labels": ({"x": X, "y": Y.astype(str)}, None),
    "object labels": (
        {"x": X, "y": Y.astype(object)},
        "y holds dtype('O'); needs numbers or words, as astype",
    ),
    "missing word label": ({"x": X, "y": with_value(Y.astype("U3"), 4, "nan")}, "row 5: y is missing"),
    "word that is no class": (
        {"x": X, "y": with_value(Y.astype("U3"), 4, "7"), "classes": list("012")},
        "row 5: y holds '7'; one of 0, 1, 2",
    ),
    "words and numbers": (HALVES | {"y_train": Y.astype(str)}, "y_test holds int64, y_train words"),
    "long words": ({"x": X, "y": Y.astype("U300")}, "y holds words of 300 characters"),
    "boolean labels": ({"x": X, "y": Y > 0}, "y holds bool"),
    "negative label": ({"x": X, "y": with_value(Y, 4, -1)}, "row 5: y holds -1"),
    "label out of range": (
        {"x": X, "y": with_value(Y, 4, 3), "classes": ["a", "b", "c"]},
        "row 5: y holds 3; must be 0 to 2",
    ),
    "label beyond 64 bits": (
        {"x": X, "y": with_value(Y.astype(np.uint64), 4, 2**64 - 1)},
        "row 5: y holds 18446744073709551615",
    ),
    "one-hot labels": ({"x": X, "y": np.eye(3, dtype=int)[Y]}, "y has shape (12, 3)"),
    "nan": ({"x": with_value(X, 6, np.nan), "y": Y}, "row 7: x holds nan"),
    "infinite": ({"x": with_value(X, 6, -np.inf), "y": Y}, "row 7: x holds -inf"),
    "beyond float32": ({"x": with_value(X, 6, 1e300), "y": Y}, "row 7: x holds 1e+300"),
    "nan in the test": (HALVES | {"x_test": with_value(X[:3], 1, np.nan)}, "row 2: x_test holds nan"),
    "no samples": ({"x": X[:0], "y": Y[:0]}, "x has shape (0, 2)"),
    "no features": ({"x": X[:, :0], "y": Y}, "x has shape (12, 0)"),
    "no test samples": (HALVES | {"x_test": X[:0], "y_test": Y[:0]}, "x_test has shape (0, 2)"),
    "one dimension": ({"x": X[:, 0], "y": Y}, "x has shape (12,)"),
    "no dimension": ({"x": np.float64(1), "y": Y}, "x has shape ()"),
    "one class": ({"x": X, "y": Y * 0}, "holds 1 class;"),
    "one sample a class": ({"x": X, "y": np.arange(12)}, "every class has one sample"),
    "fewer labels": ({"x": X, "y": Y[:-1]}, "y has shape (11,); needs (12,)"),
    "labels missing": ({"x": X}, "holds x; needs x and y"),
    "misnamed": ({"X": X, "lables": Y}, "holds X, lables; needs x and y"),
    "whole and halves": (HALVES | {"x": X, "y": Y}, "needs x and y, or x_train"),
    "client and clients": ({"x": X, "y": Y, "client": Y, "clients": Y}, "both client and clients"),
    "float clients": ({"x": X, "y": Y, "client": Y * 1.0}, "client holds float64"),
    "fewer clients": ({"x": X, "y": Y, "client": Y[:-1]}, "client has shape (11,)"),
    "equal class names": ({"x": X, "y": Y, "classes": ["a", "b", "a"]}, "classes are ['a', 'b', 'a']"),
    "class names in a grid": (
        {"x": X, "y": Y, "classes": [["a", "b", "c"]]},
        "needs a list of different names",
    ),
    "class missing everywhere": ({"x": X, "y": Y, "classes": list("abcd")}, "class 'd' has no samples"),
    "class of the test only": (
        HALVES | {"y_test": np.array([0, 1, 7])},
        "row 3: test label 7 is in no training sample",
    ),
    "named class of the test only": (
        HALVES | {"y_train": Y % 2, "classes": list("abc")},
        "class 'c' has test samples only",
    ),
    "test of another shape": (
        HALVES | {"x_test": X[:3, :1]},
        "training samples are float32 (2,), test samples float32 (1,)",
    ),
    "test of another type": (HALVES | {"x_test": X[:3].astype(np.uint8)}, "test samples uint8 (2,)"),
}


def read_as_arrays(folder: Path, arrays: dict[str, Any]) -> Dataset:
    np.savez(folder / "a.npz", **arrays)
    return read_npz(folder / "a.npz")


def good_bytes() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=X, y=Y)
    return stream.getvalue()


def npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    """An npy member with a header of our choice."""
    text = header.encode() + b"\n"
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + len(text).to_bytes(2 if version == 1 else 4, "little")
        + text
        + content
    )


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def described(shape: str, descr: str = "'<f8'", content: bytes = bytes(64), version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
    labels = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4,)}", np.array([0, 1, 0, 1]).tobytes())
    return zipped({"x.npy": npy(header, content, version), "y.npy": labels})


GOOD = good_bytes()
BYTES: dict[str, tuple[bytes, str | None]] = {
    **{
        f"cut at {cut} of {CUTS}": (
            GOOD[: len(GOOD) * cut // CUTS],
            "damaged or not an npz file" if cut else "is empty",
        )
        for cut in range(CUTS)
    },
    "by hand, and right": (described("(4, 2)"), None),
    "not a zip": (b"x,y\n1,2\n", "damaged or not an npz file"),
    "2^40 elements": (
        described("(1099511627776,)"),
        "x says 8,796,093,022,208 bytes of numbers, the archive 64",
    ),
    "overflowing shape": (described("(4294967296, 4294967296)"), "bytes of numbers, the archive 64"),
    "negative shape": (described("(-4, -2)"), "x has shape (-4, -2)"),
    "fewer numbers than said": (described("(4, 3)"), "x says 96 bytes of numbers, the archive 64"),
    "more numbers than said": (described("(4, 1)"), "x says 32 bytes of numbers, the archive 64"),
    "many dimensions": (described("(4, 2, 1, 1, 1, 1, 1, 1)"), "x has shape"),
    "shape of words": (described("('4', 2)"), "shape is not valid"),
    "header of code": (zipped({"x.npy": npy("__import__('os').abort()")}), "damaged or not an npz file"),
    "deep header": (zipped({"x.npy": npy("-" * 4_000 + "1")}), "damaged or not an npz file"),
    "nested header": (zipped({"x.npy": npy("(" * 3_000)}), "damaged or not an npz file"),
    "long header": (zipped({"x.npy": npy("{}" + " " * 1_000_000, version=2)}), "damaged or not an npz file"),
    "version 3": (described("(4, 2)", version=3), "x is in npy version (3, 0)"),
    "pickle for numbers": (described("(4, 2)", descr="'|O'"), "x holds dtype('O')"),
    "no width": (described("(4, 2)", descr="'<U0'", content=b""), "x holds <U0; needs numbers"),
    "no npy": (zipped({"x.npy": b"hello", "y.npy": b"hello"}), "damaged or not an npz file"),
    "bzip2": (zipped({"x.npy": npy("{}")}, zipfile.ZIP_BZIP2), "x is encrypted or in an unknown compression"),
    "hundred arrays": (
        zipped({f"a{place}.npy": b"" for place in range(100)}),
        "holds 100 arrays; at most 64",
    ),
    "one name twice": (zipped({"x.npy": b"", "x": b""}), "two of its arrays have the same name"),
}


def read_bytes(folder: Path, content: bytes) -> Dataset:
    (folder / "a.npz").write_bytes(content)
    return read_npz(folder / "a.npz")
