"""The certificate that the doors show, in ``<home>/tls``: one of the instance's authority, or the user's own.

PostgreSQL's door has one of its own (`sluice.stack.database_tls`).

`prepare_tls` brings the files up to date: before a door's daemon starts, with `sluice up`, and once an hour
while Airflow's API server runs. The daemons take up new files without being started again.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    load_pem_private_key,
    pkcs12,
)
from filelock import FileLock

from sluice.runtime import authority
from sluice.runtime.files import write_bytes
from sluice.runtime.settings import TRUSTED, Settings
from sluice.transmission.listener import STORE_PASSWORD

FOLDER, AUTHORITY = Path(TRUSTED).parts
CERTIFICATE, KEY = "doors.crt", "doors.key"
#: The same for Java, and the authority as a store for Java's clients.
STORE, TRUST_STORE = "doors.p12", "authority.p12"
#: How long a certificate is valid (browsers take none for longer), and how early it is made again.
VALID, EARLY = timedelta(days=397), timedelta(days=30)
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2
_SECONDS = 3600.0
#: In PEM: the certificate with those up to its authority, its key, and the authority.
Files = tuple[bytes, bytes, bytes]


class BadCertificate(ValueError):
    """The doors cannot show the user's certificate."""


@dataclass(frozen=True)
class DoorCertificate:
    """What the doors show. fingerprint: of the authority, SHA-256; names: of the certificate."""

    fingerprint: str
    names: list[str]
    until: datetime


def folder(settings: Settings) -> Path:
    return settings.home / FOLDER


def doors(settings: Settings) -> dict[str, str]:
    """The doors that show this certificate, and the host at which the platform's own clients reach each."""
    reached = {"airflow": urlsplit(settings.airflow.url).hostname or "", "sql": settings.hive.host}
    return {door: reached[door] for door in reached if settings.speaks_tls(door)}


def prepare_tls(settings: Settings) -> None:
    """Write what the doors are to show, unless it is there. Raises BadCertificate."""
    reached = doors(settings)
    if not reached:
        return
    own = folder(settings)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(own / ".lock", mode=0o600):
        before = there(own / CERTIFICATE, own / KEY, own / AUTHORITY)
        if settings.tls.certificate:
            wanted = _given(settings)
        else:
            names = {*reached.values(), *settings.tls.names, *names_of_machine(settings)}
            wanted = issued(settings, before, names, VALID)
        for door, host in reached.items():
            _check(settings, door, host, wanted)
        if wanted == before:
            return
        chain, key, trusted = wanted
        first, *rest = x509.load_pem_x509_certificates(chain)
        secret = BestAvailableEncryption(STORE_PASSWORD.encode())
        loaded = load_pem_private_key(key, None)
        packed = pkcs12.serialize_key_and_certificates(b"doors", loaded, first, rest, secret)  # type: ignore[arg-type]
        trusts = [
            pkcs12.PKCS12Certificate(each, b"authority%d" % number)
            for number, each in enumerate(x509.load_pem_x509_certificates(trusted))
        ]
        written = {AUTHORITY: trusted, CERTIFICATE: chain, STORE: packed, KEY: key}
        written[TRUST_STORE] = pkcs12.serialize_java_truststore(trusts, secret)
        for name, data in written.items():
            write_bytes(own / name, data, 0o600)


def shown(settings: Settings) -> DoorCertificate:
    """What is in the files now. They must be there."""
    own = folder(settings)
    trusted = x509.load_pem_x509_certificate((own / AUTHORITY).read_bytes())
    first = x509.load_pem_x509_certificate((own / CERTIFICATE).read_bytes())
    return DoorCertificate(
        trusted.fingerprint(SHA256()).hex(":").upper(), _names(first), first.not_valid_after_utc
    )


