"""Files that run a command when they are unpickled: in every place where a file is read, none of them does."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import os
import pickle
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import Finished, call, tiny, write_tiny

from counterpoise.core.codec import decode
from counterpoise.errors import DataError
from counterpoise.run.runner import start

Act = Callable[[Path, bytes], Finished]  # a folder and a payload -> what a command made of it


class Fuse:
    """Unpickled, it makes a folder."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


# Payloads


def pickled(protocol: int) -> Callable[[Path], bytes]:
    return lambda canary: pickle.dumps(Fuse(canary), protocol)


def zipped(canary: Path) -> bytes:
    """What torch.save writes today."""
    stream = io.BytesIO()
    torch.save({"state": Fuse(canary)}, stream)
    return stream.getvalue()


def legacy(canary: Path) -> bytes:
    """What torch.save wrote before."""
    stream = io.BytesIO()
    torch.save({"state": Fuse(canary)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def object_array(canary: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Fuse(canary)] * 20, dtype=object), allow_pickle=True)
    return stream.getvalue()


def archive(*names: str) -> Callable[[Path], bytes]:
    """An npz file in which these arrays hold objects, and the others are well."""

    def make(canary: Path) -> bytes:
        arrays: dict[str, Any] = {"x": np.zeros((20, 3), np.float32), "y": np.arange(20) % 2}
        arrays |= {name: np.array([Fuse(canary)] * 20, dtype=object) for name in names}
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        return stream.getvalue()

    return make


