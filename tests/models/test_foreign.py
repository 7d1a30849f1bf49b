"""Models of other packages by name: built with the run's seed, told in one line where they cannot be, never for a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from federations import unequal_federation
from runs import call, tiny
from torch import nn

import counterpoise as cp
from counterpoise.errors import ConfigError
from counterpoise.models.foreign import TRUSTED, build_foreign
from counterpoise.run.assemble import assemble
from counterpoise.run.runner import start
from counterpoise.sweep.jobs import check_names
from counterpoise.system.toml import write_toml

CODE = '''
import torch
from torch import nn

class Net(nn.Module):
    """A parameter of its own, for which we have no rule."""
    def __init__(self, inputs, classes, wide=4):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(inputs))
        self.first, self.fc = nn.Linear(inputs, wide), nn.Linear(wide, classes)
    def forward(self, x):
        return self.fc(torch.tanh(self.first(x.flatten(1) * self.scale)))

def number():
    return 3
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of the user's own, on Python's path."""
    (tmp_path / "foreign_nets.py").write_text(CODE)
    (tmp_path / "foreign_broken.py").write_text("raise ValueError('first line\\nsecond line')")
    (tmp_path / "foreign_unfit.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "foreign_nets"
    sys.modules.pop("foreign_nets", None)


NET = ('model={name="foreign_nets:Net",inputs=64,classes=10}',)


def drawn(seed: int) -> dict[str, torch.Tensor]:
    return build_foreign("foreign_nets:Net", {"inputs": 5, "classes": 4}, (5,), 4, seed).state_dict()


def test_parameters_are_drawn_by_the_seed_and_the_global_stream_stays(package: str) -> None:
    before = torch.get_rng_state()
    first, again, other = drawn(1), drawn(1), drawn(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_a_run_repeats_and_its_seed_matters(package: str, tmp_path: Path) -> None:
    config = tiny(*NET, "rounds=1")
    first, again = (start(config, tmp_path / name)["params_sha256"] for name in ("a", "b"))
    other = start(tiny(*NET, "rounds=1", "seed=9"), tmp_path / "c")["params_sha256"]
    assert first == again != other


def test_a_finished_run_runs_code_only_of_a_package_that_is_trusted(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tiny(*NET, "rounds=1", 'method=["fedavg", "ldam"]'), tmp_path / "run")
    sys.modules.pop(package)
    with pytest.raises(ConfigError, match=f"if you trust it, set {TRUSTED}=foreign_nets"):
        _ = cp.load_run(tmp_path / "run").module
    assert package not in sys.modules
    monkeypatch.setenv(TRUSTED, "other,foreign_nets")
    module = cp.load_run(tmp_path / "run").module
    assert list(module.model.state_dict()) == ["scale", "first.weight", "first.bias", "fc.weight"]
    assert module(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("nowhere_to_be_found:Net", {}, "needs the module 'nowhere_to_be_found', which is not installed"),
        ("timm_missing.models:net", {}, "needs the module 'timm_missing', which is not installed"),
        ("foreign_nets:net", {}, "foreign_nets has no function 'net'; "),
        ("foreign_nets:Net", {"wide": 3}, "cannot be built: TypeError: "),
        ("foreign_nets:Net", {"inputs": 5, "classes": 4, "depth": 2}, "unexpected keyword argument 'depth'"),
        ("foreign_nets:number", {}, "must give an nn.Module, not int"),
        ("foreign_broken:Net", {}, "foreign_broken cannot be imported: ValueError: first line"),
        ("foreign_unfit:Net", {}, "nms does not exist; torch and torchvision must be of one build"),
        (":Net", {}, "model.name must be a model of `counterpoise ls models`, 'timm:NAME'"),
        ("a b:Net", {}, "model.name must be"),
    ],
)
def test_what_cannot_be_built_is_told_in_one_line(
    package: str, name: str, arguments: dict[str, int], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        build_foreign(name, arguments, (5,), 4, 0)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_timm_and_torchvision_get_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def make(name: str, **given: int) -> nn.Module:
        asked.append((name, given))
        return nn.Linear(5, 4)

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=make))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torchvision.models", SimpleNamespace(get_model=make))  # type: ignore[arg-type]
    build_foreign("timm:resnet10t", {"drop_rate": 0.1}, (1, 8, 8), 4, 0)
    build_foreign("torchvision:resnet18", {}, (3, 8, 8), 4, 0)
    cp.simulate(unequal_federation(), model="torchvision:mlp", rounds=1)
    assert asked == [
        ("resnet10t", {"num_classes": 4, "in_chans": 1, "drop_rate": 0.1}),
        ("resnet18", {"num_classes": 4}),
        ("mlp", {"num_classes": 4}),
    ]


def test_a_sweep_is_checked_without_an_import(package: str) -> None:
    check_names(tiny(*NET))
    assert package not in sys.modules
    with pytest.raises(ConfigError, match=r"model\.name must be"):
        check_names(tiny('model.name="a:"'))


def test_a_foreign_model_takes_a_head(package: str) -> None:
    with closing(assemble(tiny(*NET, 'model.head="cosine"'))) as simulation:
        assert simulation.work.model.params()["head.weight"].shape == (10, 4)


def test_a_run_is_not_resumed_with_another_code_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on with the new network, half of the one and half of the other."""
    code = "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    (tmp_path / "my_own_net.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    tables = {"rounds": 1, "partition": {"name": "iid", "clients": 2}, "model": {"name": "my_own_net:net"}}
    (tmp_path / "run.toml").write_text(write_toml(tables))
    assert call("run", tmp_path / "run.toml", "--out", tmp_path / "run").code == 0
    (tmp_path / "my_own_net.py").write_text(code + "# changed\n")
    refused = call("resume", tmp_path / "run", "rounds=2")
    assert refused.code == 2
    assert "cannot be resumed to the same result: my_own_net" in refused.err
