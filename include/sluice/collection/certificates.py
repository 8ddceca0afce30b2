"""The instance's certificate authority: it signs a certificate for each host.

Edges and collectors show each other these certificates (`sluice.flume.Tls`). The authority's key stays on
this machine, in ``<home>/hosts/authority.pem`` of mode 0600. The password of the PKCS #12 files is a
formality that the format asks for: the files' mode protects them.
"""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sluice.collection.hosts import is_address
from sluice.runtime.files import write_bytes
from sluice.transmission.listener import STORE_PASSWORD

PASSWORD = STORE_PASSWORD.encode()
IDENTITY, TRUST = "identity.p12", "trust.p12"
#: The same for programs that want PEM: the host's certificate and key, and the authority's certificate.
CERTIFICATE, KEY, AUTHORITY = "host.crt", "host.key", "authority.crt"
_YEARS = timedelta(days=3650)
_AUTHORITY = "authority.pem"
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


def issue(folder: Path, name: str, address: str) -> None:
    """Make a key and a certificate for the host in ``folder/name``: `IDENTITY` and `TRUST`.

    The certificate is made out to ``address``. The authority is made with the first one.
    """
    authority_key, authority = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    at: x509.GeneralName = (
        x509.IPAddress(ipaddress.ip_address(address)) if is_address(address) else x509.DNSName(address)
    )
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    certificate = (
        _builder(name, authority.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([at]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_issuer(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    own = folder / name
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = BestAvailableEncryption(PASSWORD)
    packed = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [authority], secret)
    write_bytes(own / IDENTITY, packed, 0o600)
    trusted = [pkcs12.PKCS12Certificate(authority, b"authority")]
    write_bytes(own / TRUST, pkcs12.serialize_java_truststore(trusted, secret), 0o600)


def of_authority(folder: Path, name: str) -> datetime | None:
    """Until when the host's certificate is valid; None if the present authority did not sign it."""
    try:
        packed = pkcs12.load_pkcs12((folder / name / IDENTITY).read_bytes(), PASSWORD)
        authority = x509.load_pem_x509_certificate((folder / _AUTHORITY).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    if packed.cert is None or [each.certificate for each in packed.additional_certs] != [authority]:
        return None
    return min(packed.cert.certificate.not_valid_after_utc, authority.not_valid_after_utc)


def pem(folder: Path, name: str) -> tuple[bytes, bytes]:
    """The host's certificate, with the authority's, and its key. The host must have been issued one."""
    packed = pkcs12.load_pkcs12((folder / name / IDENTITY).read_bytes(), PASSWORD)
    if packed.cert is None or not isinstance(packed.key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{folder / name / IDENTITY} has no key and certificate")
    chain = [packed.cert.certificate, *(each.certificate for each in packed.additional_certs)]
    key = packed.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(each.public_bytes(Encoding.PEM) for each in chain), key


def authority(folder: Path) -> bytes:
    """The authority's certificate, in PEM: it is no secret."""
    return _authority(folder)[1].public_bytes(Encoding.PEM)


def files(folder: Path, name: str) -> dict[str, bytes]:
    """`CERTIFICATE`, `KEY` and `AUTHORITY` of the host, by their names."""
    certificate, key = pem(folder, name)
    return {CERTIFICATE: certificate, KEY: key, AUTHORITY: authority(folder)}


def checksum(folder: Path) -> str:
    """Changes with what an agent shows and trusts; the folder is its host's."""
    paths = [folder / IDENTITY, folder / TRUST]
    data = b"".join(path.read_bytes() for path in paths if path.exists())
    return hashlib.sha256(data).hexdigest()[:16]


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    path = folder / _AUTHORITY
    if path.exists():
        pem = path.read_bytes()
        key = cast(ec.EllipticCurvePrivateKey, load_pem_private_key(pem, None))
        return key, x509.load_pem_x509_certificate(pem)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name("sluice")
    certificate = (
        _builder("sluice", subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_ONLY_SIGNS, critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_bytes(path, pem + certificate.public_bytes(Encoding.PEM), 0o600)
    return key, certificate


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # a host's clock may be behind
        .not_valid_after(now + _YEARS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _issuer(key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
