"""Clients with their own tables, arrays, images and packs: they train, and nothing but the messages leaves them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from flwr.app import Message
from flwr.common.serde import recorddict_to_proto
from local_net import Net
from own_files import CENTRES, CLASSES, KINDS, ROWS, SECRET, Kind, client_files, server_config
from PIL import Image

from counterpoise.errors import ConfigError, DataError, RunError
from counterpoise.flower.commands import prepare, prepared_simulation
from counterpoise.flower.greetings import expected
from counterpoise.flower.job import JobFolder
from counterpoise.flower.messages import Hello
from counterpoise.flower.own_data import describe_form, own_federation
from counterpoise.flower.refusal import CLIENT_FAILED, Refused
from counterpoise.run.store.folder import RunFolder

# The record then has each client's class counts.
COUNTED = {"clients": list(ROWS), "wait": 0.3, "client_counts": True}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_a_client_that_brings_no_samples_is_refused(tmp_path: Path) -> None:
    refuse = expected(["a"], None, JobFolder(tmp_path))
    refuse(Hello("a", 1, 0, "", {}))
    with pytest.raises(Refused, match="samples"):
        refuse(Hello("a", 0, 1, "", {}))


def test_clients_train_on_files_of_their_own(kind: Kind, tmp_path: Path) -> None:
    config = server_config(tmp_path, kind, list(ROWS), rounds=4, flower=COUNTED)
    summary = Net(tmp_path, client_files(tmp_path, kind)).run(config, tmp_path / "out")
    record = json.loads(RunFolder(tmp_path / "out").record.read_text())
    held_out_of_a_pack = 5 if kind is KINDS["pack"] else 0
    assert np.array(record["clients"]).sum(1).tolist() == [48 - held_out_of_a_pack] * 2
    if not held_out_of_a_pack:
        assert record["clients"] == [[0, 32, 16], [24, 24, 0]]  # a fifth of 40, 20, 30 and 30 held out
    assert record["data"]["classes"] == list(CLASSES)
    assert summary["accuracy"] > 0.45  # of three classes
    assert summary["clients"]["mean_client_balanced_accuracy"] is not None
    assert summary["rejected_replies"] == summary["skipped_rounds"] == 0


def test_nothing_of_a_clients_file_reaches_the_server(kind: Kind, tmp_path: Path) -> None:
    config, files = server_config(tmp_path, kind, list(ROWS)), client_files(tmp_path, kind)
    net = Net(tmp_path, files)
    net.run(config, tmp_path / "out")
    seen = [_wire(message) for ask in net.grid.sent for message in (ask, net.grid.deliver(ask))]
    seen += [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    form = describe_form(config)
    for number, file in enumerate(files.values()):
        rows = own_federation(str(file), {}, form, number, len(files)).train.x
        secrets = [SECRET.encode(), str(tmp_path / "a").encode(), *(row.numpy().tobytes() for row in rows)]
        assert not [secret for secret in secrets if any(secret in content for content in seen)]


def _wire(message: Message) -> bytes:
    if message.has_error():
        return str(message.error).encode()
    return bytes(recorddict_to_proto(message.content).SerializeToString())


@pytest.mark.parametrize("damage", ["unreadable", "gone", "other classes"])
def test_a_client_that_cannot_use_its_file_says_one_word(
    kind: Kind, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, files = server_config(tmp_path, kind, list(ROWS)), client_files(tmp_path, kind)
    file = files["b"]
    assert file is not None
    if file.is_dir():
        shutil.rmtree(file)
    else:
        file.unlink()
    if damage == "unreadable":
        picture = file / "low" / f"{SECRET}.png" if kind is KINDS["images"] else file
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(SECRET.encode())
    if damage == "other classes":
        monkeypatch.setitem(CENTRES, SECRET, 1.0)
        kind.write(file.parent, ("low", SECRET) * 10, 1)
    net = Net(tmp_path, files)
    with pytest.raises(RunError, match="1 of 2 clients did not connect: b") as failure:
        net.run(config, tmp_path / "out")
    replies = [net.grid.deliver(ask) for ask in net.grid.sent]
    errors = [(reply.error.code, reply.error.reason) for reply in replies if reply.has_error()]
    assert errors
    assert set(errors) == {(CLIENT_FAILED, "data")}
    assert SECRET not in str(failure.value)


def test_a_client_may_have_one_class_of_a_table(tmp_path: Path) -> None:
    kind = KINDS["table"]
    config, files = server_config(tmp_path, kind, list(ROWS), flower=COUNTED), client_files(tmp_path, kind)
    files["b"] = kind.write(tmp_path, ["high"] * 50, 3)
    Net(tmp_path, files).run(config, tmp_path / "out")
    record = json.loads(RunFolder(tmp_path / "out").record.read_text())
    assert record["clients"][1] == [40, 0, 0]


@pytest.mark.parametrize("scored", [True, False], ids=["scored on clients", "scored on the server"])
def test_a_client_too_small_to_hold_anything_out_trains(scored: bool, tmp_path: Path) -> None:
    """It was refused, in words about a key of the server's config, whether or not clients score."""
    kind, tables = KINDS["table"], {"evaluate": {"clients": scored}, "flower": COUNTED}
    config, files = server_config(tmp_path, kind, list(ROWS), **tables), client_files(tmp_path, kind)
    files["b"] = kind.write(tmp_path, ["high", "low"], 3)
    summary = Net(tmp_path, files).run(config, tmp_path / "out")
    record = json.loads(RunFolder(tmp_path / "out").record.read_text())
    assert record["clients"][1] == [1, 1, 0]
    assert summary["rejected_replies"] == 0
    assert summary["accuracy"] is not None


