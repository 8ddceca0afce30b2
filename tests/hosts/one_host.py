"""One emulated host of an instance in a temporary directory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncssh

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.trust import enrolment
from tests.hosts.openssh import SSHD, OpenSshHost

#: Linux's numbers (prctl.h, capability.h).
_CAPBSET_DROP, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2

CONNECTED = """\
- {name: local, address: 127.0.0.1}
- {name: h1, address: 127.0.1.1, connection: ssh_h1}
"""


@contextmanager
def emulated(settings: Settings, home: Path) -> Iterator[EmulatedHost]:
    """Host ``h1`` of the instance, switched on, which takes the instance's key; not yet enrolled.

    Its SSH server is OpenSSH's where this machine has one.
    """
    made = _machine(home)
    entry = (
        "- {name: local, address: 127.0.0.1}\n"
        f"- {{name: h1, address: 127.0.1.1, ssh: {{user: {user(made)}, port: %d}}}}\n"
    )
    write_whole(settings.home / hosts.FILE, entry % 1)
    made.authorize(enrolment.public_key(settings, hosts.load(settings)["h1"]))
    try:
        made.switch_on()
        write_whole(settings.home / hosts.FILE, entry % made.port)
        yield made
    finally:
        made.switch_off()


@contextmanager
def connected(settings: Settings, home: Path, *keys: str) -> Iterator[EmulatedHost]:
    """Host ``h1`` whose connection ``ssh_h1`` is to say how it is reached. It takes these private keys."""
    made = _machine(home)
    write_whole(settings.home / hosts.FILE, CONNECTED)
    made.authorize("".join(public(key) for key in keys))
    try:
        made.switch_on()
        yield made
    finally:
        made.switch_off()


@contextmanager
def with_jobs(settings: Settings, home: Path, faults: Path | None = None) -> Iterator[EmulatedHost]:
    """h1, enrolled, which may have jobs. faults: a folder of crash points for what runs there."""
    with emulated(settings, home) as made:
        path = settings.home / hosts.FILE
        path.write_text(path.read_text().replace("ssh:", f"roles: [jobs], release: {settings.root}, ssh:"))
        enrolment.enrol(settings, hosts.load(settings)["h1"], made.fingerprint())
        if faults is not None:
            made.program("sh", f'SLUICE_FAULTS={faults}; export SLUICE_FAULTS; exec /bin/sh "$@"')
        yield made


def private_key() -> str:
    """A new one."""
    return asyncssh.generate_private_key("ssh-ed25519").export_private_key("openssh").decode()


def public(private: str) -> str:
    """The line for a private key in ``authorized_keys``."""
    return asyncssh.import_private_key(private).export_public_key("openssh").decode()


def connection(machine: EmulatedHost, private: str, **more: Any) -> dict[str, Any]:
    """The fields of a connection to it, as in Airflow's JSON, with this key; more: further extras."""
    return {
        "conn_type": "ssh",
        "host": machine.address,
        "port": machine.port,
        "login": user(machine),
        "extra": {"private_key": private, **more},
    }


def user(machine: EmulatedHost) -> str:
    """The account to log in to."""
    return machine.user if isinstance(machine, OpenSshHost) else "me"


def _machine(home: Path) -> EmulatedHost:
    home.mkdir()
    return OpenSshHost(home, "127.0.1.1") if SSHD else EmulatedHost(home, "127.0.1.1")


def switch_on_without_roots_rights(machine: EmulatedHost) -> None:
    """Switch it on again so that permissions of files hold for its account, even if that is root."""
    machine.switch_off()

    def begin() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        for right in _DAC_OVERRIDE, _DAC_READ_SEARCH:
            # Of this thread, and so of the process that it starts. Who is not root lacks the rights anyway.
            libc.prctl(_CAPBSET_DROP, right, 0, 0, 0)
        machine.switch_on()

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
