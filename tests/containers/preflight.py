"""Names what this machine lacks for the tests of containers: ``python -m tests.containers.preflight``."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path

GIB = 1 << 30
DISK_BYTES = 20 * GIB
MEMORY_BYTES = 10 * GIB
#: Each program, and Debian's package with it.
PROGRAMS = {
    "podman": "podman",
    "runc": "runc",
    "catatonit": "catatonit",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
}
#: Where Debian's packages put the plugins of podman's networks.
PLUGINS = Path("/usr/lib/cni")
PLUGIN_PACKAGES = {
    "bridge": "containernetworking-plugins",
    "dnsname": "golang-github-containernetworking-plugin-dnsname",
}
#: The ports that docker-compose.yaml publishes.
PORTS = (21070, 21080)


def missing() -> list[str]:
    """One line for each thing that is missing, with the remedy."""
    problems = []
    if os.geteuid():
        problems.append("root: these tests make networks, chroots and containers: run them as root")
    packages = {package for program, package in PROGRAMS.items() if not _found(program)}
    packages |= {package for plugin, package in PLUGIN_PACKAGES.items() if not (PLUGINS / plugin).exists()}
    if packages:
        problems.append(f"packages: apt install {' '.join(sorted(packages))}")
    free = shutil.disk_usage("/var/lib").free
    if free < DISK_BYTES:
        problems.append(f"disk: {free / GIB:.1f} GiB are free below /var/lib, {DISK_BYTES // GIB} are needed")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < MEMORY_BYTES:
        problems.append(f"memory: the machine has {memory / GIB:.1f} GiB, {MEMORY_BYTES // GIB} are needed")
    problems += [
        f"port {port}: something listens there: stop it (`sluice down`, `podman-compose down`)"
        for port in PORTS
        if _listens(port)
    ]
    return problems


def _found(program: str) -> bool:
    """Whether the program is there; podman looks for catatonit at a place of its own."""
    return bool(shutil.which(program)) or Path("/usr/libexec/podman", program).exists()


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> int:
    problems = missing()
    for problem in problems:
        sys.stderr.write(f"missing: {problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
