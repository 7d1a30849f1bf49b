"""No line of the package runs what it reads, draws from a global stream, or names this machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import counterpoise

PACKAGE = Path(counterpoise.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# Modules that unpickle, run what they read, or draw from a stream that everybody shares.
MODULES = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve", "yaml", "random", "imp"}
# Calls by their full name.
CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "torch.jit.load", "torch.hub.load",
    "torch.manual_seed", "torch.seed", "torch.random.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all",
    "torch.set_rng_state", "torch.default_generator.manual_seed", "torch.random.fork_rng", "torch.rand_like", "torch.randn_like", "torch.randint_like", "tempfile.mktemp",
    "multiprocessing.Pool", "multiprocessing.Queue", "multiprocessing.Manager",
}  # fmt: skip
# What one file may do: foreign layers draw from torch's global stream when they are made, which is put back after.
PERMITTED = {"models/foreign.py": {"torch.random.fork_rng", "torch.default_generator.manual_seed"}}
# What draws numbers, by its last name: legal with a generator of its own.
DRAWS = {
    "rand", "randn", "randint", "randperm", "multinomial", "normal", "bernoulli", "poisson", "uniform_", "normal_",
    "random_", "bernoulli_", "exponential_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_",
    "trunc_normal_", "orthogonal_", "sparse_",
}  # fmt: skip
# What draws numbers and takes no generator, or sends pickles from process to process.
NAMES = {
    "dropout",
    "alpha_dropout",
    "ProcessPoolExecutor",
    "extractall",
    "unpickle",
}
OWN_STREAMS = (
    "numpy.random.",
    "rng.",
)  # NumPy's draws have rules of their own; `rng` is a stream that was passed in
NUMPY_STREAMS = {"Generator", "Philox", "SeedSequence", "BitGenerator"}
MACHINE = re.compile(r"(^|[\s'\"=:(])(/(work|home|root|tmp|Users|mnt|opt)/|[A-Z]:\\)")


def full_name(node: ast.expr) -> str:
    """``a.b.c`` of a name or a chain of attributes; what stands before a call or an index is left out."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{full_name(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> full name, for what a module imports."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom):
            known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return known


def faults_in(text: str) -> list[str]:
    """What the rules refuse in a piece of code."""
    tree = ast.parse(text)
    known = aliases(tree)
    return [f"line {line}: {words}" for node in ast.walk(tree) for line, words in faults_of(node, known)]


def faults_of(node: ast.AST, known: dict[str, str]) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        yield from ((node.lineno, f"import {name}") for name in names if name.split(".")[0] in MODULES)
    elif isinstance(node, ast.Call):
        yield from ((node.lineno, words) for words in faults_of_call(node, known))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MACHINE.search(node.value):
        yield node.lineno, f"path of one machine: {node.value[:40]!r}"


def faults_of_call(node: ast.Call, known: dict[str, str]) -> Iterator[str]:
    first, dot, rest = full_name(node.func).partition(".")
    name = known.get(first, first) + dot + rest
    last, given = name.split(".")[-1], {keyword.arg: keyword.value for keyword in node.keywords}
    if name in CALLS or last in NAMES:
        yield name
    if last in DRAWS and not name.startswith(OWN_STREAMS) and "generator" not in given:
        yield f"{name} without a generator"
    if name.startswith("numpy.random.") and last not in NUMPY_STREAMS and not given and not node.args:
        yield f"{name} without a seed"
    if re.fullmatch(r"numpy\.random\.(?!default_rng)[a-z]\w*", name):
        yield f"{name} draws from the global stream"
    if any(name.endswith(way) for way in ("line.send", "line.recv", "connection.send", "connection.recv")):
        yield f"{name} pickles what it sends"
    for flag in ("allow_pickle", "shell"):
        if flag in given and not (isinstance(given[flag], ast.Constant) and given[flag].value is False):  # type: ignore[attr-defined]
            yield f"{name} with {flag}"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])
def test_the_package_has_no_unsafe_line(path: Path) -> None:
    permitted = PERMITTED.get(path.relative_to(PACKAGE).as_posix(), set())
    faults = faults_in(path.read_text())
    assert [fault for fault in faults if fault.partition(": ")[2] not in permitted] == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "import numpy, dill", "from joblib import load", "import yaml.loader", "import random",
        "import torch\ntorch.load('x')", "from torch import load\nload('x')", "import torch as t\nt.load('x')",
        "eval('1')", "exec('1')", "compile('1', '', 'eval')", "__import__('os')", "import os\nos.system('ls')",
        "from os import system\nsystem('ls')", "import subprocess\nsubprocess.run('ls', shell=True)",
        "import numpy as np\nnp.load('x', allow_pickle=True)", "import numpy as np\nnp.load('x', allow_pickle=flag)",
        "import torch\ntorch.default_generator.manual_seed(0)", "from torch.random import fork_rng\nfork_rng()",
        "import torch\ntorch.manual_seed(0)", "import torch\ntorch.cuda.manual_seed_all(0)",
        "import numpy as np\nnp.random.seed(0)", "import numpy as np\nnp.random.rand(3)", "import numpy as np\nnp.random.default_rng()",
        "from numpy.random import shuffle\nshuffle([1])", "import torch\ntorch.rand(3)", "import torch\ntorch.randperm(3)",
        "import torch\ntorch.rand_like(x)", "x.normal_()", "x.multinomial(3)", "from torch.nn import init\ninit.xavier_uniform_(x)",
        "import torch.nn.functional as F\nF.dropout(x)",
        "import multiprocessing\nmultiprocessing.Pool(2)", "line.send(x)", "worker.line.recv()",
        "path = '/home/me/data'", "text = 'see /{}/main/x'".format("work"), "path = 'C:\\\\data'", "f'{x} /root/{y}'",
        "archive.extractall('x')",
    ],
)  # fmt: skip
def test_the_gate_refuses(line: str) -> None:
    assert faults_in(line)


@pytest.mark.parametrize(
    "line",
    [
        "from torch import nn\nnn.Dropout(0.5)", "import torch\ntorch.rand(3, generator=stream)", "stream.manual_seed(3)", "import numpy as np\nnp.random.Generator(np.random.Philox(3))",
        "import numpy as np\nnp.random.default_rng(3)", "rng.permutation(3)", "line.send_bytes(x)", "line.recv_bytes()",
        "import numpy as np\nnp.load('x', allow_pickle=False)", "import torch\ntorch.compile(x)", "re.compile('x')",
        "x.normal_(generator=stream)", "path = '/proc/cpuinfo'", "text = 'and/or'", "url = 'https://x.org/home/y'",
        "import subprocess\nsubprocess.run(['ls'])", "safetensors.torch.load(x)", "model.load(x)", "call(part.send, x)",
    ],
)  # fmt: skip
def test_the_gate_lets_through(line: str) -> None:
    assert faults_in(line) == []


def test_the_whole_package_is_looked_at() -> None:
    assert len(FILES) > 80
    assert PACKAGE / "core" / "codec.py" in FILES
