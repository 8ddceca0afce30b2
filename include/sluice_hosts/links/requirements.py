"""What a machine must have to be a host, looked at over SSH."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePath

from sluice_hosts.errors import EnrolError
from sluice_hosts.links import ssh

JAVA = 17
LEAST_MIB = 2_048  # the jars, three versions' logs, and the disk that a file channel leaves free
#: Programs of every Linux that the keeper uses.
NEEDED = ("flock", "setsid", "sha256sum", "grep", "awk")


def look(at: ssh.SshLink, more: Iterable[str] = ()) -> tuple[PurePath, str]:
    """Check for programs, Java, space and what SSH allows; returns the account's home and the java.

    more: further programs that it needs. Raises EnrolError with the remedy, HostUnreachable, RemoteFailed.
    """
    where = f"host {at.target.name}"
    if missing := at.run("sh", "-c", ssh.names((*NEEDED, *more))).strip():
        packages = "util-linux, coreutils, findutils, grep and awk"
        raise EnrolError(f"{where}: {missing} missing: install {packages} there")
    java = at.run("sh", "-c", 'command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" || :').strip()
    if not java:
        raise EnrolError(f"{where} has no java: install Java {JAVA} there")
    said = at.run("sh", "-c", f"{shlex.quote(java)} -version 2>&1", seconds=60)
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version.group(1)) < JAVA:
        raise EnrolError(f"{where}: {java} is not Java {JAVA} or newer ({said.strip()[:80]})")
    home = PurePath(at.run("sh", "-c", "cd && pwd -P").strip())
    free = int(at.run("sh", "-c", "df -Pm . | awk 'NR == 2 {printf \"%d\", $4}'").strip() or 0)
    if free < LEAST_MIB:
        raise EnrolError(f"{where}: {free} MiB free in {home}, {LEAST_MIB} are needed: make room")
    _check_ssh(where, at, home)
    return home, java


def _check_ssh(where: str, at: ssh.SshLink, home: PurePath) -> None:
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
