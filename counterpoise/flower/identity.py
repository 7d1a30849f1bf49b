"""A client's signature under its node key, with a certificate of the authority that other clients can check."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from counterpoise.flower.certs import CertFolder
from counterpoise.flower.wire import Key, read_key
from counterpoise.privacy.identity import Identity, Unsigned

LENGTH = 2  # bytes that give the length of a signature


@dataclass(frozen=True)
class CertIdentity:
    """What a client with a certificate signs; it believes only others who have one of the same authority."""

    authority: x509.Certificate
    own: x509.Certificate
    key: Key

    def sign(self, words: bytes) -> bytes:
        signature: bytes = self.key.sign(words, ec.ECDSA(hashes.SHA384()))
        return len(signature).to_bytes(LENGTH, "big") + signature + self.own.public_bytes(Encoding.DER)

    def verify(self, name: str, words: bytes, proof: bytes) -> bool:
        end = LENGTH + int.from_bytes(proof[:LENGTH], "big")
        try:
            certificate = x509.load_der_x509_certificate(proof[end:])
            certificate.verify_directly_issued_by(self.authority)
            key = certificate.public_key()
            if not _is_of(certificate, name) or not isinstance(key, ec.EllipticCurvePublicKey):
                return False
            key.verify(proof[LENGTH:end], words, ec.ECDSA(hashes.SHA384()))
        except (ValueError, TypeError, AttributeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        return True


def _is_of(certificate: x509.Certificate, name: str) -> bool:
    """Whether a certificate of our authority is valid today and of the client of this name."""
    now = datetime.datetime.now(datetime.UTC)
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    names = [one.value for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    valid = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    return valid and names == [name] and ExtendedKeyUsageOID.CLIENT_AUTH in uses


def identity_of(certs: str | None, name: str) -> Identity:
    """The identity of a client by its folder of certificates; without its own certificate it cannot sign nor check."""
    folder = None if certs is None else CertFolder(Path(certs))
    if folder is None or not folder.certificate(name).is_file():
        return Unsigned()
    authority, own = (
        x509.load_pem_x509_certificate(path.read_bytes())
        for path in (folder.authority, folder.certificate(name))
    )
    return CertIdentity(authority, own, read_key(folder.private_key(name)))
