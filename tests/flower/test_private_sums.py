"""Sums that the server cannot read over Flower: the same run bit for bit, and no count of a client in any message or file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")
pytest.importorskip("tenseal", reason="pip install 'counterpoise[privacy]'")

from deployed import embedded_sha, experiment
from federations import run_rounds, simulate, unequal_federation
from flwr.app import Message
from flwr.common.serde import recorddict_to_proto
from local_grid import FIRST_NODE, LocalGrid, over_flower
from local_net import Net
from own_files import KINDS, server_config

from counterpoise.core.codec import digest
from counterpoise.errors import RunError, SecurityError
from counterpoise.flower import commands
from counterpoise.flower.certs import CertFolder, make_certs
from counterpoise.flower.identity import CertIdentity, identity_of
from counterpoise.flower.sums import SUM, KeptFiles, read_sum
from counterpoise.privacy.frame import unpack
from counterpoise.privacy.identity import Unsigned
from counterpoise.run.store.folder import RunFolder
from counterpoise.server.state import ServerState

COUNTING: list[Any] = ["fedavg", "logit_adjustment", {"weighted_ce": {"counts": "global"}}]
OWN = {
    "a": ("low", "low", "mid"),
    "b": ("high", "low"),
    "c": ("mid", "high"),
    "d": ("high", "mid", "low", "low"),
}


def _digest(state: ServerState) -> str:
    return digest(state.to_tree())


@pytest.mark.parametrize("histogram", ["masks", "bfv"])
def test_a_sum_over_messages_equals_one_process_bit_for_bit(histogram: str, tmp_path: Path) -> None:
    plain, privacy = simulate(COUNTING), {"histogram": histogram}
    here, (remote, grid) = (
        simulate(COUNTING, privacy=privacy),
        over_flower(COUNTING, tmp_path, privacy=privacy),
    )
    assert _digest(run_rounds(remote)) == _digest(run_rounds(here)) == _digest(run_rounds(plain))
    for key in ("messages", "clients", "histogram"):
        assert remote.engine.tallied[key] == here.engine.tallied[key]
    assert abs(remote.engine.tallied["bytes_up"] / here.engine.tallied["bytes_up"] - 1) < 0.01
    assert sum(ask.metadata.message_type == SUM for ask in grid.sent) == remote.engine.tallied["messages"] / 2


def _wire(message: Message) -> bytes:
    return bytes(recorddict_to_proto(message.content).SerializeToString()) if message.has_content() else b""


@pytest.mark.parametrize("histogram", ["masks", "bfv"])
def test_no_counts_and_no_secret_are_in_any_message(
    histogram: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets: list[bytes] = []
    kept = KeptFiles.__setitem__

    def recorded(self: KeptFiles, key: str, value: bytes) -> None:
        secrets.extend(
            [value[k : k + 32] for k in range(0, len(value), 32)] if key.startswith("key-") else []
        )
        kept(self, key, value)

    monkeypatch.setattr(KeptFiles, "__setitem__", recorded)
    remote, grid = over_flower(COUNTING, tmp_path, privacy={"histogram": histogram})
    seen: list[bytes] = []
    grid.alter = lambda replies: seen.extend(map(_wire, replies)) or replies  # type: ignore[func-returns-value]
    remote.engine.roster.identify_nodes(1.0)  # type: ignore[attr-defined]
    remote.open()
    seen += [_wire(ask) for ask in grid.sent]
    counts = unequal_federation().counts().numpy()
    assert not any(
        row.astype(kind).tobytes() in wire for row in counts for kind in ("<i8", "<f8") for wire in seen
    )
    public = b"".join(wire for wire in seen if b'"keys"' in wire)
    hidden = [piece for piece in secrets if histogram == "masks" or piece not in public]
    assert hidden
    assert not [piece for piece in hidden if any(piece in wire for wire in seen)]


def test_the_greeting_holds_no_tally(tmp_path: Path) -> None:
    remote, _ = over_flower(COUNTING, tmp_path, privacy={"histogram": "masks"})
    assert all(not hello.surveys for hello in remote.engine.roster.hellos.values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("histogram", ["masks", "bfv"])
def test_a_client_that_is_silent_is_left_out(histogram: str, tmp_path: Path) -> None:
    remote, grid = over_flower(COUNTING, tmp_path, privacy={"histogram": histogram})

    def lose(replies: list[Message]) -> list[Message]:
        phases = {unpack(read_sum(r.content))[0].phase for r in replies if r.metadata.message_type == SUM}
        lost = FIRST_NODE - 4 if phases == {"sum"} else None
        return [reply for reply in replies if reply.metadata.src_node_id != lost]

    grid.alter = lose
    total = remote.engine.tally(range(6))["weighted_ce"]["counts"]
    counts = unequal_federation().counts()
    assert total.tolist() == (counts.sum(0) - counts[4]).tolist()
    assert remote.engine.tallied["clients"] == 5
    assert remote.engine.tallied["attempts"] == 2


def test_a_client_started_anew_between_two_questions_is_left_out(tmp_path: Path) -> None:
    """Its key is gone with its folder; the others are asked again."""
    remote, grid = over_flower(COUNTING, tmp_path, privacy={"histogram": "masks"})
    cleared: list[int] = []

    def restart(ask: Message) -> None:
        mine = ask.metadata.dst_node_id == FIRST_NODE - 2 and ask.metadata.message_type == SUM
        if mine and not cleared and unpack(read_sum(ask.content))[0].phase == "sum":
            cleared.append(1)
            KeptFiles(tmp_path / "node-2", "2").clear()

    grid.before = restart
    total = remote.engine.tally(range(6))["weighted_ce"]["counts"]
    counts = unequal_federation().counts()
    assert cleared
    assert total.tolist() == (counts.sum(0) - counts[2]).tolist()


def test_keys_are_files_of_their_owner_and_deleted_after_use(tmp_path: Path) -> None:
    remote, grid = over_flower(COUNTING, tmp_path, privacy={"histogram": "masks"})
    modes: set[int] = set()

    def look(ask: Message) -> None:
        modes.update(path.stat().st_mode & 0o777 for path in tmp_path.rglob("sums/*/*"))

    grid.before = look
    remote.engine.tally(range(6))
    assert modes == {0o600}
    kept = [KeptFiles(tmp_path / f"node-{k}", str(k)) for k in range(6)]
    assert not [key for files in kept for key in files if key.startswith("key-")]


# Clients with their own data


def _own(path: Path, **tables: Any) -> tuple[Any, Net]:
    config = server_config(
        path,
        KINDS["arrays"],
        list(OWN),
        flower={"clients": list(OWN), "wait": 0.3},
        evaluate={},
        **{"method": COUNTING[:2], **tables},
    )
    files: dict[str, Path | None] = {}
    for seed, (name, labels) in enumerate(OWN.items(), 1):
        (path / name).mkdir()
        files[name] = KINDS["arrays"].write(path / name, (labels * 40)[:60], seed)
    return config, Net(path, files)


@pytest.mark.parametrize("histogram", ["masks", "bfv"])
def test_of_clients_with_their_own_data_the_server_keeps_the_sum_only(histogram: str, tmp_path: Path) -> None:
    folders = {mode: tmp_path / mode for mode in ("plain", histogram)}
    found = {}
    for mode, folder in folders.items():
        folder.mkdir()
        config, net = _own(folder, privacy={"histogram": mode})
        found[mode] = net.run(config, folder / "out")
    assert found["plain"]["params_sha256"] == found[histogram]["params_sha256"]
    records = {m: json.loads(RunFolder(f / "out").record.read_text()) for m, f in folders.items()}
    assert records[histogram]["data"]["class_counts"] == records["plain"]["data"]["class_counts"]
    assert records[histogram]["clients"] is None
    roster = json.loads((folders[histogram] / "out" / "flower" / "roster.json").read_text())
    assert roster["summed"] == records["plain"]["data"]["class_counts"]
    assert roster["of_each"] is None
    assert records[histogram]["tallied"]["what"] == "class counts"
    expected = 16 if histogram == "masks" else 12
    assert records[histogram]["tallied"]["messages"] == expected  # asked for once, for the run and its parts


def test_noise_is_drawn_once_in_a_run_and_kept_for_its_resume(tmp_path: Path) -> None:
    config, net = _own(tmp_path, privacy={"histogram": "masks", "epsilon": 0.5}, rounds=1)
    net.run(config, tmp_path / "out")
    record = json.loads(RunFolder(tmp_path / "out").record.read_text())
    asked = [ask for ask in net.grid.sent if ask.metadata.message_type == SUM]
    assert len(asked) == 8
    assert min(record["data"]["class_counts"]) >= 0
    net.run(None, tmp_path / "out")  # resumed: nobody is asked again
    assert not [ask for ask in net.grid.sent if ask.metadata.message_type == SUM]


def test_two_clients_with_their_own_data_are_refused(tmp_path: Path) -> None:
    files = {name: KINDS["arrays"].write(_folder(tmp_path / name), OWN[name] * 20, 1) for name in ("a", "b")}
    config = server_config(
        tmp_path,
        KINDS["arrays"],
        ["a", "b"],
        method="fedavg",
        evaluate={},
        privacy={"histogram": "masks"},
        flower={"clients": ["a", "b"], "wait": 0.3},
    )
    with pytest.raises(SecurityError, match="at least 3 clients, not 2"):
        Net(tmp_path, dict(files)).run(config, tmp_path / "out")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_client_may_insist_on_a_hidden_histogram(tmp_path: Path) -> None:
    """The mode is the server's choice, so a client says for itself what it takes part in."""
    for mode, admitted in (("plain", False), ("masks", True)):
        (folder := tmp_path / mode).mkdir()
        config, net = _own(folder, privacy={"histogram": mode})
        net.clients["b"] = replace(net.clients["b"], private=True)
        if admitted:
            assert net.run(config, folder / "out")["rejected_replies"] == 0
        else:
            with pytest.raises(RunError, match=r"did not connect: b"):
                net.run(config, folder / "out")


