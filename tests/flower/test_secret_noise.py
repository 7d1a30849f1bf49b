"""The secret key of a private run stays on the server: over messages too, from its start through a stop to its end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from deployed import experiment
from flwr.app import Message
from flwr.common.serde import recorddict_to_proto
from local_net import Net, numbered

from counterpoise.core.method import MethodSpec
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder

SECRET: MethodSpec = ["fedavg", "dp"]
REPEATABLE: MethodSpec = ["fedavg", {"dp": {"noise": "repeatable"}}]


def private(method: MethodSpec, rounds: int = 5) -> Experiment:
    tables = experiment("fedavg", rounds, 3, checkpoint={"every": 2, "keep": 2}).tables()
    return make_experiment({**tables, "method": method})


def _stopped(net: Net, config: Experiment, out: Path, message: int) -> None:
    """A run that ends at a message to a client."""
    seen = 0

    def stop(ask: Message) -> None:
        nonlocal seen
        seen += ask.metadata.message_type == "train"
        if seen == message:
            raise KeyboardInterrupt

    net.before = stop
    with pytest.raises(KeyboardInterrupt):
        net.run(config, out)
    net.before = lambda ask: None


@pytest.mark.parametrize("message", [1, 8, 12])
def test_a_stopped_run_goes_on_with_the_noise_it_would_have_had(message: int, tmp_path: Path) -> None:
    net, out = numbered(tmp_path, 3), tmp_path / "out"
    _stopped(net, private(SECRET), out, message)
    key = RunFolder(out).secret.read_bytes()
    resumed = net.run(None, out)
    shutil.rmtree(out / "checkpoints")  # so that it starts again
    assert net.run(None, out)["state_sha256"] == resumed["state_sha256"]
    assert RunFolder(out).secret.read_bytes() == key


def test_no_client_ever_gets_the_key(tmp_path: Path) -> None:
    net, out = numbered(tmp_path, 3), tmp_path / "out"
    net.run(private(SECRET, 2), out)
    key = RunFolder(out).secret.read_bytes()
    sent = [recorddict_to_proto(ask.content).SerializeToString() for ask in net.grid.sent]
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "secret.key"]
    assert len(sent) >= 9
    assert not any(form in content for content in [*sent, *kept] for form in (key, key.hex().encode()))


def test_another_run_of_the_same_seed_has_other_noise(tmp_path: Path) -> None:
    runs = [numbered(tmp_path / name, 3).run(private(SECRET, 1), tmp_path / name / "out") for name in "ab"]
    assert runs[0]["params_sha256"] != runs[1]["params_sha256"]


def test_repeatable_noise_is_that_of_a_run_in_this_process(tmp_path: Path) -> None:
    alone = start(private(REPEATABLE, 3), tmp_path / "alone")
    summary = numbered(tmp_path, 3).run(private(REPEATABLE, 3), tmp_path / "out")
    assert summary["params_sha256"] == alone["params_sha256"]
