"""Who a site is: a key that signs, and how others check it without asking the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from comt.errors import InputError, ProtocolError

_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), 32)


class Identity(Protocol):
    """A name and the key that goes with it."""

    @property
    def name(self) -> str:
        """The site's name in the federation."""

    @property
    def credential(self) -> bytes:
        """What others need in order to check a signature, a public key or a certificate."""

    def sign(self, statement: bytes) -> bytes:
        """Sign."""


class Directory(Protocol):
    """Knows whose signature is whose. Every site has its own copy; the coordinator has no say in it."""

    def check(self, name: str, credential: bytes, statement: bytes, signature: bytes) -> None:
        """Raise :class:`comt.errors.ProtocolError` unless the named site signed the statement."""


def _forged(name: str) -> ProtocolError:
    return ProtocolError(
        f"what claims to come from site {name} is not signed with that site's key, so somebody on the way has replaced it; "
        "nothing was sent: check the coordinator."
    )


class KeyIdentity:
    """An Ed25519 key of the site's own."""

    def __init__(self, name: str, key: Ed25519PrivateKey | None = None) -> None:
        self.name = name
        self._key = key or Ed25519PrivateKey.generate()
        self.credential = self._key.public_key().public_bytes_raw()

    def sign(self, statement: bytes) -> bytes:
        """Sign."""
        return self._key.sign(statement)


class KnownKeys:
    """Public keys that the site's owner has entered by name."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {name: Ed25519PublicKey.from_public_bytes(key) for name, key in keys.items()}

    def check(self, name: str, credential: bytes, statement: bytes, signature: bytes) -> None:
        """Check against the key entered under that name; what the message itself brings is not believed."""
        key = self._keys.get(name)
        if key is None or key.public_bytes_raw() != credential:
            raise _forged(name)
        try:
            key.verify(signature, statement)
        except InvalidSignature:
            raise _forged(name) from None


_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey


class CertificateIdentity:
    """The key and certificate of a start-up kit, as the transport itself uses them."""

    def __init__(self, certificate: bytes, key: bytes) -> None:
        found = serialization.load_pem_private_key(key, None)
        if not isinstance(found, _PrivateKey):
            raise InputError("the site's key is of a kind that does not sign; make a kit with RSA, EC or Ed25519 keys.")
        self._key = found
        self.credential = certificate
        self.name = _common_name(x509.load_pem_x509_certificate(certificate))

    @classmethod
    def load(cls, certificate: Path, key: Path) -> CertificateIdentity:
        """Read both files."""
        return cls(certificate.read_bytes(), key.read_bytes())

    def sign(self, statement: bytes) -> bytes:
        """Sign in the way of the key's kind."""
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(statement, _PSS, hashes.SHA256())
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            return self._key.sign(statement, ec.ECDSA(hashes.SHA256()))
        return self._key.sign(statement)


class Authority:
    """Believes certificates that the federation's root has issued, each for the name it carries."""

    def __init__(self, root: bytes) -> None:
        self._root = x509.load_pem_x509_certificate(root)

    def check(self, name: str, credential: bytes, statement: bytes, signature: bytes) -> None:
        """Check certificate, name, dates and signature."""
        try:
            certificate = x509.load_pem_x509_certificate(credential)
            certificate.verify_directly_issued_by(self._root)
            now = datetime.now(UTC)
            if _common_name(certificate) != name or certificate == self._root:
                raise _forged(name)
            if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
                raise ProtocolError(f"the certificate of site {name} is not valid today; have it renewed.")
            _verify(certificate, statement, signature)
        except (InvalidSignature, ValueError, TypeError):
            raise _forged(name) from None


def _verify(certificate: x509.Certificate, statement: bytes, signature: bytes) -> None:
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, statement, _PSS, hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature, statement, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, Ed25519PublicKey):
        key.verify(signature, statement)
    else:
        raise TypeError("unknown kind of key")


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""
