"""A test bed of machines: containers on a bridge network, each with an SSH server and a Java runtime.

A machine can be cut off the network and joined again. Its processes go on meanwhile, and it keeps its
address.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.containers import base
from tests.containers.podman import BASE, podman

IMAGE = "localhost/sluice-host"
USER = "edge"
START_SECONDS = 120.0
CONNECT_SECONDS = 10
COMMAND_SECONDS = 120.0
POLL_SECONDS = 0.5
LISTENS = ":0016 [0-9A-F:]+ 0A "  # port 22, in /proc/net/tcp


class NotReached(RuntimeError):
    """The machine did not answer; ssh's own words are the message."""


@dataclass(frozen=True)
class Machine:
    """One machine: its name, by which the others reach it, its address and its card's on the bridge."""

    name: str
    address: str
    card: str


@dataclass(frozen=True)
class Bed:
    """The machines of one network.

    ``key`` is the file of the private key that lets `edge` in; ``known`` has the machines' own keys.
    """

    network: str
    key: Path
    known: Path
    machines: tuple[Machine, ...]

    def ssh(self, machine: Machine) -> list[str]:
        """The command that runs what follows it on the machine."""
        options = {
            "IdentityFile": str(self.key),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.known),
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_SECONDS),
        }
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", "-F", "none", *flags, f"{USER}@{machine.address}"]

    def run(self, machine: Machine, command: str) -> str:
        """Run a shell command there and return what it printed, its errors too. Raises NotReached."""
        done = subprocess.run(
            [*self.ssh(machine), f"{command} 2>&1"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        if done.returncode == 255:  # ssh's own
            raise NotReached(done.stderr.strip())
        return done.stdout

    def cut(self, machine: Machine) -> None:
        """Take the machine off the network, as if its cable were pulled."""
        podman("network", "disconnect", self.network, machine.name)

    def join(self, machine: Machine) -> None:
        """Bring the machine back to the network, at its old address and with its old card.

        With another card its neighbours would look for the old one for half a minute.
        """
        same = ("--ip", machine.address, "--mac-address", machine.card)
        podman("network", "connect", *same, self.network, machine.name)


@contextmanager
def bed(number: int) -> Iterator[Bed]:
    """Machines `host1` to `hostN` of a new network, reachable by SSH; all is deleted at the end."""
    _image()
    mark = secrets.token_hex(4)
    network = f"sluice-hosts-{mark}"
    names = [f"host{n}-{mark}" for n in range(1, number + 1)]
    podman("network", "create", network)
    try:
        with tempfile.TemporaryDirectory(prefix=network) as folder:
            key, known = Path(folder) / "key", Path(folder) / "known"
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
            machines = tuple(_machine(name, network, key) for name in names)
            known.write_text("".join(_own_key(machine) for machine in machines))
            yield Bed(network, key, known, machines)
    finally:
        podman("rm", "--force", "--ignore", "--time", "0", *names)
        podman("network", "rm", "--force", network)


def _image() -> None:
    """Build the machines' image; podman keeps what it built before."""
    base.ensure()
    options = ("-q", "--network=host", f"--build-arg=BASE={BASE}", "-t", IMAGE)
    podman("build", *options, str(Path(__file__).parent), seconds=1800)


def _machine(name: str, network: str, key: Path) -> Machine:
    podman("run", "-d", "--init", "--name", name, "--hostname", name, "--network", network, IMAGE)
    allowed = key.with_suffix(".pub").read_bytes()
    write = "umask 077; mkdir -p ~/.ssh; cat > ~/.ssh/authorized_keys"
    podman("exec", "-i", "--user", USER, name, "sh", "-c", write, given=allowed)
    found = json.loads(podman("inspect", name))[0]["NetworkSettings"]["Networks"][network]
    return Machine(name, found["IPAddress"], found["MacAddress"])


def _own_key(machine: Machine) -> str:
    """The machine's line of known_hosts, once its server listens; read inside, so nobody can come between."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        public = podman("exec", machine.name, "cat", "/etc/ssh/ssh_host_ed25519_key.pub", check=False)
        sockets = podman("exec", machine.name, "cat", "/proc/net/tcp", check=False)
        if public and re.search(LISTENS, sockets):
            return f"{machine.address} {' '.join(public.split()[:2])}\n"
        if time.monotonic() > deadline:
            raise NotReached(podman("logs", machine.name)[-2000:])
        time.sleep(POLL_SECONDS)
