"""Ports for an instance of a test's own."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from sluice.runtime.settings import LOOPBACK, Settings

#: Above the instances' own, and below the ports that the kernel gives to clients at any moment.
_BASES = range(26_000, 32_000, 200)


def port_base() -> int:
    """A base whose ports nobody has now."""
    offsets = Settings().port_offsets.values()
    for base in random.sample(_BASES, len(_BASES)):  # another test looks for one at the same time
        with ExitStack() as held:
            try:
                for offset in offsets:
                    held.enter_context(socket.create_server((LOOPBACK, base + offset)))
            except OSError:
                continue
        return base
    raise AssertionError(f"no base of {_BASES} is free")
