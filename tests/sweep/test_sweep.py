"""The sweep file: what it may hold, what it is resolved to, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from runs import assert_refused, call, write_tiny
from sweeps import tiny_sweep, tiny_tables, write_tiny_sweep

from counterpoise.errors import ConfigError
from counterpoise.sweep.jobs import expand
from counterpoise.sweep.sweep import Sweep, load_sweep, make_sweep, open_sweep, write_sweep
from counterpoise.sweep.tune import searches_of
from counterpoise.system.toml import read_toml

FULL = """
methods = [
  "fedavg",
  { fedprox = { mu = 0.1 } },
  ["fedavgm", { focal = { gamma = 1.0 } }],
  { name = "slow", method = "fedavg", local.lr = 0.01, grid = { "local.lr" = [0.01, 0.02] } },
]
seeds = [3, 5]

[base]
rounds = 2
data.validation = 0.2

[vary]
"data.imbalance" = [10.0, { step = { factor = 10.0 } }]
partition.alpha = [0.1, 0.6]

[tune]
budget = 3
seeds = 2

[tune.grid]
local.lr = [0.1, 0.01]
"method.fedprox.mu" = [0.1, 1.0]

[table]
baseline = "slow"
score = "tail"
"""


def read_text(text: str, folder: Path) -> Sweep:
    """The sweep of a file with this text."""
    path = folder / "sweep.toml"
    path.write_text(text)
    return load_sweep(path)


def test_a_sweep_is_read_with_labels_seeds_and_dotted_keys(tmp_path: Path) -> None:
    sweep = read_text(FULL, tmp_path)
    assert [entry.name for entry in sweep.methods] == [
        "fedavg", "fedprox(mu=0.1)", "fedavgm+focal(gamma=1)", "slow",
    ]  # fmt: skip
    assert sweep.methods[3].local == {"lr": 0.01}
    assert sweep.seeds == [3, 5]
    assert list(sweep.vary) == ["data.imbalance", "partition.alpha"]
    assert sweep.tune is not None
    assert sweep.tune.seeds == [0, 1]
    assert sweep.tune.grid == {"local.lr": [0.1, 0.01], "method.fedprox.mu": [0.1, 1.0]}
    assert sweep.table.baseline == "slow"


@pytest.mark.parametrize(
    "text",
    [FULL, 'methods = ["fedavg"]', 'methods = ["fedavg"]\nproblems = [{ name = "x", data.imbalance = 5.0 }]'],
)
def test_what_a_sweep_is_resolved_to_reads_as_the_same_sweep(text: str, tmp_path: Path) -> None:
    sweep = read_text(text, tmp_path)
    assert read_text(write_sweep(sweep), tmp_path) == sweep


def test_values_change_on_the_command_line(tmp_path: Path) -> None:
    sweep = open_sweep(write_tiny_sweep(tmp_path), ["seeds=4", "base.rounds=9", 'methods=["scaffold"]'])
    assert (sweep.seeds, sweep.base["rounds"]) == ([0, 1, 2, 3], 9)
    assert [entry.name for entry in sweep.methods] == ["scaffold"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"methods": []}, "methods"),
    ({"methods": "fedavg"}, "methods must be "),
    ({"methods": ["fedavgg"]}, "did you mean 'fedavg'?"),
    ({"methods": [{"fedprox": {"muu": 1.0}}]}, "no argument 'muu'"),
    ({"methods": ["fedavg", "fedavg"]}, "two methods are called 'fedavg'"),
    ({"methods": [{"method": "fedavg", "lr": 1.0}]}, "no key methods.0.lr; one of grid"),
    ({"methods": [{"method": "fedavg", "local": {"lrr": 1.0}}]}, "no key local.lrr; did you mean 'lr'?"),
    ({"methods": [{"method": "fedavg", "local": {"lr": -1.0}}]}, "local.lr must be a number in [0, inf), not -1.0"),
    ({"seeds": 0}, "seeds must be a number from 1 to 100000, or a list of seeds, not 0"),
    ({"seeds": []}, "seeds"),
    ({"seeds": [1, 1]}, "a seed is listed twice"),
    ({"seeds": [-1]}, "seeds.0 must be a whole number in [0, 2^63), not -1"),
    ({"seeds": "many"}, "seeds must be a number from 1 to 100000, or a list of seeds, not 'many'"),
    ({"seed": 3}, "no key seed; did you mean 'seeds'?"),
    ({"base": {"method": "fedavg"}}, "base.method must be given as methods"),
    ({"base": {"locl": {}}}, "base: no key locl; did you mean 'local'?"),
    ({"base": {"rounds": 0}}, "base: rounds must be a whole number in [1, inf), not 0"),
    ({"base": {"data": {"name": "digitz"}}}, "did you mean 'digits'?"),
    ({"base": {"model": {"name": "mlp", "hiden": [3]}}}, "no argument 'hiden'"),
    ({"vary": {"local.lr": 0.1}}, "local.lr must be a list of values, each once, not 0.1"),
    ({"vary": {"local.lr": []}}, "a list of values"),
    ({"vary": {"partition.alpha": [0.1, 0.3, 0.1]}}, "partition.alpha must be a list of values, each once"),
    ({"vary": {"local.lrr": [0.1]}}, "no key local.lrr"),
    ({"vary": {"seed": [1]}}, "seed must not vary"),
    ({"vary": {"method.fedavg.x": [1]}}, "method.fedavg.x must not vary"),
    ({"vary": {"rounds": [1]}, "problems": [{"rounds": 2}]}, "vary and problems must not both be given"),
    ({"problems": [{"dat": {}}]}, "no key dat; did you mean 'data'?"),
    ({"problems": [3]}, "problems.0 must be a table, not 3"),
    ({"table": {"baseline": "fedavgm"}}, "no method of the sweep; did you mean 'fedavg'?"),
    ({"table": {"score": "tial"}}, "did you mean 'tail'?"),
    ({"table": {"at": "first"}}, "table.at must be 'last' or 'best' or 'mean_last_10', not 'first'"),
    ({"tune": {"budget": 0}}, "tune.budget must be a whole number in [1, 10000], not 0"),
    ({"tune": {"grid": {"data.imbalance": [1.0]}}}, "tune.grid: data.imbalance must be local.KEY"),
    ({"tune": {"grid": {"method.fedprox.mu": [1.0]}}}, "method.fedprox.mu: no method of this name to tune"),
    ({"tune": {"grid": {"local.lr": [0.1, 0.2]}}}, "tune needs a validation split"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "words"), WRONG, ids=[words[:40] for _, words in WRONG])
def test_what_is_wrong_is_told_in_one_line_before_anything_is_written(
    keys: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = write_tiny_sweep(tmp_path, **keys)
    refused = call("compare", path, "--out", tmp_path / "out")
    assert_refused(refused, 2, words)
    assert not (tmp_path / "out").exists()


def test_methods_are_required() -> None:
    tables = tiny_tables()
    del tables["methods"]
    with pytest.raises(ConfigError, match="sweep: methods is missing"):
        make_sweep(tables)


def test_seeds_may_be_a_number_or_a_list() -> None:
    assert tiny_sweep(seeds=3).seeds == tiny_sweep(seeds=[0, 1, 2]).seeds == [0, 1, 2]


ROOT = Path(__file__).parents[2]
FILES = [path for path in sorted((ROOT / "experiments").rglob("*.toml")) if "methods" in read_toml(path)]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```toml sweep\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_every_sweep_file_is_legal_and_names_its_command(path: Path) -> None:
    sweep = load_sweep(path)
    assert expand(sweep)
    searches_of(sweep)
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert any(f"counterpoise compare {path.relative_to(ROOT).as_posix()}" in line for line in header)


def test_every_sweep_on_a_page_is_legal(tmp_path: Path) -> None:
    blocks = [block for page in PAGES for block in BLOCK.findall(page.read_text())]
    assert len(blocks) >= 3
    for block in blocks:
        sweep = read_text(block, tmp_path)
        assert expand(sweep)
        searches_of(sweep)


def test_the_file_of_one_experiment_is_told_apart(tmp_path: Path) -> None:
    assert_refused(
        call("compare", write_tiny(tmp_path)),
        2,
        "tiny.toml is one experiment, for `counterpoise run`",
    )
