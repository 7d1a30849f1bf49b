"""The two short programs of an export, which use it without this package; and the JSON that they read."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from counterpoise.data.faults import MAX_NUMBER
from counterpoise.data.form import IMAGE_DIMENSIONS
from counterpoise.data.preprocessing import Preprocessing
from counterpoise.data.tables.cells import MISSING, MISSING_WORD
from counterpoise.data.tables.commas import COMMA, POINT
from counterpoise.data.tables.encoder import OTHER_WORD
from counterpoise.metrics.threshold import Decision

# Which mark divides the cells is told by the columns that must be there, as they differ from file to file.
TABLE = """\
def points(cells):  # 3,5 is 3.5 between semicolons, in a column without points
    return cells if any(re.fullmatch(r"POINT", cell) for cell in cells) else [re.sub(r"^COMMA$", r"\\1.\\2", cell) for cell in cells]
def table(path):
    needed, raw = [*how["numbers"], *how["words"]], open(path, "rb").read()
    raw = gzip.decompress(raw) if raw[:2] == b"\\x1f\\x8b" else raw
    try: text = raw.decode("utf-8-sig")
    except UnicodeDecodeError: text = raw.decode("latin-1")
    for mark in ",;\\t|":
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
        names, *rows = [[cell.strip() for cell in line] for line in lines if len(line) > 1 or "".join(line).strip()] or [[]]
        if {*needed} <= {*names}: break
    else: raise ValueError(f"lacks some of the columns {', '.join(needed)}")
    if not rows or any(names.count(name) > 1 for name in needed): raise ValueError("two columns have one name" if rows else "no rows below the header")
    if odd := [row for row in rows if len(row) != len(names)]: raise ValueError(f"a row has {len(odd[0])} cells, the header {len(names)}")
    if mark == ";": rows = zip(*map(points, zip(*rows)))
    return [dict(zip(names, row)) for row in rows]
def cell(row, name): return "MISSING" if row[name].lower() in how["missing"] else row[name]
"""
CODES = """\
def place(words, word): return words.index(word) if word in words else words.index("OTHER") if "OTHER" in words else -1
"""
NUMBER = """\
def number(text):
    value = float("nan" if text == "MISSING" else text)
    if "_" in text or abs(value) > LARGEST: raise ValueError(f"{text} is no number, or too large")
    return value
