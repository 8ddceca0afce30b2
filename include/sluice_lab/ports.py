"""Ports that daemons of one's own may have."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, closing

from sluice.runtime.settings import LOOPBACK, Settings

#: Above the instances' own, and below the ports that the kernel gives to clients at any moment.
_BASES = range(26_000, 32_000, 200)


def port_base() -> int:
    """A base whose ports nobody has now."""
    offsets = Settings().port_offsets.values()
    for base in random.sample(_BASES, len(_BASES)):  # others may look for one at the same time
        with ExitStack() as held:
            try:
                for offset in offsets:
                    held.enter_context(socket.create_server((LOOPBACK, base + offset)))
            except OSError:
                continue
        return base
    raise RuntimeError(f"no base of {_BASES} is free")


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """Distinct ports: each is held until all are found."""
    with ExitStack() as held:
        probes = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for probe in probes:
            probe.bind((address, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
