"""Probes over Flower: on the server's own samples, and refused before clients come where it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from local_net import Net, numbered
from own_files import KINDS, ROWS, client_files, server_config
from runs import tiny

from counterpoise.errors import ConfigError
from counterpoise.flower.commands import prepare
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder, read_rows

PROBED = {"probes": ["concentration"]}
DESCRIBED = {"name": "described", "classes": ["a", "b"], "shape": [4]}


def test_a_run_over_flower_is_probed_as_in_this_process(tmp_path: Path) -> None:
    config = tiny('evaluate.probes=["concentration"]', "rounds=2", "engine={name='loop', device='cpu'}")
    numbered(tmp_path, 4).run(config, tmp_path / "flower")
    start(config, tmp_path / "here")
    there, here = (
        [row["probes"] for row in read_rows(RunFolder(tmp_path / name).metrics)]
        for name in ("flower", "here")
    )
    assert there == here


def test_clients_with_own_data_are_probed_on_the_servers_test_set(tmp_path: Path) -> None:
    kind = KINDS["arrays"]
    config = server_config(tmp_path, kind, list(ROWS), evaluate={"clients": True, **PROBED})
    summary = Net(tmp_path, client_files(tmp_path, kind)).run(config, tmp_path / "out")
    assert 0 < summary["probes"]["concentration"]["mean"] < 1


def test_a_server_without_samples_is_told_so_before_clients_come(tmp_path: Path) -> None:
    config = make_experiment(
        {"data": DESCRIBED, "flower": {"clients": ["a"]}, "evaluate": {"clients": True, **PROBED}}
    )
    with pytest.raises(ConfigError, match="concentration needs samples of the server's own, and it has none"):
        prepare(config, tmp_path / "out", named_nodes=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", [{"concentration": {"layers": "bodi.3"}}, "consentration"])
def test_a_probe_that_does_not_fit_is_refused_before_clients_come(given: Any, tmp_path: Path) -> None:
    config = make_experiment({**tiny().tables(), "evaluate": {"probes": [given]}})
    with pytest.raises(ConfigError, match="did you mean"):
        prepare(config, tmp_path / "out", named_nodes=False)
    assert not (tmp_path / "out").exists()
