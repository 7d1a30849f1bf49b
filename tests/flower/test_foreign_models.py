"""A server cannot choose what its clients import: models that name code are refused on both sides."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from local_net import numbered
from runs import tiny

from counterpoise.errors import ConfigError
from counterpoise.flower.commands import prepare
from counterpoise.flower.job import job_settings
from counterpoise.flower.refusal import Refused

NAMED = 'model={name="named_by_the_server:net"}'


def test_a_client_does_not_import_what_a_server_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_the_server.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = job_settings(tiny(NAMED), "run", 4, "0" * 64, "")
    assert "named_by_the_server" in str(settings["experiment"])
    with pytest.raises(Refused, match="model"):
        numbered(tmp_path, 4).context("0", settings)()
    assert "named_by_the_server" not in sys.modules


def test_a_server_says_so_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names code, which clients do not run for a server") as refused:
        prepare(tiny(NAMED), tmp_path / "run", named_nodes=False)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()