# Signed keys


def _signed(path: Path, names: list[str]) -> dict[str, CertIdentity]:
    make_certs(path, names)
    found = {name: identity_of(str(path), name) for name in names}
    assert all(isinstance(one, CertIdentity) for one in found.values())
    return found  # type: ignore[return-value]


def test_a_signature_is_believed_only_of_its_own_client_and_words(tmp_path: Path) -> None:
    known = _signed(tmp_path / "one", ["a", "b"])
    strangers = _signed(tmp_path / "other", ["a", "b"])
    proof = known["a"].sign(b"words")
    assert known["b"].verify("a", b"words", proof)
    assert not known["b"].verify("b", b"words", proof)
    assert not known["b"].verify("a", b"other words", proof)
    assert not known["b"].verify("a", b"words", strangers["a"].sign(b"words"))
    for bad in (b"", b"\x00", proof[:-1], proof[:50], b"\xff\xff" + proof, bytes(len(proof))):
        assert not known["b"].verify("a", b"words", bad)


def test_without_a_certificate_nobody_signs(tmp_path: Path) -> None:
    make_certs(tmp_path, ["a"])
    CertFolder(tmp_path).certificate("a").unlink()
    assert isinstance(identity_of(str(tmp_path), "a"), Unsigned)
    assert isinstance(identity_of(None, "a"), Unsigned)