class Context:
    """The side of a server in Python, which follows the files.

    settings: those of a door's own process.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._prepared = settings, time.monotonic()
        self._version = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def __call__(self) -> ssl.SSLContext:
        """The context for the next connection."""
        own = folder(self._settings)
        if time.monotonic() - self._prepared > _SECONDS:
            self._prepared = time.monotonic()
            with contextlib.suppress(BadCertificate, OSError):  # what is there stays; `sluice up` says why
                prepare_tls(self._settings)
        if (version := (own / KEY).stat().st_mtime_ns) != self._version:  # the last one that is written
            self._context = server_side(own / CERTIFICATE, own / KEY)
            self._version = version
        return self._context


def server_side(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 and 1.3 with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(certificate, key, password=_no_password)
    return context


def _no_password() -> str:
    raise BadCertificate("tls.key: the key asks for a password: give a key without one, of mode 0600")


def there(certificate: Path, key: Path, trusted: Path) -> Files | None:
    """What is in the files; None if one is missing."""
    try:
        return certificate.read_bytes(), key.read_bytes(), trusted.read_bytes()
    except FileNotFoundError:
        return None


def _given(settings: Settings) -> Files:
    """The user's certificate, key and authority. Raises BadCertificate."""

    def read(name: str) -> bytes:
        path = str(getattr(settings.tls, name))
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise BadCertificate(
                f"tls.{name}: {path}: {error.strerror}: let the platform's user read the file, or correct "
                "the path"
            ) from error

    def certificates(name: str) -> bytes:
        try:
            found = x509.load_pem_x509_certificates(read(name))
        except ValueError as error:
            path = getattr(settings.tls, name)
            raise BadCertificate(
                f"tls.{name}: {path} holds no certificate in PEM, or a faulty one ({error})"
            ) from error
        return _pem(found)

    return certificates("certificate"), read("key"), certificates("authority")


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def issued(settings: Settings, before: Files | None, wanted: Iterable[str], valid: timedelta) -> Files:
    """A certificate of the instance's authority: what was there before if it will do, else a new one.

    wanted: the names and addresses to which it is made out.
    """
    above, names = settings.home / "hosts", sorted(set(map(_canonical, wanted)))
    trusted = authority.certificate(above)
    if before is not None and before[2] == trusted:
        first = x509.load_pem_x509_certificate(before[0])
        ends = x509.load_pem_x509_certificate(trusted).not_valid_after_utc
        early = min(datetime.now(UTC) + EARLY, ends)
        if _names(first) == names and first.not_valid_after_utc >= early:
            return before
    made = authority.issue(above, f"sluice-{settings.instance}", names, [authority.SERVER], valid)
    return _pem((made.certificate, made.authority)), authority.pem(made.key), trusted


def names_of_machine(settings: Settings) -> Iterator[str]:
    """By what doors are reached: from this machine, and from others."""
    yield from ("localhost", "127.0.0.1", "::1", settings.bind_host)
    yield from (settings.host(daemon) for daemon in ("airflow-api", "sql", "postgres"))
    if (
        settings.private or settings.hosts
    ):  # nobody comes from elsewhere, or each daemon has addresses of its own
        return
    if settings.bind_host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared
        for addresses in psutil.net_if_addrs().values():
            for each in addresses:
                if each.family in (socket.AF_INET, socket.AF_INET6) and "%" not in each.address:
                    yield each.address
    name = socket.gethostname()
    if name and name.isascii():
        yield name


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _names(certificate: x509.Certificate) -> list[str]:
    """The addresses and names that a certificate is made out to."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    names = found.get_values_for_type(x509.DNSName)
    return sorted([*names, *map(str, found.get_values_for_type(x509.IPAddress))])


def _check(settings: Settings, door: str, host: str, wanted: Files) -> None:
    """Let a server with this certificate and a client meet. Raises BadCertificate with what they say."""
    chain, key, trusted = wanted
    own = folder(settings)
    for name, data in ((".try.crt", chain), (".try.key", key)):
        write_bytes(own / name, data, 0o600)
    try:
        server = server_side(own / ".try.crt", own / ".try.key")
        client = ssl.create_default_context(cadata=trusted.decode())
        _meet(server, client, host)
    except ssl.SSLCertVerificationError as error:
        raise BadCertificate(_why(settings, door, host, chain, error.verify_message)) from error
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if reason == "KEY_VALUES_MISMATCH":
            said = f"{settings.tls.key} is not the key of {settings.tls.certificate}: give the two together"
        else:
            said = f"{settings.tls.key} or {settings.tls.certificate} cannot be used ({reason})"
        raise BadCertificate(f"tls.key: {said}") from error
    finally:
        for name in (".try.crt", ".try.key"):
            (own / name).unlink(missing_ok=True)


def _why(settings: Settings, door: str, host: str, chain: bytes, said: str) -> str:
    """What to tell the person whose certificate a client refuses with these words of OpenSSL."""
    path = settings.tls.certificate
    first = x509.load_pem_x509_certificate(chain)
    if not path:
        return (
            f"the instance's authority {settings.home}/hosts/{authority.FILE} has ended, or cannot be used "
            f"({said}): remove it, run `sluice up`, and enrol every host again"
        )
    if "not valid for" in said:
        variable = {"airflow": "SLUICE_AIRFLOW__URL", "sql": "SLUICE_HIVE__HOST"}[door]
        names = ", ".join(_names(first)) or "nothing"
        return (
            f"tls.certificate: {path} is made out to {names}, and the platform reaches the door {door!r} at "
            f"{host!r}: set {variable} to an address with one of these names, which must lead to this machine"
        )
    if "expired" in said:
        return f"tls.certificate: {path} ended on {first.not_valid_after_utc:%Y-%m-%d}: get a new one"
    if "not yet valid" in said:
        return f"tls.certificate: {path} begins on {first.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: wait"
    return (
        f"tls.authority: {settings.tls.authority} did not sign {path}, or a certificate between them is "
        f"missing there ({said}): put it behind the first one, or give the right authority"
    )


def _meet(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A handshake in memory. Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname=host),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
        if not ends:
            return
    raise ssl.SSLError("the handshake does not end")
