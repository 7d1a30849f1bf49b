"""What `data inspect` says, on a table small enough to count by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoise.errors import ConfigError, DataError
from counterpoise.run.inspect import look_at, report_lines

ROWS = ["age,site,y"] + [f"{k},a,ok" for k in range(10)] + [f"{k},b,bad" for k in range(5)] + ["3,b,ok"] * 5


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(ROWS))
    return path


def test_classes_clients_and_their_disagreement_are_told(table: Path) -> None:
    federation = look_at(str(table), "y", "site", False, None)
    text = "\n".join(report_lines(federation))
    assert federation.client_names == ("a", "b")
    assert "2 classes, 2 clients" in text
    assert "3 to 1" in text  # 15 ok, 5 bad; a fifth of each is for the test
    bad = next(line for line in text.splitlines() if line.startswith("bad"))
    assert bad.endswith("1 of 2")
    first = next(line for line in text.splitlines() if line.startswith("a "))
    assert first.split()[3] == "1"  # site a has never seen a bad one


def test_without_a_client_column_all_is_one_client(table: Path) -> None:
    assert len(look_at(str(table), "y", None, False, None).clients) == 1


def test_a_data_set_and_an_experiment_can_be_looked_at(tmp_path: Path) -> None:
    assert len(look_at("digits", None, None, False, None).clients) == 1
    path = tmp_path / "e.toml"
    path.write_text('[partition]\nname = "iid"\nclients = 3\n')
    assert len(look_at(str(path), None, None, False, None).clients) == 3


def test_what_is_missing_is_named(table: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="label"):
        look_at(str(table), None, None, False, None)
    with pytest.raises(DataError, match="agge"):
        look_at(str(table), "agge", None, False, None)
    with pytest.raises(DataError, match="nothing"):
        look_at(str(tmp_path / "nothing.csv"), "y", None, False, None)