def test_certificates_are_added_to_a_folder_that_had_none(tmp_path: Path) -> None:
    folder = make_certs(tmp_path, ["a"])
    folder.certificate("a").unlink()
    before = folder.private_key("a").read_bytes()
    make_certs(tmp_path, ["a"])
    assert folder.private_key("a").read_bytes() == before
    assert isinstance(identity_of(str(tmp_path), "a"), CertIdentity)
    folder.authority_key.unlink()  # it is nobody's: kept elsewhere
    make_certs(tmp_path, ["a", "b"])
    assert not folder.certificate("b").exists()


@pytest.mark.parametrize("histogram", ["masks", "bfv"])
def test_signed_keys_are_used_and_a_server_cannot_put_its_own_between_clients(
    histogram: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, grid = over_flower(COUNTING, tmp_path / "state", privacy={"histogram": histogram})
    identities = _signed(tmp_path / "certs", [str(k) for k in range(6)])
    _sit(grid, identities)
    remote.engine.tally(range(6))
    assert remote.engine.tallied["signed_keys"] is True
    _sit(grid, identities | {"3": _signed(tmp_path / "forged", ["3"])["3"]})
    monkeypatch.setattr("counterpoise.privacy.bfv.secrets.choice", lambda names: "3")
    with pytest.raises(SecurityError, match="does not take part"):
        remote.engine.tally(range(6))


def _sit(grid: LocalGrid, identities: Any) -> None:
    grid.seats = {
        node: seat._replace(identity=identities[seat.name])  # type: ignore[union-attr]
        for node, seat in grid.seats.items()
    }


@pytest.mark.deploy
def test_a_deployment_with_masks_equals_one_process_bit_for_bit(tmp_path: Path) -> None:
    config = experiment(COUNTING[:2], 3, 4, privacy={"histogram": "masks"})
    summary = commands.up(config, tmp_path / "out")
    assert summary["params_sha256"] == embedded_sha(config, tmp_path / "alone")
    tallied = json.loads(RunFolder(tmp_path / "out").record.read_text())["tallied"]
    assert (tallied["histogram"], tallied["clients"], tallied["signed_keys"]) == ("masks", 4, True)
    assert tallied["messages"] == 16