"""
NUMBERS_OF = '[[number(cell(row, name)) for name in how["numbers"]] for row in rows]'
CODES_OF = '[[place(words, cell(row, name)) for name, words in how["words"].items()] for row in rows]'
ARRAY = """\
if open(sys.argv[1], "rb").read(2) != b"PK": raise ValueError("is no npz file")
file = np.load(sys.argv[1])
x, shape = file["x_test" if "x_test" in file else "x"], how["x"]["shape"][1:]
"""
IMAGES = """\
if shape[0] == 1 and [*x.shape[1:]] == shape[1:]: x = x[:, None]
if [*x.shape[1:]] == [*shape[1:], shape[0]] != shape: x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
"""
FITTING = """\
if [*x.shape[1:]] != shape or not len(x): raise ValueError(f"x has the shape {[*x.shape]}")
if x.dtype.kind not in "KINDS": raise ValueError(f"x holds {x.dtype}")
"""
WITHIN = """\
if x.min() < 0 or x.max() > 255: raise ValueError(f"x holds numbers from {x.min()} to {x.max()}")
"""
FINITE = """\
if not np.isfinite(x).all(): raise ValueError("x holds numbers that are not finite")
"""
USAGE = """\
if len(sys.argv) != 2: sys.exit(f"usage: python {sys.argv[0]} FILE")
"""
READ = """\
try:
LINES
except Exception as error: sys.exit(f"{sys.argv[1]}: {error}; needs FILE")
"""
ANSWER = """\
for row in shares: print(how["classes"][PLACE], *(f"{share:.4f}" for share in row))
"""
MOST_PROBABLE = "row.argmax()"
FROM_THRESHOLD = 'POSITIVE if row[POSITIVE] >= how["threshold"]["probability"] else OTHER'


def how_json(how: Preprocessing, decision: Decision | None = None) -> dict[str, Any]:
    """What somebody without this package needs to make inputs of their data, and names of answers."""
    form = how.form
    common: dict[str, Any] = {
        "classes": list(form.classes),
        "label": form.label,
        "labels": dict(how.labels),
        **({} if decision is None else {"threshold": _threshold(how, decision)}),
    }
    if form.columns is None:
        scaling = {name: tensor.tolist() for name, tensor in form.scaling._asdict().items()}
        kind = str(form.kind).removeprefix("torch.")
        return {"x": {"type": kind, "shape": [None, *form.shape]}, **common, **scaling}
    encoder = form.columns.to_json()
    fields = ("centre", "gap", "mean", "deviation", "flagged")
    statistics = {name: dict(zip(fields, given, strict=True)) for name, given in encoder["numbers"].items()}
    missing = sorted(MISSING)
    return {"numbers": statistics, "words": encoder["words"], "missing": missing, **common}


def _threshold(how: Preprocessing, decision: Decision) -> dict[str, Any]:
    return {"class": how.form.classes[decision.positive], "probability": decision.chance}


def _answer(decision: Decision | None) -> str:
    """The most probable class, or the positive one from the threshold on."""
    if decision is None:
        return ANSWER.replace("PLACE", MOST_PROBABLE)
    place = FROM_THRESHOLD.replace("POSITIVE", str(decision.positive)).replace(
        "OTHER", str(1 - decision.positive)
    )
    return ANSWER.replace("PLACE", place)


def torch_example(how: Preprocessing, decision: Decision | None = None) -> str:
    """Answers for a file, by torch and safetensors alone."""
    wrap = {"numbers": "torch.tensor({}, dtype=torch.float64)", "codes": "torch.tensor({})"}
    numpy = "" if how.form.columns is not None else ", numpy as np"
    head = f"import {_first(how)}, torch{numpy}\nfrom model import load  # model.py, beside this file\n"
    call = f"_, shares = load()({_inputs(how, 'torch.from_numpy(x)')})\n"
    return _whole("plain PyTorch", how, head + HOW + _read(how, wrap) + call + _answer(decision))


def onnx_example(how: Preprocessing, decision: Decision | None = None) -> str:
    """Answers for a file, by onnxruntime and NumPy alone."""
    wrap = {"numbers": "np.array({}, dtype=np.float64)", "codes": "np.array({}, dtype=np.int64)"}
    head = f"import {_first(how)}\nimport numpy as np, onnxruntime\n"
    call = f"_, shares = onnxruntime.InferenceSession({ONNX}).run(None, {_inputs(how, 'x')})\n"
    return _whole("onnxruntime", how, head + HOW + _read(how, wrap) + call + _answer(decision))


HOW = 'how = json.loads(pathlib.Path(__file__).with_name("inputs.json").read_text())\n'


ONNX = 'str(pathlib.Path(__file__).with_name("model.onnx"))'


def _first(how: Preprocessing) -> str:
    return "csv, gzip, io, json, pathlib, re, sys" if how.form.columns is not None else "json, pathlib, sys"


def _array(how: Preprocessing) -> str:
    """Arrays are taken as in training: pixels as bytes, numbers as floats, grey images with a channel or not."""
    form, whole = how.form, how.form.pixels or how.form.scaling.whole
    lines = ARRAY + (IMAGES if len(form.shape) == IMAGE_DIMENSIONS else "")
    lines += FITTING.replace("KINDS", "iu" if whole else "fiu") + (WITHIN if form.pixels else "")
    cast = f'x = x.astype("{str(form.kind).removeprefix("torch.")}")\n'
    return lines + cast + ("" if whole else FINITE)


def _inputs(how: Preprocessing, x: str) -> str:
    """The model's inputs by name; `x` is the array as the model takes it."""
    return "{" + ", ".join(f'"{name}": {x if name == "x" else name}' for name in _names(how)) + "}"


def _names(how: Preprocessing) -> list[str]:
    encoder = how.form.columns
    if encoder is None:
        return ["x"]
    return [*(["numbers"] if encoder.numbers else []), *(["codes"] if encoder.words else [])]


def _read(how: Preprocessing, wrap: dict[str, str]) -> str:
    """From the file to inputs; what cannot be read ends in one line."""
    if how.form.columns is None:
        return USAGE + _tried(how, _array(how))
    names, made = _names(how), {"numbers": NUMBERS_OF, "codes": CODES_OF}
    lines = "rows = table(sys.argv[1])\n"
    lines += "".join(f"{name} = {wrap[name].format(made[name])}\n" for name in names)
    helpers = {"numbers": NUMBER.replace("LARGEST", repr(MAX_NUMBER)), "codes": CODES}
    text = USAGE + TABLE + "".join(helpers[name] for name in names) + _tried(how, lines)
    text = text.replace("POINT", POINT).replace("COMMA", COMMA)
    return text.replace("MISSING", MISSING_WORD).replace("OTHER", OTHER_WORD)


def _tried(how: Preprocessing, lines: str) -> str:
    return READ.replace("LINES", indent(lines, "    ").rstrip()).replace("FILE", _file(how))


def _whole(what: str, how: Preprocessing, body: str) -> str:
    return f'"""The model by {what}, in this folder: give it {_file(how)}."""\n\n{body}'


def _file(how: Preprocessing) -> str:
    if how.form.columns is not None:
        return "a CSV file with the columns of training, in any order"
    whole = "whole numbers" if how.form.scaling.whole else "numbers"
    kind = "bytes from 0 to 255" if how.form.pixels else whole
    return f"an npz file with an array x [n, {', '.join(map(str, how.form.shape))}] of {kind}"
