"""The commands: what they refuse, and Flower's simulation."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import embedded_sha, experiment, leftovers

from counterpoise.cli import app
from counterpoise.errors import ConfigError
from counterpoise.flower import commands
from counterpoise.run.store.folder import RunFolder
from counterpoise.system.toml import write_toml


def call(*words: str | Path) -> None:
    app([str(word) for word in words], standalone_mode=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(write_toml(experiment("fedavg", 2).tables()))
    return path


def test_an_experiment_or_a_run_to_resume_must_be_given_and_not_both(file: Path, tmp_path: Path) -> None:
    for words in ([], [file, "--resume", tmp_path]):
        for command in ("up", "simulate"):
            with pytest.raises(ConfigError, match="an experiment file, or --resume"):
                call("flower", command, *words)


def test_a_server_for_other_machines_needs_certificates(file: Path) -> None:
    with pytest.raises(ConfigError, match="certificates are missing"):
        call("flower", "server", file)
    with pytest.raises(ConfigError, match=r"--insecure needs host 127\.0\.0\.1 .* not host 0\.0\.0\.0"):
        call("flower", "server", file, "--host", "0.0.0.0", "--insecure")


def test_a_port_that_another_program_has_is_refused(file: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ["--port", str(port), "--insecure", "--out", tmp_path / "out"]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            call("flower", "server", file, *words)


def test_a_folder_that_holds_a_run_is_not_written_over(file: Path, tmp_path: Path) -> None:
    embedded_sha(experiment("fedavg", 1), tmp_path / "out")
    with pytest.raises(ConfigError, match="holds a run already"):
        call("flower", "up", file, "--out", tmp_path / "out")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("up", ["--out", "elsewhere"]),
        ("up", ["--clients", "3"]),
        ("simulate", ["--out", "elsewhere"]),
        ("server", ["--insecure", "--out", "elsewhere"]),
    ],
)
def test_a_resumed_run_has_its_folder_and_clients_already(
    command: str, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"{words[-2]} does not go with --resume") as refused:
        call("flower", command, "--resume", tmp_path / "run", *words)
    assert "\n" not in str(refused.value)


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        call("flower", "up", "--resume", tmp_path / "nothing")


def test_run_does_not_take_flower_for_an_engine(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="counterpoise flower up"):
        call("run", file, "engine.name=flower", "--out", tmp_path / "out")
    assert not RunFolder(tmp_path / "out").holds_run()


@pytest.mark.parametrize("server", ["127.0.0.1:9092", "[::1]:9092"])
def test_one_client_and_state_folder_is_one_node(server: str, tmp_path: Path) -> None:
    words = ["--server", server, "--insecure", "--state", tmp_path / "state"]
    (tmp_path / "state").mkdir()
    with (tmp_path / "state" / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="client a runs already"):
            call("flower", "client", "--client", "a", *words)


def test_a_client_checks_its_words_before_it_starts_anything(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--server must be HOST:PORT"):
        call("flower", "client", "--client", "a", "--server", "nowhere", "--insecure")
    with pytest.raises(ConfigError, match="no such file"):
        call("flower", "client", "--client", "a", "--data", tmp_path / "none.csv", "--insecure")
    with pytest.raises(ConfigError, match="test_share"):
        call("flower", "client", "--client", "a", "--test-share", "0.5", "--insecure")
    with pytest.raises(ConfigError, match="client name"):
        call("flower", "client", "--client", "../a", "--insecure", "--state", tmp_path / "state")


def test_a_client_without_its_key_is_told_which_file_is_missing(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    words = ["flower", "client", "--client", "west", "--certs", certs, "--state", tmp_path / "state"]
    with pytest.raises(ConfigError, match=r"certs/ca\.crt is missing"):
        call(*words)
    call("flower", "certs", certs, "--client", "east")
    with pytest.raises(ConfigError, match=r"certs/clients/west\.key is missing.*for client west"):
        call(*words)
    assert not (tmp_path / "state").exists()


def test_a_bad_experiment_is_refused_before_anything_starts(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no method or part"):
        call("flower", "up", file, "method=fedagv", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["up", "simulate"])
def test_clients_that_bring_their_own_data_are_not_started_without_it(
    command: str, file: Path, tmp_path: Path
) -> None:
    """They were started, could not read data that nobody gave them, and the server waited for them."""
    with pytest.raises(
        ConfigError, match=r"flower\.clients must be left out .* `counterpoise flower server`"
    ):
        call("flower", command, file, 'flower.clients=["a", "b"]', "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_stopped_run_says_how_to_go_on(tmp_path: Path) -> None:
    embedded_sha(experiment("fedavg", 1), tmp_path / "out")
    (tmp_path / "out" / "flower").mkdir()
    assert "counterpoise flower" in RunFolder(tmp_path / "out").resume_hint()
    assert "--resume" in RunFolder(tmp_path / "out").resume_hint()


@pytest.mark.deploy
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_flowers_simulation_equals_one_process_bit_for_bit(method: str, tmp_path: Path) -> None:
    config = experiment(method, 3, 4)
    summary = commands.simulate(config, tmp_path / "out")
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    assert leftovers(tmp_path) == []
