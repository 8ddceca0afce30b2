"""One emulated host of an instance in a temporary directory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.collection import enrolment, hosts
from sluice.collection.emulated.host import EmulatedHost
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from tests.collection.openssh import SSHD, OpenSshHost

#: Linux's numbers (prctl.h, capability.h).
_CAPBSET_DROP, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2


@contextmanager
def emulated(settings: Settings, home: Path) -> Iterator[EmulatedHost]:
    """Host ``h1`` of the instance, switched on, which takes the instance's key; not yet enrolled.

    Its SSH server is OpenSSH's where this machine has one.
    """
    home.mkdir()
    made = OpenSshHost(home, "127.0.1.1") if SSHD else EmulatedHost(home, "127.0.1.1")
    user = made.user if isinstance(made, OpenSshHost) else "me"
    entry = (
        "- {name: local, address: 127.0.0.1}\n"
        f"- {{name: h1, address: 127.0.1.1, ssh: {{user: {user}, port: %d}}}}\n"
    )
    write_whole(settings.home / hosts.FILE, entry % 1)
    made.authorize(enrolment.public_key(settings, hosts.load(settings)["h1"]))
    try:
        made.switch_on()
        write_whole(settings.home / hosts.FILE, entry % made.port)
        yield made
    finally:
        made.switch_off()


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
