"""Certificates, keys, and where plain text is refused."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from counterpoise.errors import ConfigError
from counterpoise.flower.certs import LOOPBACK, CertFolder, make_certs
from counterpoise.flower.deployment import Endpoint, check_endpoint
from counterpoise.flower.front import listening
from counterpoise.flower.hub import Hub


def test_the_servers_certificate_is_the_authoritys_and_names_its_hosts(tmp_path: Path) -> None:
    folder = make_certs(tmp_path, ["a"], ["fl.example.org", "10.1.2.3"])
    authority = x509.load_pem_x509_certificate(folder.authority.read_bytes())
    server = x509.load_pem_x509_certificate(folder.server.read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "fl.example.org"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
        ipaddress.ip_address("10.1.2.3"),
    ]
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def has(host: str) -> bool:
    """Whether this machine has an address; some have no IPv6."""
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", filter(has, LOOPBACK))
def test_certificates_without_further_hosts_hold_on_loopback(host: str, tmp_path: Path) -> None:
    folder = make_certs(tmp_path, ["a"])
    trust = ssl.create_default_context(cafile=folder.authority)
    with listening(Hub(), Endpoint(host, 0, folder)) as there:
        plain = socket.create_connection((host, there.port))
        with plain, trust.wrap_socket(plain, server_hostname=host) as secure:
            assert secure.version() == "TLSv1.3"


def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    folder = make_certs(tmp_path, ["a", "b"])
    secrets = [folder.authority_key, folder.server_key, folder.private_key("a"), folder.private_key("b")]
    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}


def test_each_client_has_a_key_of_its_own(tmp_path: Path) -> None:
    folder = make_certs(tmp_path, ["a", "b"])
    private = load_ssh_private_key(folder.private_key("a").read_bytes(), None)
    publics = [load_ssh_public_key(folder.public_key(name).read_bytes()) for name in ("a", "b")]
    assert private.public_key() == publics[0]
    assert publics[0] != publics[1]


def test_clients_are_added_without_touching_what_is_there(tmp_path: Path) -> None:
    folder = make_certs(tmp_path, ["a"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    make_certs(tmp_path, ["a", "b"])
    assert {path: path.read_bytes() for path in before} == before
    assert folder.private_key("b").exists()
    with pytest.raises(ConfigError, match="holds a server certificate already"):
        make_certs(tmp_path, ["a"], ["other.example.org"])


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", ".hidden", "x" * 65])
def test_names_that_could_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="client name"):
        make_certs(tmp_path / "certs", [name])
    assert not (tmp_path / "certs").exists()


@pytest.mark.parametrize(
    ("host", "secure", "insecure", "allowed"),
    [
        ("127.0.0.1", False, True, True),
        ("::1", False, True, True),
        ("127.0.0.1", False, False, False),
        ("0.0.0.0", False, True, False),
        ("10.0.0.1", False, True, False),
        ("10.0.0.1", True, False, True),
        ("127.0.0.1", True, True, False),
    ],
)
def test_plain_text_is_allowed_on_loopback_and_by_an_explicit_flag_alone(
    host: str, secure: bool, insecure: bool, allowed: bool, tmp_path: Path
) -> None:
    link = Endpoint(host, 9092, CertFolder(tmp_path) if secure else None)
    if allowed:
        check_endpoint(link, insecure)
    else:
        with pytest.raises(ConfigError):
            check_endpoint(link, insecure)
