"""Who can do what: outsiders, clients with a valid key, other users of the machine, and a server that lies."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import httpx
from deployed import deployed, experiment, rounds_done, wait_until
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto import fleet_pb2, heartbeat_pb2, message_pb2, node_pb2, run_pb2
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes, sign_message
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from counterpoise.errors import ConfigError
from counterpoise.flower import FLWR, adapter, messages
from counterpoise.flower.adapter import APP, PLACE_HEADER, ROUTES, VERSION_HEADER, Route
from counterpoise.flower.certs import CertFolder, make_certs
from counterpoise.flower.commands import prepare
from counterpoise.flower.deployment import Endpoint
from counterpoise.flower.front import listening
from counterpoise.flower.grid import HubGrid
from counterpoise.flower.hub import Hub
from counterpoise.flower.job import ClientFile, JobFolder
from counterpoise.flower.refusal import CLIENT_FAILED
from counterpoise.flower.resident import Resident
from counterpoise.flower.wire import RequestRefused, Wire, read_key
from counterpoise.version import __version__

NOBODY = 65534  # another user of this machine
PACKAGE = Path(adapter.__file__).parents[1]
INSIDE = {"adapter.py", "wire.py", "simulated.py"}  # modules that may know Flower's inside


class Port:
    """An open port with two clients registered, and a run with a secret in what it tells its clients."""

    def __init__(self, certs: CertFolder) -> None:
        self.certs, self.hub = certs, Hub()
        self.nodes = {
            name: adapter.register(self.hub.link, certs.public_key(name), name) for name in ("a", "b")
        }
        self.hub.names = {node: name for name, node in self.nodes.items()}
        self.grid = HubGrid(self.hub, adapter.open_run(self.hub.link, {"experiment": "canary-7f3a"}))
        self.link = Endpoint("127.0.0.1", 0, certs)

    @property
    def url(self) -> str:
        return f"https://{self.link.address}"

    def post(self, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> httpx.Response:
        verify = str(self.certs.authority)
        return httpx.post(f"{self.url}{path}", content=body, headers=headers or {}, verify=verify, timeout=20)

    def headers(self, client: str | None, age: float = 0.0) -> dict[str, str]:
        """Signed by a client's key, or by a stranger's."""
        key = generate_key_pairs()[0] if client is None else read_key(self.certs.private_key(client))
        signed_at = (now() - timedelta(seconds=age)).isoformat()
        public = public_key_to_bytes(key.public_key())
        return {
            FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public).decode(),
            TIMESTAMP_HEADER: signed_at,
            FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(key, signed_at.encode())).decode(),
            VERSION_HEADER: __version__,
        }

    def wire(self, client: str, place: str = "home", version: str = __version__) -> Wire:
        key, headers = (
            read_key(self.certs.private_key(client)),
            {VERSION_HEADER: version, PLACE_HEADER: place},
        )
        return Wire(self.link.address, self.certs.authority, key, headers)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> CertFolder:
    return make_certs(tmp_path_factory.mktemp("certs"), ["a", "b"])


@pytest.fixture
def port(certs: CertFolder) -> Iterator[Port]:
    here = Port(certs)
    with listening(here.hub, here.link) as link:
        here.link = link
        yield here


def test_control_and_runtime_have_no_address_even_for_a_client_with_a_valid_key(port: Port) -> None:
    """Every endpoint that Flower's superlink serves beside the fleet, and some more."""
    beside = [path for _, path in PROTOBUF_REQUEST_TYPES if not path.startswith("/v1/fleet/")]
    assert len(beside) > 50
    for path in [
        *beside,
        "/",
        "/docs",
        "/openapi.json",
        "/health",
        "/v1/fleet/get-fab",
        "/v1/fleet/register-node",
    ]:
        for headers in ({}, port.headers("a")):
            reply = port.post(path, headers=headers)
            assert (reply.status_code, reply.content) in ((404, b""), (404, b"Not Found")), path


