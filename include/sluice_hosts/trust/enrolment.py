"""Enrolment makes a machine one of the instance's hosts.

What is known of a host lies in ``<home>/hosts/<name>``, which only the platform's user can enter: the key to
log in with, the pinned host key, what the host's connection in Airflow said, and the certificate that its
agents show to the collectors. The instance's folder on a host has its name and a mark of its own: two
platforms share no folder, nor does an instance that was reset with the one before it.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import asyncssh

from sluice.collection.agent import LOCAL
from sluice.collection.machine import IDENTITY
from sluice.runtime.files import write_bytes, write_whole
from sluice.runtime.settings import Settings
from sluice_hosts.errors import EnrolError
from sluice_hosts.hosts import Host, HostsError, load
from sluice_hosts.links import release, requirements, ssh
from sluice_hosts.trust import broker, certificates, login
from sluice_hosts.trust.login import SshLogin

_ENROLLED = "enrolled.json"
#: How long before its end a certificate is made again, or asked for.
_EARLY = timedelta(days=365)


@dataclass(frozen=True)
class Enrolled:
    """What enrolment found out about a host."""

    address: str
    host_key: str
    directory: str  # the instance's own, absolute, on the host
    java: str  # the program, absolute
    release: str = ""  # where Sluice is, if it was looked at
    login: SshLogin | None = None  # what the connection in Airflow says; None if hosts.yaml says it


def folder(settings: Settings, name: str = "") -> Path:
    """Where a host's secrets lie; without a name, the authority's."""
    return settings.home / "hosts" / name


def files(settings: Settings) -> list[Path]:
    """What the configuration of agents follows from: what is known of each host, and local's certificate."""
    own = folder(settings, LOCAL)
    return [
        own / "address",
        own / IDENTITY,
        *sorted(folder(settings).glob(f"*/{_ENROLLED}")),
        *(broker.password_file(settings, name) for name in broker.admitted(settings)),
    ]


def enrolled(settings: Settings, host: Host) -> Enrolled:
    """What is known of the host. Raises EnrolError if it was not enrolled at this address."""
    again = f"run `sluice hosts enrol {host.name}`"
    found = _before(settings, host.name)
    if found is None:
        raise EnrolError(f"host {host.name} is not enrolled: {again}")
    if found.address != host.address:
        raise EnrolError(f"host {host.name} was enrolled at {found.address}, not {host.address}: {again}")
    before = found.login.connection if found.login else None
    if before != host.connection:
        then, now = (f"connection: {each}" if each else "ssh:" for each in (before, host.connection))
        raise EnrolError(f"host {host.name} was enrolled with `{then}`, and has `{now}` now: {again}")
    return found


def state(settings: Settings, host: Host) -> str:
    """`yes`, or why it is not enrolled."""
    try:
        enrolled(settings, host)
    except EnrolError as error:
        return str(error)
    return "yes"


def release_of(settings: Settings, host: Host) -> str:
    """Where Sluice was found when the host was enrolled; empty if it was not, or is not enrolled now."""
    try:
        return enrolled(settings, host).release
    except EnrolError:
        return ""


def known(settings: Settings, name: str) -> Host:
    """The host of that name. Raises EnrolError if there is none, or it is this machine."""
    try:
        hosts = load(settings)
    except HostsError as error:
        raise EnrolError(str(error)) from error
    if name not in hosts or name == LOCAL:
        others = ", ".join(sorted(hosts.keys() - {LOCAL})) or "none"
        raise EnrolError(f"{name!r} is no host that is reached over SSH; hosts.yaml has {others}")
    return hosts[name]


def access(settings: Settings, host: Host) -> SshLogin:
    """How the host is reached. Raises EnrolError if its connection says it, and it is not enrolled."""
    if host.ssh is not None:
        return login.of_file(host, host.ssh)
    recorded = enrolled(settings, host).login
    if recorded is None:
        raise EnrolError(f"host {host.name}: hosts.yaml has neither ssh nor connection; add one of them")
    return recorded