def pickle_in_archive(canary: Path) -> bytes:
    """An npz file with a pickle in place of an array, which NumPy reads as one."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as members:
        for name in ("x.npy", "y.npy", "data.pkl"):
            members.writestr(name, pickle.dumps(Fuse(canary)))
    return stream.getvalue()


PAYLOADS: dict[str, Callable[[Path], bytes]] = {
    **{f"pickle {protocol}": pickled(protocol) for protocol in range(6)},
    "torch": zipped,
    "torch of old": legacy,
    "npy": object_array,
    "npz x": archive("x"),
    "npz y": archive("y"),
    "npz classes": archive("classes"),
    "npz client": archive("client"),
    "pickle in npz": pickle_in_archive,
    "gzip": lambda canary: gzip.compress(pickle.dumps(Fuse(canary))),
    "zlib": lambda canary: zlib.compress(pickle.dumps(Fuse(canary))),
    "bz2": lambda canary: bz2.compress(pickle.dumps(Fuse(canary))),
}


@pytest.mark.parametrize(
    "name", [name for name in PAYLOADS if name.startswith("pickle ") and "npz" not in name]
)
def test_the_payload_is_live(name: str, tmp_path: Path) -> None:
    pickle.loads(PAYLOADS[name](tmp_path / "canary"))
    assert (tmp_path / "canary").is_dir()


def test_archives_are_live(tmp_path: Path) -> None:
    np.load(io.BytesIO(archive("x")(tmp_path / "canary")), allow_pickle=True)["x"]
    assert (tmp_path / "canary").is_dir()
    torch.load(io.BytesIO(zipped(tmp_path / "another")), weights_only=False)
    assert (tmp_path / "another").is_dir()


# Places where files are read


def inspected(suffix: str) -> Act:
    def act(folder: Path, payload: bytes) -> Finished:
        (folder / f"p{suffix}").write_bytes(payload)
        return call("data", "inspect", folder / f"p{suffix}", "--label", "y", "--picture", folder / "p.png")

    return act


def trained_on(data: str) -> Act:
    def act(folder: Path, payload: bytes) -> Finished:
        (folder / "p.file").write_bytes(payload)
        label = ", label='y'" if data == "table" else ""
        given = f"data={{name='{data}', path='{folder / 'p.file'}'{label}}}"
        return call("validate", write_tiny(folder), given, "partition={}", "cohort={}")

    return act


def as_config(command: str) -> Act:
    def act(folder: Path, payload: bytes) -> Finished:
        (folder / "p.toml").write_bytes(payload)
        return call(command, folder / "p.toml")

    return act


def official(folder: Path, payload: bytes) -> Finished:
    """CIFAR-10 as its authors hand it out for Python."""
    batches = folder / "root" / "cifar10" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"):
        (batches / name).write_bytes(payload)
    return call("validate", write_tiny(folder), f"data={{name='cifar10', root='{folder / 'root'}'}}")


def as_checkpoint(folder: Path, payload: bytes) -> Finished:
    """In place of the newest state of a run, sealed as if it were its own."""
    start(tiny("rounds=1"), folder / "run")
    for name in ("summary.json", "model.safetensors"):
        (folder / "run" / name).write_bytes(payload)
    (path,) = (folder / "run" / "checkpoints").glob("round-*.json")
    body = json.loads(path.read_text())["body"]
    body["server"] = hashlib.sha256(payload).hexdigest()
    (folder / "run" / "checkpoints" / "blobs" / body["server"]).write_bytes(payload)
    seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({"body": body, "sha256": seal}))
    return call("resume", folder / "run")


def as_update(folder: Path, payload: bytes) -> Finished:
    """In place of what a client sends; states on disk take the same way."""
    try:
        decode(payload, "update")
    except DataError as error:
        return Finished(3, "", f"error: {error}\n")
    return Finished(0, "", "")


BYTES = [
    "pickle 0",
    "pickle 2",
    "pickle 4",
    "pickle 5",
    "torch",
    "torch of old",
    "npy",
    "pickle in npz",
    "gzip",
    "zlib",
    "bz2",
]
PLACES: dict[str, tuple[Act, list[str]]] = {
    "data inspect x.npz": (inspected(".npz"), [name for name in PAYLOADS if not name.endswith(("1", "3"))]),
    "data inspect x.csv": (inspected(".csv"), ["pickle 0", "pickle 5", "torch", "npy"]),
    "data inspect x.parquet": (inspected(".parquet"), ["pickle 0", "torch"]),
    "data inspect x.safetensors": (inspected(".safetensors"), ["pickle 0", "pickle 4", "torch", "torch of old"]),
    **{f"data inspect x{suffix}": (inspected(suffix), ["pickle 4"]) for suffix in (".pkl", ".pickle", ".pt", ".pth", ".npy", ".joblib", ".dill", ".yaml")},
    "data.name = arrays": (trained_on("arrays"), ["pickle 0", "npy", "npz x", "npz classes", "pickle in npz"]),
    "data.name = table": (trained_on("table"), ["pickle 0", "torch"]),
    "data.name = pack": (trained_on("pack"), ["pickle 2", "torch", "torch of old"]),
    "cifar10": (official, ["pickle 2", "pickle 0"]),
    "experiment": (as_config("validate"), ["pickle 0", "pickle 4"]),
    "sweep": (as_config("compare"), ["pickle 0"]),
    "checkpoint": (as_checkpoint, ["pickle 0", "pickle 4", "torch", "torch of old", "npy", "gzip"]),
    "update": (as_update, BYTES),
}  # fmt: skip


def cases() -> Iterator[Any]:
    for place, (act, names) in PLACES.items():
        yield from (pytest.param(act, name, id=f"{place}: {name}") for name in names)


CASES = [*cases()]


@pytest.mark.parametrize(("act", "name"), CASES)
def test_no_file_runs_what_it_holds(act: Act, name: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    finished = act(tmp_path, PAYLOADS[name](canary))
    assert not canary.exists()
    if act is not as_checkpoint:  # which goes on from an older state, or starts again
        assert finished.code in (2, 3)
        assert finished.err.count("\n") == 1
    assert "should not happen" not in finished.err


# Words that name code

WORDS = [
    "method=os.system", "method={'os.system'={command='mkdir canary'}}", "model.name=torch.hub.load", "model.name='__main__:main'",
    "model={_target_='os.system', command='mkdir canary'}", "data.name=subprocess.Popen", "data={name='pickle', path='x'}",
    "local.schedule='lambda: __import__(\"os\").mkdir(\"canary\")'", "partition.name='$(mkdir canary)'", "partition.name='`mkdir canary`'",
    "method='; mkdir canary'", "method='| mkdir canary'", "method='{0.__class__.__mro__}'", "method='!!python/object/apply:os.mkdir [canary]'",
    "engine.device='$(mkdir canary)'", "track={to='mlflow; mkdir canary'}",
]  # fmt: skip
TEXTS = [
    "!!python/object/apply:os.mkdir ['canary']\n", "method: !!python/object/apply:os.mkdir ['canary']\n", "!!python/name:os.mkdir\n",
    "- !!python/object/new:os.mkdir ['canary']\n", '{"method": {"__reduce__": ["os.mkdir", ["canary"]]}}', "import os; os.mkdir('canary')\n",
    "method = __import__('os').mkdir('canary')\n", "#!/bin/sh\nmkdir canary\n",
]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_no_word_runs_what_it_names(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finished = call("run", write_tiny(tmp_path), word)
    assert finished.code in (2, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_runs_what_it_says(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(text)
    for command in ("run", "compare"):
        assert call(command, tmp_path / "x.toml").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 60
    assert len(CASES) + len(WORDS) + len(TEXTS) >= 84