def _requests(node: int, run: int) -> dict[str, Any]:
    """Every request of the fleet, as a node would make it."""
    there = node_pb2.Node(node_id=node)
    return {
        "activate-node": fleet_pb2.ActivateNodeRequest(public_key=b"?", heartbeat_interval=30),
        "deactivate-node": fleet_pb2.DeactivateNodeRequest(node_id=node),
        "send-node-heartbeat": heartbeat_pb2.SendNodeHeartbeatRequest(node=there, heartbeat_interval=30),
        "get-run": run_pb2.GetRunRequest(node=there, run_id=run),
        "pull-messages": fleet_pb2.PullMessagesRequest(node=there),
        "pull-object": message_pb2.PullObjectRequest(node=there, run_id=run, object_id="0" * 64),
        "push-messages": fleet_pb2.PushMessagesRequest(node=there),
        "push-object": message_pb2.PushObjectRequest(node=there, run_id=run, object_id="0" * 64),
    }


@pytest.mark.parametrize("stranger", ["nobody", "a key of its own", "stolen headers, 311 s old"])
def test_an_outsider_is_refused_at_every_endpoint_and_learns_nothing(port: Port, stranger: str) -> None:
    old = 311.0  # Flower takes a signature for 300 s, and clocks for 10 s apart
    headers = {"nobody": {}, "a key of its own": port.headers(None)}.get(stranger, port.headers("a", old))
    asked = _requests(port.nodes["a"], port.grid.run)
    assert set(asked) == set(ROUTES)
    for name, request in asked.items():
        reply = port.post(f"/v1/fleet/{name}", request.SerializeToString(), headers)
        assert (reply.status_code, reply.content) == (401, b""), name


def test_an_outsiders_body_is_not_read(port: Port) -> None:
    """Ten megabytes more than any request may have, refused before its end has come."""
    port.hub.limit = 1000
    reply = port.post("/v1/fleet/push-object", b"x" * (1 << 20), port.headers(None))
    assert reply.status_code == 401
    assert port.post("/v1/fleet/push-object", b"x" * (1 << 20), port.headers("a")).status_code == 413
    assert port.post("/v1/fleet/push-object", b"\xff" * 100, port.headers("a")).status_code == 400


def test_a_client_speaks_for_no_other_client(port: Port) -> None:
    """With its own valid key, in the name of the other node, at every endpoint."""
    for name, request in _requests(port.nodes["b"], port.grid.run).items():
        reply = port.post(f"/v1/fleet/{name}", request.SerializeToString(), port.headers("a"))
        assert (reply.status_code, reply.content) == (401, b""), name


def _ask(port: Port, client: str) -> Message:
    content = RecordDict({"ask": ConfigRecord({"client": client})})
    return Message(content, port.nodes[client], messages.TRAIN, ttl=60.0, group_id="0")


def test_a_client_cannot_take_anothers_message_nor_answer_it(port: Port) -> None:
    a, b = port.wire("a"), port.wire("b")
    a.activate()
    b.activate()
    message_id = adapter.post(port.hub.link, port.grid.run, _ask(port, "b"))
    mine = b.pull()
    assert mine is not None
    reply = Message(RecordDict({"reply": ConfigRecord({"client": "b"})}), reply_to=mine)
    with pytest.raises(RequestRefused, match="401"):
        a.push(reply, 0.0)
    forged = Message(RecordDict({"reply": ConfigRecord({"client": "b"})}), reply_to=mine)
    forged.metadata.__dict__["_src_node_id"] = port.nodes["a"]
    with pytest.raises(RequestRefused, match="nobody waits for this answer"):
        a.push(forged, 0.0)  # an answer of a's own, to a message that a never got
    assert adapter.begun_reply(port.hub.link, port.grid.run, message_id) is None


