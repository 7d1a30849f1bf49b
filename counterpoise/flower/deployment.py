"""A server's address and its certificates."""

from __future__ import annotations

from typing import NamedTuple

from counterpoise.errors import ConfigError
from counterpoise.flower.certs import LOOPBACK, CertFolder
from counterpoise.flower.job import check_name


class Endpoint(NamedTuple):
    """An address and its certificates; without certificates only on loopback."""

    host: str
    port: int
    certs: CertFolder | None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_endpoint(endpoint: Endpoint, insecure: bool) -> None:
    """Plain text is allowed only with --insecure on loopback."""
    if endpoint.certs is None and not insecure:
        raise ConfigError(
            "certificates are missing; give --certs with a folder of `counterpoise flower certs`, or --insecure on 127.0.0.1"
        )
    if insecure and (endpoint.certs is not None or endpoint.host not in LOOPBACK):
        raise ConfigError(f"--insecure needs host 127.0.0.1 and no --certs, not host {endpoint.host}")


def check_client_trust(endpoint: Endpoint, name: str) -> None:
    """Without these files a client would retry forever."""
    if endpoint.certs is None:
        return
    for path in (endpoint.certs.authority, endpoint.certs.private_key(check_name(name))):
        if not path.is_file():
            raise ConfigError(
                f"{path} is missing; give --certs with ca.crt and clients/{name}.key, which `counterpoise flower certs` made for client {name}"
            )


def server_trust(certs: CertFolder) -> dict[str, str]:
    """TLS options of the port."""
    for path in (certs.server, certs.server_key):
        if not path.is_file():
            raise ConfigError(
                f"{path} is missing; needs a folder that `counterpoise flower certs` made, with all its files"
            )
    return {"ssl_certfile": str(certs.server), "ssl_keyfile": str(certs.server_key)}
