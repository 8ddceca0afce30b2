"""The instance's certificate authority: it signs for the hosts (`sluice.collection`) and the doors.

Its key stays on this machine, in ``authority.pem`` of mode 0600 in the folder that is given here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from sluice.runtime.files import write_bytes

FILE = "authority.pem"
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
DECADE = timedelta(days=3650)
#: What the authority's key is for. With it, and with identifiers of keys, certificates are as RFC 5280 (4.2)
#: wants them. Python insists on that from 3.13 on.
_ONLY_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Issued:
    """A certificate, its key, and the authority's certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate


def issue(
    folder: Path,
    name: str,
    addresses: Iterable[str],
    usages: Sequence[x509.ObjectIdentifier],
    valid: timedelta | None = None,
) -> Issued:
    """Make a key and a certificate, made out to these IP addresses and names.

    The authority is made with the first one, and no certificate outlives it. valid: by default a DECADE.
    """
    authority_key, authority = load(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(datetime.now(UTC) + (valid or DECADE), authority.not_valid_after_utc)
    certificate = (
        _builder(name, authority.subject, key.public_key(), until)
        .add_extension(x509.SubjectAlternativeName([_at(each) for each in addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_issuer(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Issued(key, certificate, authority)


def load(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """The authority's key and certificate; the first call makes them."""
    path = folder / FILE
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / f".{FILE}.lock", mode=0o600):  # daemons start at the same time
            if not path.exists():
                _make(path)
    pem = path.read_bytes()
    key = cast(ec.EllipticCurvePrivateKey, load_pem_private_key(pem, None))
    return key, x509.load_pem_x509_certificate(pem)


def certificate(folder: Path) -> bytes:
    """The authority's certificate, in PEM: it is no secret."""
    return load(folder)[1].public_bytes(Encoding.PEM)


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key in PEM, without a password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name("sluice")
    certificate = (
        _builder("sluice", subject, key.public_key(), datetime.now(UTC) + DECADE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_ONLY_SIGNS, critical=True)
        .sign(key, hashes.SHA256())
    )
    write_bytes(path, pem(key) + certificate.public_bytes(Encoding.PEM), 0o600)


def _at(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))  # a host's clock may be behind
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _issuer(key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