def test_whose_a_reply_is_does_not_hang_on_what_is_written_in_it(port: Port) -> None:
    """The head of a reply is checked at the door; its body says that it comes from b."""

    class TwoFaced(Wire):
        def _once(self, call: Any, request: Any) -> Any:
            for head in getattr(request, "messages_list", ()):
                head.metadata.src_node_id = port.nodes["a"]
            return super()._once(call, request)

    key = read_key(port.certs.private_key("a"))
    a = TwoFaced(port.link.address, port.certs.authority, key, {VERSION_HEADER: __version__})
    a.activate()
    message_id = adapter.post(port.hub.link, port.grid.run, _ask(port, "a"))
    message = a.pull()
    assert message is not None
    reply = Message(RecordDict({"reply": ConfigRecord({"client": "b"})}), reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = port.nodes["b"]
    a.push(reply, 0.0)
    head = adapter.begun_reply(port.hub.link, port.grid.run, message_id)
    assert head is not None
    whole = adapter.whole_reply(port.hub.link, port.grid.run, head, port.nodes["a"])
    assert whole is not None
    assert whole.metadata.src_node_id == port.nodes["a"]


def test_the_second_node_that_has_a_clients_key_is_refused_while_the_first_is_there(port: Port) -> None:
    first, twin, again = port.wire("a"), port.wire("a", "elsewhere"), port.wire("a")
    for _ in range(10):
        first.activate()
        with pytest.raises(RequestRefused, match="another node speaks for this client"):
            twin.activate()
        again.activate()  # from the state folder of the first, which has ended
        assert port.hub.online(port.nodes["a"])
        first.leave()
    twin.activate()


def test_a_client_of_another_version_is_told_and_named(port: Port) -> None:
    with pytest.raises(RequestRefused, match=r"version 9\.9\.9, the server"):
        port.wire("a", version="9.9.9").activate()
    assert "9.9.9" in port.grid.not_admitted["a"]


def test_another_authority_and_plain_text_get_no_answer(port: Port, tmp_path: Path) -> None:
    other = make_certs(tmp_path / "other", ["a"])
    for authority, scheme in ((other.authority, "https"), (port.certs.authority, "http")):
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{scheme}://{port.link.address}/v1/fleet/activate-node", verify=str(authority))


def test_a_server_whose_certificate_has_expired_is_refused(tmp_path: Path) -> None:
    here = Port(make_certs(tmp_path, ["a", "b"], days=0))
    with listening(here.hub, here.link) as here.link, pytest.raises(httpx.ConnectError, match="expired"):
        here.post("/v1/fleet/activate-node")


def test_a_client_refuses_a_run_of_another_app_and_says_so(port: Port, tmp_path: Path) -> None:
    """As when a server is Flower's own, and somebody submitted an app to it; nothing of the app is fetched."""
    fetched, said = [], []

    class Foreign(Wire):
        def get_run(self, run: int) -> Any:
            found = super().get_run(run)
            found.fab_id = "mallory/app"
            return found

        def get_fab(self, *given: object) -> None:
            fetched.append(given)

    key = read_key(port.certs.private_key("a"))
    wire = Foreign(port.link.address, port.certs.authority, key, {VERSION_HEADER: __version__})
    wire.activate()
    adapter.post(port.hub.link, port.grid.run, _ask(port, "a"))
    message = wire.pull()
    assert message is not None
    reply = Resident(ClientFile("a", str(tmp_path)), said.append).answer(message, wire)
    assert (reply.error.code, reply.error.reason) == (CLIENT_FAILED, "app")
    assert "refused app 'mallory/app'" in said[0]
    assert not fetched


def test_no_code_that_arrives_is_ever_loaded() -> None:
    """Nothing in the package can open a bundle: neither Flower's loaders nor Python's are named in it."""
    banned = {
        "get_fab",
        "load_app",
        "install_from_fab",
        "get_load_client_app_fn",
        "import_module",
        "exec",
        "run_path",
    }
    found = {}
    for path in sorted((PACKAGE / "flower").glob("*.py")):
        words = {
            node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
        }
        words |= {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        found[path.name] = words & banned
    assert "workplaces.py" in found
    assert {name: words for name, words in found.items() if words} == {}
    assert APP == "counterpoise/run"


def test_flowers_inside_is_known_to_three_modules_and_to_one_version() -> None:
    """When this fails, the pin has moved: read what changed in Flower, then mend these modules and this test."""
    outside = {"flwr.app", "flwr.clientapp"}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        inside = {name for name in named if name.split(".")[0] == "flwr"} - outside
        assert not inside or path.name in INSIDE, path
    assert importlib.metadata.version("flwr") == FLWR == "1.41.0"
    project = PACKAGE.parent / "pyproject.toml"
    assert not project.exists() or f'"flwr[simulation]=={FLWR}"' in project.read_text()


def test_flowers_handlers_take_what_they_are_given_here() -> None:
    """The names that this version of Flower gives its arguments and the fields of its messages."""
    link = adapter.link_factory().state()
    assert {"create_node", "create_run", "store_message_and_object_tree", "get_message_res"} <= set(dir(link))
    for name, route in ROUTES.items():
        assert isinstance(route, Route)
        fields = set(route.request.DESCRIPTOR.fields_by_name)
        assert fields & {"node", "node_id", "public_key"}, name
    assert hasattr(link, "task_token_store")


def test_no_other_user_reads_the_servers_or_a_clients_files(tmp_path: Path) -> None:
    """Keys, memory and what the server notes of its clients; nothing secret is on a command line."""
    config, out = experiment("scaffold", 400), tmp_path / "out"
    with deployed(tmp_path / "net") as net:
        net.start_server(config, out)
        wait_until(lambda: rounds_done(out) >= 2, 300)
        private = [out, JobFolder(out).path, *(net.path / name for name in net.names), net.certs.nodes]
        for folder in private:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
        for key in (net.certs.server_key, net.certs.authority_key, *net.certs.nodes.glob("*.key")):
            assert stat.S_IMODE(key.stat().st_mode) == 0o600, key
        secrets = [(net.path / name / "place").read_text() for name in net.names]
        for child in net.children():
            words = Path(f"/proc/{child.process.pid}/cmdline").read_text()
            assert not any(secret in words for secret in secrets)
        assert not list(out.rglob("*.db"))
        _as_another_user(net.port, [*private, JobFolder(out).run])


def _as_another_user(port: int, private: list[Path]) -> None:
    """What user nobody can do where it can be tried: neither read a file nor get past the door."""
    script = f"""
import pathlib, ssl, urllib.request, urllib.error
context = ssl._create_unverified_context()
for path in {["/v1/control/list-nodes", "/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/pull-messages"]!r}:
    try:
        urllib.request.urlopen(urllib.request.Request("https://127.0.0.1:{port}" + path, data=b"", method="POST"), context=context)
        raise SystemExit(path)
    except urllib.error.HTTPError as error:
        if error.code not in (401, 404) or error.read() not in (b"", b"Not Found"):
            raise SystemExit(path)
for path in {[str(path) for path in private]!r}:
    try:
        list(pathlib.Path(path).iterdir()) if pathlib.Path(path).is_dir() else pathlib.Path(path).read_bytes()
        raise SystemExit(path)
    except PermissionError:
        pass
"""
    user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
    if not user:
        script = script.split("for path in " + repr([str(path) for path in private]))[0]
    base = Path(sys.base_prefix) / "bin" / "python3"
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else str(base)
    done = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, cwd="/", check=False, **user
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr


def test_a_damaged_key_is_named(port: Port, tmp_path: Path) -> None:
    broken = tmp_path / "a.key"
    broken.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nnonsense\n")
    with pytest.raises(ConfigError, match=r"a\.key is damaged"):
        read_key(broken)


def test_what_clients_are_told_holds_no_secret_of_the_server(tmp_path: Path) -> None:
    track = {"uri": "https://user:canary-7f3a@example.org"}
    ready = prepare(experiment("fedavg", 2, track=track), tmp_path / "out", named_nodes=True)
    assert "canary-7f3a" not in str(ready.settings)
    assert str(tmp_path) not in str(ready.settings)


FOREIGN = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "foreign"
version = "1.0.0"
description = "x"
license = "MIT"
dependencies = []

[tool.flwr.app]
publisher = "mallory"

[tool.flwr.app.components]
serverapp = "foreign.server:app"
clientapp = "foreign.client:app"
""",
    "foreign/__init__.py": "",
    "foreign/server.py": "from flwr.serverapp import ServerApp\nopen({canary!r}, 'w').write('server')\napp = ServerApp()\n",
    "foreign/client.py": "from flwr.clientapp import ClientApp\nopen({canary!r}, 'w').write('client')\napp = ClientApp()\n",
}


def test_an_app_that_somebody_submits_runs_nowhere(port: Port, tmp_path: Path) -> None:
    """Flower's own command, with the authority's certificate, as it ran programs on earlier versions."""
    canary, home = tmp_path / "canary", tmp_path / "home"
    (tmp_path / "app" / "foreign").mkdir(parents=True)
    home.mkdir()
    for name, text in FOREIGN.items():
        (tmp_path / "app" / name).write_text(text.replace("{canary!r}", repr(str(canary))))
    trust = f'address = "{port.link.address}"\nroot-certificates = "{port.certs.authority}"\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "there"\n\n[superlink.there]\n{trust}')
    env = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    command = [str(Path(sys.executable).parent / "flwr"), "run", str(tmp_path / "app"), "there"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "404" in done.stdout + done.stderr or "Not Found" in done.stdout + done.stderr
    assert not canary.exists()
    assert len(port.hub.link.get_run_info()) == 1
