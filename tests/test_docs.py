"""What the documents say is so: links, experiment files, commands, code blocks, the worked example and the reference."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch
import typer
from federations import LOOP, STACKED, all_state, ask_clients, distance, run_rounds, simulate, spec_name
from runs import call
from torch import Tensor

from counterpoise.cli import app
from counterpoise.cli.reference import reference
from counterpoise.core.messages import Replies
from counterpoise.core.method import METHODS, PARTS, MethodSpec, build_named
from counterpoise.core.part import Batch, Exchange, Outputs, Stats
from counterpoise.data.augment import AUGMENTATIONS
from counterpoise.data.dataset import DATASETS
from counterpoise.data.partition import PARTITIONS
from counterpoise.errors import ConfigError
from counterpoise.flower.data_form import DESCRIBED
from counterpoise.models.model import MODELS
from counterpoise.run.config.experiment import parse_experiment
from counterpoise.system.toml import read_toml

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs/examples/fedexp.py"
PENALTY = ROOT / "docs/examples/short_logits.py"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Files that list methods are sweeps, which the tests of sweeps check.
EXPERIMENTS = [
    path for path in sorted((ROOT / "experiments").rglob("*.toml")) if "methods" not in read_toml(path)
]
# Commands that a page shows before they are built: whoever builds one takes it out, and the page's commands run with it.
TO_COME: tuple[str, ...] = ()
# What the commands of a page are run with here, so that they take seconds.
QUICK = {"run": ["rounds=2"], "advise": ["--minutes", "0.1"]}
DISAGREE = (3, 4, 5)  # clients with different classes
FENCE = re.compile(r"^```(?P<mark>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")


def _blocks(page: Path, mark: str) -> list[str]:
    """The bodies of a page's fenced blocks with this mark."""
    return [fence["body"] for fence in FENCE.finditer(page.read_text()) if fence["mark"] == mark]


def _anchors(page: Path) -> set[str]:
    prose = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _page_name(page: object) -> str:
    return page.name if isinstance(page, Path) else ""


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", page.read_text())):
        if not link["path"].startswith("http"):
            target = (page.parent / link["path"]).resolve() if link["path"] else page
            assert target.exists(), link[0]
            assert link["anchor"] is None or link["anchor"] in _anchors(target), link[0]


def _check_experiment(text: str, source: str) -> None:
    """Every key is legal, and every name and argument is one that there is."""
    experiment = parse_experiment(text, source)
    experiment.build_method()
    tables = (DATASETS, experiment.data), (PARTITIONS, experiment.partition), (MODELS, experiment.model)
    for registry, table in tables:
        if table.name == DESCRIBED.name:  # a server without data
            DESCRIBED.build(table.arguments)
        else:
            registry.build(table.name, table.arguments)
    for augmentation in experiment.data.augment:
        build_named(AUGMENTATIONS, augmentation)


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_every_experiment_on_a_page_is_legal(page: Path) -> None:
    for number, block in enumerate(_blocks(page, "toml"), 1):
        _check_experiment(block, f"{page.name}, block {number}")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=_page_name)
def test_every_experiment_file_is_legal_and_names_its_command(path: Path) -> None:
    text = path.read_text()
    _check_experiment(text, path.name)
    header = [line for line in text.splitlines() if line.startswith("#")]
    assert any(line.endswith(f"counterpoise run {path.relative_to(ROOT).as_posix()}") for line in header)


def test_the_check_of_experiments_notices_a_wrong_name() -> None:
    with pytest.raises(ConfigError, match="fedavgg"):
        _check_experiment('method = "fedavgg"', "test")


def _commands(page: Path, marks: Sequence[str] = ("sh", "sh run")) -> Iterator[list[str]]:
    """The commands of a page's shell blocks as words, without those that are still to come."""
    for block in [block for mark in marks for block in _blocks(page, mark)]:
        for line in block.splitlines():
            words = re.sub(r"^(?:[A-Z_]+=\S+ )+|\s#.*$", "", line).split()
            if words and words[1:2] not in [[name] for name in TO_COME]:
                yield words


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_every_command_on_a_page_is_there(page: Path) -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for program, word, *rest in [words for words in _commands(page) if len(words) > 1]:
        if program == "make":
            assert word in targets
        elif program == "counterpoise" and not word.startswith("--"):
            assert word in known, word
            command = known[word]
            if hasattr(command, "commands"):
                command = command.commands[rest[0]]
            options = {option for parameter in command.params for option in parameter.opts}
            assert all(option in {*options, "--help"} for option in rest if option.startswith("--")), rest


@pytest.mark.parametrize("page", [p for p in PAGES if _blocks(p, "sh run")], ids=_page_name)
def test_every_shell_block_marked_to_run_runs_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for program, *words in _commands(page, ("sh run",)):
        assert program == "counterpoise"
        done = call(*words, *QUICK.get(words[0], []))
        assert done.code == 0, (words, done.err)
        shown = [line for block in _blocks(page, "") for line in block.splitlines()]
        if words[0] == "init":  # the page shows all that it prints below the table of classes
            assert set(done.out[done.out.index("assumed:") :].splitlines()) <= set(shown)
    made = {"runs/patients/summary.json"} | ({"predictions.csv"} if "predict" not in TO_COME else set())
    assert all((tmp_path / name).exists() for name in made)


