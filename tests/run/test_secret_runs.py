"""Runs with noise that only the server can work out: another in each run, the same after a stop, and nowhere to be read."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from federations import ask_clients, distance, run_rounds, simulate
from runs import call, read_summary, spawn, tiny, wait_until, write_tiny
from safetensors.torch import load_file

from counterpoise.core.tree import subtract
from counterpoise.errors import DataError
from counterpoise.parts.dp import epsilon
from counterpoise.run.assemble import load_federation
from counterpoise.run.runner import Member, resume, run_together, start
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.folder import RunFolder
from counterpoise.server.cohort import Cohort
from counterpoise.server.state import ServerState

ROUNDS = 4
SECRET = ('method=["fedavg", { dp = { clip = 0.5 } }]', f"rounds={ROUNDS}")
KNOWN = ('method=["fedavg", { dp = { clip = 0.5, noise = "repeatable" } }]', f"rounds={ROUNDS}")
PRIVATE: list[Any] = ["fedavg", "dp"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret") / "run"
    start(tiny(*SECRET), folder)
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def key_of(folder: Path) -> Path:
    return RunFolder(folder).secret


def test_two_runs_of_a_seed_have_different_noise(tmp_path: Path) -> None:
    """All clients are asked in every round, so that nothing but the noise can differ."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        start(tiny(SECRET[0], "rounds=1", "cohort.size=4"), folder)
    assert key_of(folders[0]).read_bytes() != key_of(folders[1]).read_bytes()
    assert distance(*(load_file(folder / "model.safetensors") for folder in folders)) > 0.01


def test_two_repeatable_runs_of_a_seed_are_the_same_and_need_no_key(tmp_path: Path) -> None:
    first, second = (start(tiny(*KNOWN), tmp_path / name) for name in ("first", "second"))
    assert first["params_sha256"] == second["params_sha256"]
    assert not key_of(tmp_path / "first").exists()


def test_a_run_without_privacy_has_no_key(tmp_path: Path) -> None:
    start(tiny("rounds=1"), tmp_path / "run")
    assert not key_of(tmp_path / "run").exists()


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_resumed_run_comes_to_the_same_end_bit_for_bit(copy: Path, left: int) -> None:
    whole = read_summary(copy)
    for manifest in sorted((copy / "checkpoints").glob("round-*.json"))[left:]:
        manifest.unlink()
    assert resume(copy)["state_sha256"] == whole["state_sha256"]


@pytest.mark.faults
def test_a_killed_run_comes_to_the_end_of_one_with_its_key(tmp_path: Path) -> None:
    """The key is put into the folder of a whole run that starts again, which must then be the killed one's twin."""
    settings = (SECRET[0], "rounds=12", "local.epochs=3")
    process = spawn("run", write_tiny(tmp_path, *settings), "--out", tmp_path / "killed")
    wait_until(lambda: any((tmp_path / "killed" / "checkpoints").glob("round-*.json")), "a checkpoint")
    process.kill()
    process.communicate()
    killed = resume(tmp_path / "killed")
    start(tiny(*settings), tmp_path / "whole")
    shutil.rmtree(tmp_path / "whole" / "checkpoints")
    shutil.copy(key_of(tmp_path / "killed"), key_of(tmp_path / "whole"))
    assert resume(tmp_path / "whole")["state_sha256"] == killed["state_sha256"]


def test_only_the_owner_can_read_the_key_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        start(tiny(SECRET[0], "rounds=1"), tmp_path / "run")
    finally:
        os.umask(before)
    assert stat.S_IMODE(key_of(tmp_path / "run").stat().st_mode) == 0o600
    assert len(key_of(tmp_path / "run").read_bytes()) == 32


def test_the_key_stands_in_no_other_file_and_is_not_printed(tmp_path: Path) -> None:
    done = call("run", write_tiny(tmp_path, *SECRET), "--out", tmp_path / "run")
    assert done.code == 0
    key = key_of(tmp_path / "run").read_bytes()
    written = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert len(written) > 8
    forms = [
        key,
        key[::-1],
        base64.b64encode(key),
        str(list(key)).encode(),
        str(int.from_bytes(key, "big")).encode(),
    ]
    for path, content in {**written, tmp_path: (done.out + done.err).encode()}.items():
        if path != key_of(tmp_path / "run"):
            assert key.hex().encode() not in content.lower(), path
            assert not any(form in content for form in forms), path


@pytest.mark.parametrize(
    ("content", "why"), [(None, "is missing"), (b"short", "is damaged: .* 32 bytes, not 5")]
)
def test_without_its_key_a_run_is_not_resumed(copy: Path, content: bytes | None, why: str) -> None:
    key_of(copy).unlink()
    if content is not None:
        key_of(copy).write_bytes(content)
    with pytest.raises(DataError, match=f"secret.key {why}.*; put it back, or start a new run$"):
        resume(copy)
    assert call("resume", copy).code == 3


