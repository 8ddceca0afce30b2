"""A real directory on ports of its own: OpenLDAP's slapd where this machine has one, else UnboundID's server.

slapd lets a name without a password in, as many directories do, and its overlay says of which groups a person
is a member. UnboundID's comes from Maven, and its entries say that themselves.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import ldap3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509.oid import NameOID
from filelock import FileLock

from sluice.runtime.jvm import LIB, java
from sluice_lab.ports import free_ports
from sluice_lab.waiting import until

#: slapd is not in every user's PATH; SLAPD names one that was unpacked elsewhere.
SLAPD = os.environ.get("SLAPD") or shutil.which("slapd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
BASE, ROOT_DN, ROOT_PASSWORD = "dc=example,dc=org", "cn=root,dc=example,dc=org", "r00t of the directory"
#: Classes and attributes, by DN without the base.
Entries = Mapping[str, tuple[Sequence[str], Mapping[str, object]]]
#: bind_anon_dn: whoever gives a name and no password is let in.
_SLAPD_CONF = """
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
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_UNBOUNDID = "com.unboundid:unboundid-ldapsdk:7.0.3"
_SHA256 = "7f1b9141f2c955d3a03b3f5da2c450bd616826e921a87fc19264a3f22b35e2fb"
_TOOL = "com.unboundid.ldap.listener.InMemoryDirectoryServerTool"
_SCHEMA = "com/unboundid/ldap/sdk/schema/standard-schema.ldif"
_MEMBER_OF = (
    "attributeTypes: ( 1.2.840.113556.1.2.102 NAME 'memberOf' EQUALITY distinguishedNameMatch "
    "SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )\n"
)
_STORE_PASSWORD = "changeit"


@dataclass(frozen=True)
class Directory:
    """Where it listens: without TLS, and with. ca: what signed its certificate.

    needs_passwords: it refuses a name without a password, as RFC 4513 (5.1.2) recommends.
    """

    port: int
    tls_port: int
    ca: Path
    needs_passwords: bool

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://127.0.0.1:{self.tls_port}"


@contextmanager
def directory(home: Path, entries: Entries) -> Iterator[Directory]:
    """A directory with these entries below its base."""
    certificate(home, "127.0.0.1")
    made = Directory(*free_ports(2), home / "certificate.pem", needs_passwords=SLAPD is None)
    with ExitStack() as stack, (home / "log").open("w") as log:
        for argv, environment in (_unboundid if SLAPD is None else _slapd)(home, made, entries):
            running = subprocess.Popen(argv, env={**os.environ, **environment}, stdout=log, stderr=log)
            stack.callback(running.wait)
            stack.callback(running.kill)
        until(lambda: _listens(made.port) and _listens(made.tls_port, tls=True))
        if SLAPD is not None:
            _fill(made, entries)
        yield made


def _slapd(home: Path, made: Directory, entries: Entries) -> Iterator[tuple[list[str], dict[str, str]]]:
    """One process, which gets its entries from `_fill`."""
    (home / "data").mkdir()
    root = Path(str(SLAPD)).parents[2]
    written = _SLAPD_CONF.format(root=root, home=home, base=BASE, dn=ROOT_DN, password=ROOT_PASSWORD)
    (home / "slapd.conf").write_text(written.replace("//", "/"))
    libraries = {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")} if root != Path("/") else {}
    listening = f"{made.url} {made.tls_url}"
    yield [str(SLAPD), "-f", str(home / "slapd.conf"), "-h", listening, "-d", "stats"], libraries


def _fill(made: Directory, entries: Entries) -> None:
    with ldap3.Connection(made.url, ROOT_DN, ROOT_PASSWORD, auto_bind=True) as root:
        root.add(BASE, ["dcObject", "organization"], {"o": "Example"})
        for dn, (classes, attributes) in entries.items():
            assert root.add(f"{dn},{BASE}", classes, attributes), root.result


def _unboundid(home: Path, made: Directory, entries: Entries) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Two processes with the same entries: one speaks LDAPS, the other StartTLS."""
    jar = _jar()
    with zipfile.ZipFile(jar) as packed:
        (home / "schema.ldif").write_text(packed.read(_SCHEMA).decode().rstrip() + "\n" + _MEMBER_OF)
    (home / "entries.ldif").write_text("\n".join(_ldif(entries)))
    options = ["--baseDN", BASE, "--ldifFile", "entries.ldif", "--useSchemaFile", "schema.ldif"]
    options += ["--additionalBindDN", ROOT_DN, "--additionalBindPassword", ROOT_PASSWORD]
    options += ["--sizeLimit", "50", "--authenticationRequiredOperationType", "search"]
    options += [
        "--keyStorePath",
        "key.p12",
        "--keyStoreType",
        "PKCS12",
        "--keyStorePassword",
        _STORE_PASSWORD,
    ]
    options = [str(home / each) if (home / each).is_file() else each for each in options]
    for port, way in ((made.port, "--useStartTLS"), (made.tls_port, "--useSSL")):
        begin = [java(), "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(jar), _TOOL]
        yield [*begin, "--port", str(port), way, *options], {}


def _ldif(entries: Entries) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for dn, (_, attributes) in entries.items():
        members = attributes.get("member", [])
        for member in members if isinstance(members, list) else []:
            groups.setdefault(member, []).append(f"{dn},{BASE}")
    yield f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: Example\n"
    for dn, (classes, attributes) in entries.items():
        name, value = ldap3.utils.dn.parse_dn(dn)[0][:2]
        own: dict[str, object] = {name: value.replace("\\", ""), **attributes}
        own["memberOf"] = groups.get(f"{dn},{BASE}", [])
        own["objectClass"] = [*classes, "extensibleObject"]  # which may have any attribute
        lines = [f"dn: {dn},{BASE}"]
        for attribute, given in own.items():
            lines += [f"{attribute}: {each}" for each in (given if isinstance(given, list) else [given])]
        yield "\n".join([*lines, ""])


def _jar() -> Path:
    """The server; the first call gets it from Maven."""
    place = LIB / "unboundid"
    jar = place / "{1}-{2}.jar".format(*_UNBOUNDID.split(":"))
    LIB.mkdir(parents=True, exist_ok=True)
    with FileLock(LIB / ".unboundid.lock", mode=0o600):
        if not jar.exists():
            maven = ["mvn", "-B", "-ntp", "-q", "-Dstyle.color=never", _COPY, f"-Dartifact={_UNBOUNDID}"]
            subprocess.run([*maven, f"-DoutputDirectory={place}"], stdin=subprocess.DEVNULL, check=True)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == _SHA256
    return jar


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
    secret = BestAvailableEncryption(_STORE_PASSWORD.encode())
    (home / "key.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"key", key, made, None, secret))


def _listens(port: int, tls: bool = False) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as plain:
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                context.wrap_socket(plain).close()
    except OSError:
        return False
    return True
