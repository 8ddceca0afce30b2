"""A certificate of the instance's authority for each host.

Edges and collectors show each other these certificates (`sluice.flume.Tls`). The authority's key stays on
this machine, in ``<home>/hosts`` (`runtime.authority`). The password of the PKCS #12 files is a formality
that the format asks for: the files' mode protects them.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from sluice.collection.machine import IDENTITY, TRUST
from sluice.runtime import authority
from sluice.runtime.files import write_bytes
from sluice.transmission.listener import STORE_PASSWORD

PASSWORD = STORE_PASSWORD.encode()
#: The same for programs that want PEM: the host's certificate and key, and the authority's certificate.
CERTIFICATE, KEY, AUTHORITY = "host.crt", "host.key", "authority.crt"


def issue(folder: Path, name: str, address: str) -> None:
    """Make a key and a certificate for the host in ``folder/name``: `IDENTITY` and `TRUST`.

    The certificate is made out to ``address``. The authority is made with the first one.
    """
    made = authority.issue(folder, name, [address], [authority.CLIENT, authority.SERVER])
    own = folder / name
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = BestAvailableEncryption(PASSWORD)
    packed = pkcs12.serialize_key_and_certificates(
        name.encode(), made.key, made.certificate, [made.authority], secret
    )
    write_bytes(own / IDENTITY, packed, 0o600)
    trusted = [pkcs12.PKCS12Certificate(made.authority, b"authority")]
    write_bytes(own / TRUST, pkcs12.serialize_java_truststore(trusted, secret), 0o600)


def of_authority(folder: Path, name: str) -> datetime | None:
    """Until when the host's certificate is valid; None if the present authority did not sign it."""
    try:
        packed = pkcs12.load_pkcs12((folder / name / IDENTITY).read_bytes(), PASSWORD)
        present = x509.load_pem_x509_certificate((folder / authority.FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    if packed.cert is None or [each.certificate for each in packed.additional_certs] != [present]:
        return None
    return min(packed.cert.certificate.not_valid_after_utc, present.not_valid_after_utc)


def pem(folder: Path, name: str) -> tuple[bytes, bytes]:
    """The host's certificate, with the authority's, and its key. The host must have been issued one."""
    packed = pkcs12.load_pkcs12((folder / name / IDENTITY).read_bytes(), PASSWORD)
    if packed.cert is None or not isinstance(packed.key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{folder / name / IDENTITY} has no key and certificate")
    chain = [packed.cert.certificate, *(each.certificate for each in packed.additional_certs)]
    return b"".join(each.public_bytes(Encoding.PEM) for each in chain), authority.pem(packed.key)


def files(folder: Path, name: str) -> dict[str, bytes]:
    """`CERTIFICATE`, `KEY` and `AUTHORITY` of the host, by their names."""
    certificate, key = pem(folder, name)
    return {CERTIFICATE: certificate, KEY: key, AUTHORITY: authority.certificate(folder)}


def checksum(folder: Path) -> str:
    """Changes with what an agent shows and trusts; the folder is its host's."""
    paths = [folder / IDENTITY, folder / TRUST]
    data = b"".join(path.read_bytes() for path in paths if path.exists())
    return hashlib.sha256(data).hexdigest()[:16]