def test_a_key_left_by_a_killed_start_is_not_used(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.draw_secret()
    left = folder.secret.read_bytes()
    start(tiny(SECRET[0], "rounds=1"), folder.path)
    assert folder.secret.read_bytes() != left
    folder.forget()
    assert not folder.secret.exists()


def test_runs_in_one_program_have_a_key_each_and_resume_with_it(tmp_path: Path) -> None:
    def members(out: Path) -> list[Member]:
        chosen = [tiny(*SECRET, "engine.name=stacked", f"seed={seed}") for seed in (0, 1)]
        return [Member(one, out / str(one.seed), load_federation(one)) for one in chosen]

    def digests() -> list[Any]:
        return [one["state_sha256"] for one in run_together(members(tmp_path)) if isinstance(one, dict)]

    whole = digests()
    assert key_of(tmp_path / "0").read_bytes() != key_of(tmp_path / "1").read_bytes()
    for seed in ("0", "1"):
        shutil.rmtree(tmp_path / seed / "checkpoints")
    assert digests() == whole


def test_the_cohort_of_a_private_run_cannot_be_worked_out_from_its_seed() -> None:
    sims = [simulate(PRIVATE, rounds=40) for _ in range(2)]
    drawn = [[[t.client for t in sim.tasks(_at(sim, r))] for r in range(40)] for sim in sims]
    known = [Cohort(size=3).draw(sims[0].seed, r, sims[0].work.federation.samples()) for r in range(40)]
    for one, other in pairwise([*drawn, known]):
        assert sum(a == b for a, b in zip(one, other, strict=True)) < 20  # each by a chance of 1 in 20
    again = [t.client for t in sims[0].tasks(_at(sims[0], 7))]
    assert again == drawn[0][7]


def _at(sim: Simulation, round: int) -> ServerState:
    return replace(sim.open(), round=round)


def test_in_memory_the_key_lives_with_the_simulation() -> None:
    sim, other = simulate(PRIVATE, cohort=None), simulate(PRIVATE, cohort=None)
    first, again = run_rounds(sim, rounds=2), run_rounds(sim, rounds=2)
    assert distance(first.params, again.params) == 0
    assert distance(first.params, run_rounds(other, rounds=2).params) > 0.01


def test_a_repeated_round_with_other_replies_does_not_show_their_difference() -> None:
    """With the noise of the round alone, the two models would differ by exactly the update of the client that is missing."""
    sim, silent = (
        simulate(PRIVATE, cohort=None),
        simulate(["fedavg", {"dp": {"noise_multiplier": 0.0}}], cohort=None),
    )
    everyone, fewer = range(6), range(5)
    models = [ask_clients(sim, sim.open(), who)[0].params for who in (everyone, fewer)]
    update = [ask_clients(silent, silent.open(), who)[0].params for who in (everyone, fewer)]
    shown, true = subtract(*models), subtract(*update)
    assert distance(shown, true) > 0.1
    assert distance(models[0], ask_clients(sim, sim.open(), everyone)[0].params) == 0


def test_epsilon_is_printed_recorded_and_charted(tmp_path: Path) -> None:
    done = call("run", write_tiny(tmp_path, *KNOWN), "--out", tmp_path / "run")
    told = f"epsilon {epsilon(1.0, 2 / 4, ROUNDS, 1e-5):.4g} at delta 1e-05 after {ROUNDS} rounds that ask 2 of 4 clients each"
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["notes"]["dp"].startswith(told)
    assert f"dp: {told}" in done.err
    assert [chart["name"] for chart in record["charts"] if chart["part"] == "dp"] == ["epsilon"]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    found = [row["diagnostics"]["dp"]["epsilon"] for row in rows]
    assert found == pytest.approx([epsilon(1.0, 2 / 4, done + 1, 1e-5) for done in range(ROUNDS)])


@pytest.mark.parametrize(("given", "warns"), [(SECRET, False), (KNOWN, True)])
def test_repeatable_noise_is_said_to_protect_nobody_who_knows_the_seed(
    tmp_path: Path, given: tuple[str, ...], warns: bool
) -> None:
    file = write_tiny(tmp_path, *given)
    for done in (call("validate", file), call("run", file, "--out", tmp_path / "run")):
        [line] = [line for line in (done.out + done.err).splitlines() if line.startswith("dp")]
        assert ("protects nobody from those who know the seed" in line) == warns


@pytest.mark.parametrize(
    ("cohort", "approximate"),
    [("size=2", True), ("size=4", False), ('sampling="bernoulli"', False)],
)
def test_epsilon_of_a_fixed_number_of_clients_is_said_to_be_an_approximation(
    tmp_path: Path, cohort: str, approximate: bool
) -> None:
    shown = call("validate", write_tiny(tmp_path, *SECRET, f"cohort.{cohort}"))
    [line] = [line for line in shown.out.splitlines() if line.startswith("dp")]
    assert ("an approximation" in line) == approximate


@pytest.mark.parametrize("clients", range(1, 10))
@pytest.mark.parametrize(
    ("rule", "least"), [("krum", 5), ("trimmed_mean", 5), ("{ krum = { byzantine = 3 } }", 9)]
)
def test_a_round_too_small_for_a_robust_rule_ends_with_exit_2_and_leaves_nothing(
    tmp_path: Path, rule: str, least: int, clients: int
) -> None:
    named = rule if rule.startswith("{") else f'"{rule}"'
    file = write_tiny(
        tmp_path, f'method=["fedavg", {named}]', f"cohort.size={clients}", "partition.clients=9"
    )
    checked = call("validate", file)
    assert checked.code == (2 if clients < least else 0)
    if clients < least:
        assert re.search(
            rf"needs at least {least} clients per round with these arguments, not {clients};", checked.err
        )
        assert call("run", file, "--out", tmp_path / "run").code == 2
        assert not (tmp_path / "run").exists()