def link(settings: Settings, host: Host) -> ssh.SshLink:
    """The connection to an enrolled host."""
    found = enrolled(settings, host)
    return ssh.link(_target(settings, host, found.login or access(settings, host), found.host_key))


def public_key(settings: Settings, host: Host, given: SshLogin | None = None) -> str:
    """The line for the account's ``authorized_keys``; the first call makes the key.

    given: what the host's connection says now; by default what it said when the host was enrolled.
    """
    how = given or access(settings, host)
    path = _key(settings, host, how)
    if not how.private_key and not path.exists():
        if how.key_file:
            raise EnrolError(
                f"host {host.name}: key_file = {path}: there is no such file; correct {how.said_by}"
            )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = asyncssh.generate_private_key("ssh-ed25519", comment=f"sluice-{settings.instance}")
        write_bytes(path, made.export_private_key("openssh"), 0o600)
    try:
        private = how.private_key
        key = asyncssh.import_private_key(private) if private else asyncssh.read_private_key(path)
    except asyncssh.KeyImportError as error:
        raise EnrolError(
            f"host {host.name}: {path} cannot be used ({error}): give a private key without a passphrase"
        ) from error
    except OSError as error:
        raise EnrolError(
            f"host {host.name}: {path}: {error.strerror}; let the platform's user read the file, or correct "
            f"{how.said_by}"
        ) from error
    return key.export_public_key("openssh").decode().strip()


def shown_key(host: Host, how: SshLogin) -> tuple[str, str]:
    """The key that the host shows, and its fingerprint. Raises EnrolError if the connection names another."""
    wanted = how.host_key
    shown, fingerprint = ssh.host_key(how.address, how.port, login.algorithms(wanted) if wanted else ())
    if wanted and shown != wanted:
        raise EnrolError(
            f"host {host.name} shows the key {shown}, and {how.said_by} says extra.host_key = {wanted}: find "
            "out which one is the machine's own; if it is the first, correct the connection"
        )
    return shown, fingerprint


def enrol(settings: Settings, host: Host, fingerprint: str, given: SshLogin | None = None) -> Enrolled:
    """Pin the host's key, look at the machine, and make its certificate and, at first, this machine's.

    A host with collectors or jobs also gets a password in Kafka, whose broker is to listen to it. given: as
    for `public_key`. Raises EnrolError if the host shows another key than the one of ``fingerprint``, or
    lacks something.
    """
    how = given or access(settings, host)
    shown, print_shown = shown_key(host, how)
    if print_shown != fingerprint:
        raise EnrolError(
            f"host {host.name} shows the key {print_shown}, not {fingerprint}: compare it with what "
            "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints on that machine"
        )
    found = _look(settings, host, how, shown)
    local = load(settings)[LOCAL]
    if _issued_to(settings, LOCAL) != local.address or _wants_certificate(settings, LOCAL):
        certificates.issue(folder(settings), LOCAL, local.address)
        write_whole(folder(settings, LOCAL) / "address", local.address)
    certificates.issue(folder(settings), host.name, host.address)
    if broker.ROLES & set(host.roles) and "kafka" not in settings.external:
        broker.admit(settings, host.name)
    broker.listen(settings, local.address)
    _record(settings, host, found)
    return found


def take_up(settings: Settings, host: Host, given: SshLogin) -> bool:
    """Use what the host's connection says now; returns whether that is something else than before.

    It is used only if it leads to the same account of the same machine, which shows the pinned key. Otherwise
    all stays as it was, and EnrolError, RemoteFailed or HostUnreachable says why.
    """
    before = enrolled(settings, host)
    if given == before.login:
        return False
    if given.host_key and given.host_key != before.host_key:
        raise EnrolError(
            f"host {host.name}: {given.said_by} says extra.host_key = {given.host_key}, and "
            f"{before.host_key} is pinned: correct the connection, or run `sluice hosts enrol {host.name}`"
        )
    public_key(settings, host, given)  # whether it can be used
    found = _look(settings, host, given, before.host_key)
    if replace(found, login=before.login) != before:
        raise _moved(host)
    _record(settings, host, found)
    return True


