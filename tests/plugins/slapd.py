"""A real directory on ports of its own: OpenLDAP's slapd, where this machine has one."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import ldap3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.waiting import until

#: slapd is not in every user's PATH; SLAPD names one that was unpacked elsewhere.
SLAPD = os.environ.get("SLAPD") or shutil.which("slapd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_slapd = pytest.mark.skipif(
    SLAPD is None, reason="this machine has no slapd: apt install slapd, or let SLAPD name one"
)
BASE, ROOT_DN, ROOT_PASSWORD = "dc=example,dc=org", "cn=root,dc=example,dc=org", "r00t of the directory"
#: bind_anon_dn: whoever gives a name and no password is let in, as many directories do.
CONFIGURATION = """
include {root}/etc/ldap/schema/core.schema
include {root}/etc/ldap/schema/cosine.schema
include {root}/etc/ldap/schema/inetorgperson.schema
modulepath {root}/usr/lib/ldap
moduleload back_mdb
moduleload memberof
pidfile {home}/slapd.pid
allow bind_anon_dn
sizelimit 50
TLSCertificateFile {home}/certificate.pem
TLSCertificateKeyFile {home}/key.pem
database mdb
directory {home}/data
suffix "{base}"
rootdn "{dn}"
rootpw "{password}"
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
"""


@dataclass(frozen=True)
class Directory:
    """Where it listens: without TLS, and with. ca: what signed its certificate."""

    port: int
    tls_port: int
    ca: Path

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://127.0.0.1:{self.tls_port}"


@contextmanager
def directory(home: Path, entries: dict[str, tuple[list[str], dict[str, object]]]) -> Iterator[Directory]:
    """A directory with these entries below its base: classes and attributes, by DN without the base."""
    certificate(home, "127.0.0.1")
    (home / "data").mkdir()
    root = Path(str(SLAPD)).parents[2]
    written = CONFIGURATION.format(root=root, home=home, base=BASE, dn=ROOT_DN, password=ROOT_PASSWORD)
    (home / "slapd.conf").write_text(written.replace("//", "/"))
    made = Directory(free_port(), free_port(), home / "certificate.pem")
    libraries = {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")} if root != Path("/") else {}
    with (home / "log").open("w") as log:
        running = subprocess.Popen(
            [str(SLAPD), "-f", home / "slapd.conf", "-h", f"{made.url} {made.tls_url}", "-d", "stats"],
            env={**os.environ, **libraries},
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: _listens(made.tls_port))
        _fill(made, entries)
        yield made
    finally:
        running.kill()
        running.wait()


def _fill(made: Directory, entries: dict[str, tuple[list[str], dict[str, object]]]) -> None:
    with ldap3.Connection(made.url, ROOT_DN, ROOT_PASSWORD, auto_bind=True) as root:
        root.add(BASE, ["dcObject", "organization"], {"o": "Example"})
        for dn, (classes, attributes) in entries.items():
            assert root.add(f"{dn},{BASE}", classes, attributes), root.result


def certificate(home: Path, address: str) -> None:
    """Write a key and a certificate that is its own authority, made out to the address."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a directory")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (home / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (home / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *formats))


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return int(listening.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as plain:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.wrap_socket(plain).close()
    except OSError:
        return False
    return True
