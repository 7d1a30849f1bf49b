"""Certificates and keys: an authority, the server's certificate, and a key pair per client."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from counterpoise.errors import ConfigError
from counterpoise.flower.job import check_name

DAYS = 365
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # for which every certificate holds


class CertFolder:
    """File names; the authority's key is needed only to sign more certificates."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.authority, self.authority_key = self.path / "ca.crt", self.path / "ca.key"
        self.server, self.server_key = self.path / "server.pem", self.path / "server.key"
        self.nodes = self.path / "clients"

    def private_key(self, client: str) -> Path:
        return self.nodes / f"{client}.key"

    def public_key(self, client: str) -> Path:
        return self.nodes / f"{client}.pub"

    def certificate(self, client: str) -> Path:
        """By which other clients know this one's signature."""
        return self.nodes / f"{client}.crt"


def make_certs(path: Path, clients: Sequence[str], hosts: Sequence[str] = (), days: int = DAYS) -> CertFolder:
    """All files of a deployment; existing ones are kept, so clients can be added later."""
    folder = CertFolder(path)
    for name in clients:
        check_name(name)
    folder.nodes.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not folder.authority.exists():
        _make_authority(folder, [*LOOPBACK, *hosts], days)
    elif hosts:
        raise ConfigError(
            f"{path} holds a server certificate already; give --host with a new folder, or clients alone"
        )
    for name in clients:
        if not folder.private_key(name).exists():
            _make_node_key(folder, name)
        if folder.authority_key.exists() and not folder.certificate(name).exists():
            _make_node_certificate(folder, name, days)
    return folder


def _make_authority(folder: CertFolder, hosts: Sequence[str], days: int) -> None:
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = _named("counterpoise authority")
    ours = (
        _certificate(authority, authority, authority_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)])
    servers = (
        _certificate(_named("counterpoise server"), authority, server_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    _write_secret(folder.authority_key, _private_pem(authority_key))
    _write_secret(folder.server_key, _private_pem(server_key))
    folder.server.write_bytes(servers.public_bytes(serialization.Encoding.PEM))
    folder.authority.write_bytes(ours.public_bytes(serialization.Encoding.PEM))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _make_node_key(folder: CertFolder, name: str) -> None:
    """In OpenSSH format, which Flower reads."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    _write_secret(folder.private_key(name), private)
    folder.public_key(name).write_bytes(public + b"\n")


def _make_node_certificate(folder: CertFolder, name: str, days: int) -> None:
    """The authority vouches for a client's key, so that clients can check what others sign."""
    authority = x509.load_pem_x509_certificate(folder.authority.read_bytes())
    signer = serialization.load_pem_private_key(folder.authority_key.read_bytes(), None)
    key = serialization.load_ssh_public_key(folder.public_key(name).read_bytes())
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConfigError(
            f"{folder.public_key(name)} or {folder.authority_key} is not a key that was made here"
        )
    ours = (
        _certificate(_named(name), authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA384())
    )
    folder.certificate(name).write_bytes(ours.public_bytes(serialization.Encoding.PEM))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