def test_what_is_to_come_is_not_there_yet() -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert not [name for name in TO_COME if name in known], "take it out of TO_COME, so that its page runs it"


@pytest.mark.parametrize("page", [p for p in PAGES if _blocks(p, "python run")], ids=_page_name)
def test_every_python_block_marked_to_run_runs(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(_blocks(page, "python run")))
    environment = os.environ | {"PYTHONPATH": f"{EXAMPLE.parent}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs/reference.md").read_text() == reference(), "run `make docs`"


@pytest.mark.parametrize("word", ["<class", "typing.", "Annotated", "FieldInfo", "inspect._empty"])
def test_the_reference_speaks_in_words(word: str) -> None:
    assert word not in reference()


@pytest.mark.parametrize("path", [EXAMPLE, PENALTY], ids=_page_name)
def test_the_example_on_the_page_is_the_file(path: Path) -> None:
    assert path.read_text() in _blocks(ROOT / "docs/adding-a-method.md", "python")


@pytest.fixture
def fedexp(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The worked example, registered for one test."""
    return _registered(EXAMPLE, monkeypatch)


def _registered(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for registry in (METHODS, PARTS):
        registry.names()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_penalty_on_the_page_adds_to_any_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    part = _registered(PENALTY, monkeypatch).short_logits(0.5)
    logits = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    batch = Batch(logits, torch.tensor([0, 1]), torch.ones(2))
    assert part.penalty(Outputs(logits, logits), batch, {}).tolist() == [0.25 * 25, 0.25]
    trained = [
        run_rounds(simulate(["fedavg", "focal", "short_logits"], engine=e)).params for e in (LOOP, STACKED)
    ]
    assert distance(*trained) < 1e-8
    off = run_rounds(simulate(["fedavg", "focal", {"short_logits": {"strength": 0.0}}]))
    assert (
        distance(off.params, run_rounds(simulate(["fedavg", "focal"])).params)
        < 1e-12
        < distance(off.params, trained[0])
    )


def _server_step(fedexp: ModuleType, rows: Sequence[Sequence[float]], eps: float) -> Tensor:
    """The update that equal clients with these deltas lead to."""
    part, deltas, count = fedexp.extrapolation(eps), torch.tensor(rows), len(rows)
    stats = Stats(torch.ones(1), torch.ones(()), torch.ones(()), torch.zeros(()), {}, torch.ones(1))
    sent = torch.stack([part.finish({"w": delta}, {}, {}, stats)[0]["square"] for delta in deltas])
    upload = {"extrapolation": {"square": sent}}
    replies = Replies(torch.arange(count), torch.ones(count), {"w": deltas}, {}, upload, torch.zeros(count))
    weights = torch.full((count,), 1 / count, dtype=torch.float64)
    exchange = Exchange({"w": torch.zeros(2)}, replies, weights, count).seen_by("extrapolation")
    step: Tensor = part.update({"w": deltas.mean(0)}, {}, exchange)[0]["w"]
    return step


def test_fedexp_lengthens_the_step_where_clients_disagree(fedexp: ModuleType) -> None:
    # mean (1, 0); mean square (9 + 1) / 2 = 5; rate 5 / (2 (1 + 0.25)) = 2
    assert _server_step(fedexp, [[3.0, 0.0], [-1.0, 0.0]], eps=0.25).tolist() == [2.0, 0.0]


def test_fedexp_is_fedavg_where_clients_agree(fedexp: ModuleType) -> None:
    # rate 25 / (2 * 26) is below 1
    assert _server_step(fedexp, [[3.0, 4.0], [3.0, 4.0]], eps=1.0).tolist() == [3.0, 4.0]


def test_fedexp_in_a_run_equals_its_formula(fedexp: ModuleType) -> None:
    sim, plain = simulate({"fedexp": {"eps": 1e-6}}), simulate("fedavg")
    start = sim.open()
    after, _ = ask_clients(sim, start, DISAGREE)
    alone = [ask_clients(plain, plain.open(), [client])[0].params for client in DISAGREE]
    deltas = torch.stack([torch.cat([(p[n] - start.params[n]).flatten() for n in sorted(p)]) for p in alone])
    mean = deltas.mean(0)
    rate = float(deltas.square().sum()) / (2 * len(DISAGREE) * (float(mean.square().sum()) + 1e-6))
    taken = torch.cat([(after.params[n] - start.params[n]).flatten() for n in sorted(after.params)])
    assert rate > 1.01
    assert float((taken - rate * mean).abs().max()) < 1e-12


@pytest.mark.parametrize("spec", ["fedexp", [{"fedexp": {"eps": 1e-6}}, "focal", "sam"]], ids=spec_name)
def test_fedexp_gives_the_same_run_in_both_engines(fedexp: ModuleType, spec: MethodSpec) -> None:
    loop, stacked = simulate(spec, engine=LOOP), simulate(spec, engine=STACKED)
    expected, found = all_state(loop, run_rounds(loop)), all_state(stacked, run_rounds(stacked))
    assert distance(expected, found) < 1e-8
