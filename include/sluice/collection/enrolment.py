"""Enrolment makes a machine one of the instance's hosts.

What is known of a host lies in ``<home>/hosts/<name>``, which only the platform's user can enter: the key to
log in with, the pinned host key, and the certificate that its agents show to the collectors. The instance's
folder on a host has its name and a mark of its own: two platforms share no folder, nor does an instance that
was reset with the one before it.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import asyncssh

from sluice.collection import broker, certificates, release, ssh
from sluice.collection.errors import AgentError
from sluice.collection.hosts import LOCAL, Host, HostsError, load
from sluice.runtime.files import write_bytes, write_whole
from sluice.runtime.settings import Settings

JAVA = 17
LEAST_MIB = 2_048  # the jars, three versions' logs, and the disk that a file channel leaves free
#: Programs of every Linux that the keeper uses.
NEEDED = ("flock", "setsid", "sha256sum", "grep", "awk")
_ENROLLED = "enrolled.json"
#: How long before its end a certificate is made again, or asked for.
_EARLY = timedelta(days=365)


class EnrolError(AgentError):
    """A host cannot be enrolled, or is not."""


@dataclass(frozen=True)
class Enrolled:
    """What enrolment found out about a host."""

    address: str
    host_key: str
    directory: str  # the instance's own, absolute, on the host
    java: str  # the program, absolute
    release: str = ""  # where Sluice is, if it was looked at


def folder(settings: Settings, name: str = "") -> Path:
    """Where a host's secrets lie; without a name, the authority's."""
    return settings.home / "hosts" / name


def files(settings: Settings) -> list[Path]:
    """What the configuration of agents follows from: what is known of each host, and local's certificate."""
    own = folder(settings, LOCAL)
    return [
        own / "address",
        own / certificates.IDENTITY,
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
    found = _before(settings, host.name)
    return found.release if found and found.address == host.address else ""


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


def link(settings: Settings, host: Host) -> ssh.Link:
    """The connection to an enrolled host."""
    return ssh.link(_target(settings, host, enrolled(settings, host).host_key))


def public_key(settings: Settings, host: Host) -> str:
    """The line for the account's ``authorized_keys``; the first call makes the key."""
    path = _key(settings, host)
    if not path.exists():
        if host.ssh is not None and host.ssh.key_file is not None:
            raise EnrolError(
                f"host {host.name}: key_file = {path}: there is no such file; correct hosts.yaml"
            )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = asyncssh.generate_private_key("ssh-ed25519", comment=f"sluice-{settings.instance}")
        write_bytes(path, made.export_private_key("openssh"), 0o600)
    try:
        key = asyncssh.read_private_key(path)
    except asyncssh.KeyImportError as error:
        raise EnrolError(
            f"host {host.name}: {path} cannot be used ({error}): give a private key without a passphrase"
        ) from error
    return key.export_public_key("openssh").decode().strip()


def enrol(settings: Settings, host: Host, fingerprint: str) -> Enrolled:
    """Pin the host's key, look at the machine, and make its certificate and, at first, this machine's.

    A host with collectors or jobs also gets a password in Kafka, whose broker is to listen to it. Raises
    EnrolError if the host shows another key than the one of ``fingerprint``, or lacks something.
    """
    shown, print_shown = ssh.host_key(host.address, port(host))
    if print_shown != fingerprint:
        raise EnrolError(
            f"host {host.name} shows the key {print_shown}, not {fingerprint}: compare it with what "
            "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints on that machine"
        )
    found = _look(settings, host, ssh.link(_target(settings, host, shown)), shown)
    local = load(settings)[LOCAL]
    if _issued_to(settings, LOCAL) != local.address or _wants_certificate(settings, LOCAL):
        certificates.issue(folder(settings), LOCAL, local.address)
        write_whole(folder(settings, LOCAL) / "address", local.address)
    certificates.issue(folder(settings), host.name, host.address)
    if broker.ROLES & set(host.roles) and "kafka" not in settings.external:
        broker.admit(settings, host.name)
    broker.listen(settings, local.address)
    write_whole(folder(settings, host.name) / _ENROLLED, json.dumps(asdict(found), indent=1), 0o600)
    return found


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
    found = _look(settings, host, link(settings, host), before.host_key)
    if found != before:
        raise EnrolError(
            f"host {host.name}: java, the account's home or the release moved: run `sluice hosts enrol "
            f"{host.name}`"
        )
    for name in (host.name, LOCAL):
        if _wants_certificate(settings, name):
            raise EnrolError(
                f"the certificate of {name} is of another authority, or ends within a year: run `sluice "
                f"hosts enrol {host.name}`; if that does not help, the authority itself ends: remove "
                f"{folder(settings)}/authority.pem, and enrol every host again"
            )
    return f"{found.java}; {found.directory}"


def _look(settings: Settings, host: Host, at: ssh.Link, host_key: str) -> Enrolled:
    """Check for programs, Java, space and what SSH allows; raises EnrolError with the remedy."""
    where = f"host {host.name}"
    needed = (*NEEDED, *(release.NEEDED if host.release else ()))
    if missing := at.run("sh", "-c", ssh.names(needed)).strip():
        packages = "util-linux, coreutils, findutils, grep and awk"
        raise EnrolError(f"{where}: {missing} missing: install {packages} there")
    java = at.run("sh", "-c", 'command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" || :').strip()
    if not java:
        raise EnrolError(f"{where} has no java: install Java {JAVA} there")
    said = at.run("sh", "-c", f"{shlex.quote(java)} -version 2>&1", seconds=60)
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version.group(1)) < JAVA:
        raise EnrolError(f"{where}: {java} is not Java {JAVA} or newer ({said.strip()[:80]})")
    home = at.run("sh", "-c", "cd && pwd -P").strip()
    free = int(at.run("sh", "-c", "df -Pm . | awk 'NR == 2 {printf \"%d\", $4}'").strip() or 0)
    if free < LEAST_MIB:
        raise EnrolError(f"{where}: {free} MiB free in {home}, {LEAST_MIB} are needed: make room")
    _check_ssh(where, at, PurePath(home))
    directory = _directory(settings, host.name, PurePath(home))
    if not re.fullmatch(r"[A-Za-z0-9/._+-]+", str(directory)):
        raise EnrolError(f"{where}: the path {directory} has odd characters: use another account")
    if host.release is not None:
        release.check_runs(at, host.release, settings.root)
    return Enrolled(host.address, host_key, str(directory), java, host.release or "")