def local_problem(settings: Settings, local: Host) -> str:
    """Why the collectors cannot show a certificate for this machine's address; empty if they can."""
    issued = _issued_to(settings, LOCAL)
    if issued != local.address:
        return f"local's certificate is made out to {issued or 'no address'}: enrol any host again"
    if certificates.of_authority(folder(settings), LOCAL) is None:
        return "local's certificate is not of the present authority: enrol any host again"
    return ""


def check(settings: Settings, host: Host) -> str:
    """Look at an enrolled host again; returns what is there. Raises EnrolError, HostUnreachable."""
    before = enrolled(settings, host)
    found = _look(settings, host, access(settings, host), before.host_key)
    if found != before:
        raise _moved(host)
    for name in (host.name, LOCAL):
        if _wants_certificate(settings, name):
            raise EnrolError(
                f"the certificate of {name} is of another authority, or ends within a year: run `sluice "
                f"hosts enrol {host.name}`; if that does not help, the authority itself ends: remove "
                f"{folder(settings)}/authority.pem, and enrol every host again"
            )
    return f"{found.java}; {found.directory}"


def _moved(host: Host) -> EnrolError:
    return EnrolError(
        f"host {host.name}: java, the account's home or the release moved: run `sluice hosts enrol "
        f"{host.name}`"
    )


def _record(settings: Settings, host: Host, found: Enrolled) -> None:
    write_whole(folder(settings, host.name) / _ENROLLED, json.dumps(asdict(found), indent=1), 0o600)


def _look(settings: Settings, host: Host, how: SshLogin, host_key: str) -> Enrolled:
    """Check for all that a host needs; raises EnrolError with the remedy."""
    at = ssh.link(_target(settings, host, how, host_key))
    home, java = requirements.look(at, release.NEEDED if host.release else ())
    directory = _directory(settings, host.name, home)
    if not re.fullmatch(r"[A-Za-z0-9/._+-]+", str(directory)):
        raise EnrolError(f"host {host.name}: the path {directory} has odd characters: use another account")
    if host.release is not None:
        release.check_runs(at, host.release, settings.root)
    said = how if host.connection else None
    return Enrolled(host.address, host_key, str(directory), java, host.release or "", said)


def _directory(settings: Settings, name: str, home: PurePath) -> PurePath:
    """The instance's folder on the host.

    It stays when the host is enrolled again, because it has how far the files were read.
    """
    above, before = home / ".sluice", _before(settings, name)
    if before is not None:
        return above / PurePath(before.directory).name
    return above / f"{settings.instance}-{_mark(settings)}"


def _mark(settings: Settings) -> str:
    """This instance's own from its first enrolment on; `sluice reset` ends it."""
    path = folder(settings) / "mark"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, secrets.token_hex(4), 0o600)
    return path.read_text()


def _before(settings: Settings, name: str) -> Enrolled | None:
    """What the last enrolment found out; None without one, or if it cannot be read."""
    try:
        known = dict(json.loads((folder(settings, name) / _ENROLLED).read_text()))
        said = known.pop("login", None)
        return Enrolled(**known, login=SshLogin(**said) if said else None)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _wants_certificate(settings: Settings, name: str) -> bool:
    until = certificates.of_authority(folder(settings), name)
    return until is None or until - datetime.now(UTC) < _EARLY


def _issued_to(settings: Settings, name: str) -> str:
    path = folder(settings, name) / "address"
    return path.read_text() if path.exists() else ""


def _key(settings: Settings, host: Host, how: SshLogin) -> Path:
    return Path(how.key_file) if how.key_file else folder(settings, host.name) / "key"


def _target(settings: Settings, host: Host, how: SshLogin, host_key: str) -> ssh.Target:
    key = _key(settings, host, how)
    return ssh.Target(host.name, how.address, how.port, how.user, key, host_key, how.private_key)
