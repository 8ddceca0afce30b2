"""Lets the daemons behind a door see where each connection comes from.

The relaying process connects to them from a loopback address that stands for the source
(`connection_source.source_of`), so a daemon that goes by the client's address tells sources apart.
127.0.0.1 itself stays for the instance's own processes. The file SOURCES says which address stands for which
source.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import itertools
import json
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from sluice.runtime.files import write_whole
from sluice.runtime.settings import LOOPBACK, Settings
from sluice.stack.networking import network
from sluice.stack.networking.connection_source import source_of

SOURCES = "sources.json"
KEY = "sources.key"
#: Sources that are remembered; another one takes the place of the one that came longest ago.
MOST = 4096
#: 127.1.0.0 to 127.254.255.255: not the addresses that something else may use.
_FIRST, _COUNT = int(ipaddress.IPv4Address("127.1.0.0")), 254 << 16
INSIDE = "inside"


class Addresses:
    """The addresses of the sources of one instance; each has its own as long as it is remembered.

    A source gets the same address again after a restart, and no source can choose that of another: it is made
    with a key.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / SOURCES
        self._key = _key(folder / KEY)
        self._of: OrderedDict[str, str] = OrderedDict(
            (source, address) for address, source in _read(self._file).items()
        )

    def of(self, source: str) -> str:
        """The address that stands for the source."""
        if (known := self._of.get(source)) is not None:
            self._of.move_to_end(source)
            return known
        taken = set(self._of.values())
        made = next(address for address in self._candidates(source) if address not in taken)
        self._of[source] = made
        while len(self._of) > MOST:
            self._of.popitem(last=False)
        with contextlib.suppress(OSError):  # a full disk closes no door
            write_whole(self._file, json.dumps({address: each for each, address in self._of.items()}), 0o600)
        return made

    def _candidates(self, source: str) -> Iterator[str]:
        for number in itertools.count():
            digest = hmac.digest(self._key, f"{number} {source}".encode(), "sha256")
            yield str(ipaddress.IPv4Address(_FIRST + int.from_bytes(digest[:8], "big") % _COUNT))


def source_at(settings: Settings, client: tuple[str, int], port: int) -> str:
    """Where a connection to a daemon's port comes from, as the daemon sees its client.

    `uid:1000` is a user of this machine, `inside` the instance's own network, anything else an address.
    """
    if not settings.private:
        return source_of(client, port)
    if client[0] == LOOPBACK:
        return INSIDE
    return _read(network.folder(settings) / SOURCES).get(client[0], client[0])


def _read(file: Path) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError):  # there was no connection yet
        return {}


def _key(file: Path) -> bytes:
    if not file.exists():
        write_whole(file, secrets.token_hex(32), 0o600)
    return bytes.fromhex(file.read_text())
