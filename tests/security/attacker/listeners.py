"""Every port of the instance's block, and every socket of its processes that the kernel shows."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .report import Outcome, Report
from .target import Target
from .wire import TIMEOUT_SECONDS, request

LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
CONNECT_SECONDS = 2.0
LISTENS, BOUND = "0A", "07"  # states of TCP and UDP sockets
PROBES = 40  # of listeners outside the block


def scan(target: Target, report: Report) -> None:
    """Connect to every port of the block."""
    first, size = target.block
    places = [(family, host, first + n) for family, host in LOOPBACKS for n in range(size + 1)]
    with ThreadPoolExecutor(16) as pool:
        opened = list(pool.map(lambda place: _opens(*place), places))
    for (family, host, port), is_open in zip(places, opened, strict=True):
        if is_open:
            report.add(target.name(port), f"connect to {host}", Outcome.ANSWERED, f"port {port} accepts")
            _take(target.name(port), family, (host, port), report)
    report.add("scan", f"{len(places)} ports", Outcome.UNREACHABLE, f"{opened.count(False)} are closed")


def kernel(target: Target, report: Report) -> None:
    """Go through the kernel's lists of sockets: those of the instance are all tried."""
    probed = 0
    for table, state in (("tcp", LISTENS), ("tcp6", LISTENS), ("udp", BOUND), ("udp6", BOUND)):
        for port in sorted(_ports(table, state, target.inodes)):
            door = target.name(port)
            report.add(door, f"/proc/net/{table}", Outcome.ANSWERED, f"port {port} listens")
            if table.startswith("tcp") and door.startswith("port") and probed < PROBES:
                probed += 1
                _probe(door, port, report)
    for name in _unix(target.inodes):
        _knock(name, report)


def _opens(family: int, host: str, port: int) -> bool:
    with socket.socket(family) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect((host, port))
        except OSError:
            return False
    return True


def _take(door: str, family: int, place: tuple[str, int], report: Report) -> None:
    """Listen at the same port too, to be told the passwords of those who come next."""
    for name, option in (("address", socket.SO_REUSEADDR), ("port", socket.SO_REUSEPORT)):
        with socket.socket(family) as thief:
            thief.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                thief.bind(place)
                thief.listen()
            except OSError as error:
                report.add(door, f"share its {name}", Outcome.REFUSED, error)
            else:
                report.add(door, f"share its {name}", Outcome.CHANGED, f"listened at {place}")


def _ports(table: str, state: str, inodes: frozenset[int]) -> set[int]:
    found = set()
    for row in _rows(Path("/proc/net") / table):
        if row[3] == state and int(row[9]) in inodes:
            found.add(int(row[1].rpartition(":")[2], 16))
    return found


def _rows(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text().splitlines()[1:]]
    except OSError:
        return []


def _probe(door: str, port: int, report: Report) -> None:
    """A port that no attack knows: does it talk HTTP?"""
    try:
        status, _, body = request(port, "GET", "/", seconds=TIMEOUT_SECONDS)
    except (OSError, http.client.HTTPException) as error:
        report.add(door, "GET /", Outcome.REFUSED, repr(error))
    else:
        outcome = Outcome.READ if status < 300 else Outcome.ANSWERED
        report.add(door, "GET /", outcome, f"{status} {body[:100]!r}")


def _unix(inodes: frozenset[int]) -> Iterator[str]:
    """The names of the instance's listening unix sockets; abstract ones begin with @."""
    for row in _rows(Path("/proc/net/unix")):
        if len(row) > 7 and int(row[6]) in inodes:
            yield row[7]


def _knock(name: str, report: Report) -> None:
    door = f"unix {name}"
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect("\0" + name[1:] if name.startswith("@") else name)
        except PermissionError as error:
            report.add("files", f"connect to {name}", Outcome.REFUSED, error)
        except OSError as error:
            report.add("files", f"connect to {name}", Outcome.UNREACHABLE, error)
        else:
            report.add(door, "connect", Outcome.ANSWERED)
