"""Flower's superlink, supernodes and runs, started with the options that this project stands by."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from counterpoise.engines.flower.certs import CertFolder
from counterpoise.engines.flower.job import JOB, NODE_FILE, STATE, Job, JobFolder, check_name
from counterpoise.engines.flower.processes import (
    Child,
    call,
    check_port,
    end_process,
    environment,
    free_port,
    process_alive,
    start,
    wait_for_port,
)
from counterpoise.errors import ConfigError, CounterpoiseError, DataError, RunError

CONNECTION = "deployment"
APP_START = 180.0  # seconds until the server app must have begun
POLL = 0.5
LEAVE = 20.0  # seconds for the server app to end after its last word
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ERRORS: Mapping[int, type[CounterpoiseError]] = {2: ConfigError, 3: DataError}


class Link(NamedTuple):
    """Where the superlink is, and how it is trusted; without certificates only on loopback."""

    host: str
    port: int
    certs: CertFolder | None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def check_link(link: Link, insecure: bool) -> None:
    """Plain text only where it is asked for and cannot leave the machine."""
    if link.certs is None and not insecure:
        raise ConfigError(
            "certificates are missing; legal: --certs with a folder of `counterpoise flower certs`, or --insecure on 127.0.0.1"
        )
    if insecure and (link.certs is not None or link.host not in LOOPBACK):
        raise ConfigError(
            f"--insecure is not legal with host {link.host} or with certificates; legal: 127.0.0.1 and no --certs"
        )


def check_client_trust(link: Link, name: str) -> None:
    """A node without these would only say so in its log, and be started again and again."""
    if link.certs is None:
        return
    for path in (link.certs.authority, link.certs.private_key(check_name(name))):
        if not path.is_file():
            raise ConfigError(
                f"{path} is missing; legal: --certs with ca.crt and clients/{name}.key, which `counterpoise flower certs` made for client {name}"
            )


def start_superlink(folder: JobFolder, link: Link, simulation: bool = False) -> Child:
    """The superlink, listening; it starts the server app, which finds its job by the environment."""
    check_port(link.host, link.port)
    trust = ["--insecure"] if link.certs is None else _server_trust(link.certs)
    command = ["flower-superlink", *trust, "--host", link.host, "--port", str(link.port)]
    command += ["--disable-runtime-dependency-installation"]
    command += ["--simulation"] if simulation else ["--database", str(folder.database)]
    env = environment(folder.home, {JOB: str(folder.job), STATE: str(folder.clients)})
    child = start("the superlink", command, folder.logs / "superlink.log", env)
    wait_for_port(child, "127.0.0.1" if link.host == "0.0.0.0" else link.host, link.port)
    _write_connection(folder.home, link)
    return child


def _server_trust(certs: CertFolder) -> list[str]:
    files = {
        "--ssl-ca-certfile": certs.authority,
        "--ssl-certfile": certs.server,
        "--ssl-keyfile": certs.server_key,
    }
    for path in files.values():
        if not path.exists():
            raise ConfigError(
                f"{path} is missing; legal: a folder that `counterpoise flower certs` made, whole"
            )
    return [word for option, path in files.items() for word in (option, str(path))] + [
        "--enable-supernode-auth"
    ]


def _write_connection(home: Path, link: Link) -> None:
    host = "127.0.0.1" if link.host == "0.0.0.0" else link.host
    trust = (
        "insecure = true"
        if link.certs is None
        else f"root-certificates = {json.dumps(str(link.certs.authority))}"
    )
    text = f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{host}:{link.port}"\n{trust}\n'
    (home / "config.toml").write_text(text)


def register(folder: JobFolder, certs: CertFolder, name: str) -> None:
    """Let the node that holds this client's key come, under this name alone."""
    if not certs.public_key(name).exists():
        raise ConfigError(
            f"{certs.public_key(name)} is missing; legal: `counterpoise flower certs` with client {name}"
        )
    command = ["flwr", "supernode", "register", str(certs.public_key(name)), CONNECTION, "--name", name]
    try:
        call(command, environment(folder.home))
    except RunError as error:
        if "already" not in str(error):
            raise


def start_supernode(
    name: str, link: Link, client_file: Path, home: Path, log: Path, key: Path | None = None
) -> Child:
    """A client's node; `key` is its private key, by default the one in the certificates' folder."""
    trust = ["--insecure"]
    if link.certs is not None:
        private = key or link.certs.private_key(name)
        trust = ["--root-certificates", str(link.certs.authority)]
        trust += ["--auth-supernode-private-key", str(private)]
    config = f"{NODE_FILE}={json.dumps(str(client_file))}"
    command = ["flower-supernode", *trust, "--superlink", link.address, "--port", str(free_port())]
    home.mkdir(parents=True, exist_ok=True)
    return start(f"client {name}", [*command, "--node-config", config], log, environment(home))


def submit(folder: JobFolder, federation: Sequence[str] = ()) -> None:
    """Hand the app to the superlink."""
    command = ["flwr", "run", str(folder.app), CONNECTION]
    call([*command, *(["--federation-config", " ".join(federation)] if federation else [])],
         environment(folder.home))  # fmt: skip


def await_end(folder: JobFolder, job: Job, superlink: Child, tick: Callable[[], None] = lambda: None) -> None:
    """Wait for the server app's last word; an end without one is a run that can be resumed."""
    begun, outcome = time.monotonic(), folder.outcome(job)
    while not outcome.exists():
        tick()
        if not superlink.alive():
            raise RunError("the superlink ended")
        if folder.process.exists():
            gone = not process_alive(int(folder.process.read_text()))
            if gone and not outcome.exists():
                raise RunError("the server app ended")
        elif time.monotonic() - begun > APP_START:
            raise RunError(f"the server app did not start; the superlink's log: {superlink.log}")
        time.sleep(POLL)
    tick()
    _await_exit(folder)
    said = json.loads(outcome.read_text())
    if said["exit_code"]:
        raise ERRORS.get(said["exit_code"], RunError)(said["error"])


def _await_exit(folder: JobFolder) -> None:
    """Let the server app take its leave of Flower before anything is taken down."""
    deadline = time.monotonic() + LEAVE
    while process_alive(int(folder.process.read_text())) and time.monotonic() < deadline:
        time.sleep(POLL)


def end_server_app(folder: JobFolder) -> None:
    """End a server app that outlived its superlink; it would go on writing."""
    if folder.process.exists():
        end_process(int(folder.process.read_text()), b"serverapp")