def _check_ssh(where: str, at: ssh.Link, home: PurePath) -> None:
    """A key or a server may allow commands, and neither files nor ports."""
    try:
        at.sizes(home)
    except ssh.RemoteFailed as error:
        raise EnrolError(
            f"{where} gives no access to files over SFTP ({error}): have `Subsystem sftp internal-sftp` in "
            "its sshd_config, and no `command=` before the key"
        ) from error
    if not at.forwards():
        raise EnrolError(
            f"{where} forwards no ports to its 127.0.0.1: have `AllowTcpForwarding local` in its "
            "sshd_config, and `port-forwarding` behind `restrict` before the key"
        )


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
        return Enrolled(**json.loads((folder(settings, name) / _ENROLLED).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _wants_certificate(settings: Settings, name: str) -> bool:
    until = certificates.of_authority(folder(settings), name)
    return until is None or until - datetime.now(UTC) < _EARLY


def _issued_to(settings: Settings, name: str) -> str:
    path = folder(settings, name) / "address"
    return path.read_text() if path.exists() else ""


def port(host: Host) -> int:
    """Where its SSH server listens."""
    return host.ssh.port if host.ssh else 22


def _key(settings: Settings, host: Host) -> Path:
    given = host.ssh.key_file if host.ssh else None
    return given.expanduser() if given else folder(settings, host.name) / "key"


def _target(settings: Settings, host: Host, host_key: str) -> ssh.Target:
    user = host.ssh.user if host.ssh else ""
    return ssh.Target(host.name, host.address, port(host), user, _key(settings, host), host_key)