def test_images_are_brought_to_the_size_and_colours_of_the_servers(tmp_path: Path) -> None:
    kind = KINDS["images"]
    config, files = server_config(tmp_path, kind, list(ROWS)), client_files(tmp_path, kind)
    Image.new("RGB", (6, 6)).save(tmp_path / "server" / "images" / "low" / "colour.png")
    form, file = describe_form(config), files["a"]
    grey = own_federation(str(file), {}, form, 0, 2)
    assert grey.input_shape == (3, 6, 6)
    assert (grey.train.x[:, 0] == grey.train.x[:, 2]).all()


def test_a_client_in_colour_does_not_fit_a_grey_federation(tmp_path: Path) -> None:
    kind = KINDS["images"]
    config, files = server_config(tmp_path, kind, list(ROWS)), client_files(tmp_path, kind)
    file = files["a"]
    assert file is not None
    Image.new("RGB", (7, 7)).save(file / "low" / "colour.png")
    with pytest.raises(DataError, match=r"samples are \(3, 6, 6\).*needs \(1, 6, 6\) bytes"):
        own_federation(str(file), {}, describe_form(config), 0, 2)


def test_a_file_of_another_kind_than_the_servers_is_refused(tmp_path: Path) -> None:
    config = server_config(tmp_path, KINDS["arrays"], list(ROWS))
    files = client_files(tmp_path, KINDS["table"])
    with pytest.raises(DataError, match="is a table, but the server's data is not"):
        own_federation(str(files["a"]), {}, describe_form(config), 0, 2)


def test_names_of_clients_are_checked(tmp_path: Path) -> None:
    for number, names in enumerate((["a", "a"], ["../a"], ["a b"], [""])):
        (tmp_path / str(number)).mkdir()
        config = server_config(tmp_path / str(number), KINDS["table"], names)
        with pytest.raises(ConfigError, match=r"client name|must be names that differ"):
            prepare(config, tmp_path / "out", named_nodes=False)
        with pytest.raises(ConfigError, match=r"client name|must be names that differ"):
            prepared_simulation(config)  # `validate`, which found them valid


def test_paths_of_the_server_are_not_in_what_clients_are_sent(kind: Kind, tmp_path: Path) -> None:
    ready = prepare(server_config(tmp_path, kind, ["a", "b"]), tmp_path / "out", named_nodes=True)
    assert str(tmp_path) not in str(ready.settings)


def test_a_packed_table_of_a_client_is_the_table(tmp_path: Path) -> None:
    kind = KINDS["table"]
    form, file = describe_form(server_config(tmp_path, kind, list(ROWS))), client_files(tmp_path, kind)["a"]
    assert file is not None
    packed = tmp_path / "mine.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    plain, unpacked = (own_federation(str(path), {}, form, 0, 2).train for path in (file, packed))
    assert (plain.x == unpacked.x).all()
    assert (plain.y == unpacked.y).all()
