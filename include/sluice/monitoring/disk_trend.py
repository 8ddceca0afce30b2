"""When each disk is full, by its trend; and what is held because one nearly is.

The trend is the middle of the slopes between all pairs of points (Theil and Sen): what comes and goes, such
as a compaction or a backup, does not bend it. Points are the samples of the last 24 hours, which the database
keeps, and those that came since. Two spans are looked at: all of it, for what fills within days, and the last
hour, for what fills within hours.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations

import sqlalchemy as sa

from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack import disks
from sluice.stack.disk_guard import REMEDY
from sluice.stack.disks import GIB, Disk
from sluice.storage.tables import alerts, samples

#: The source of the alerts.
SOURCE = "disks"
FREE = "sluice_disk_free_bytes"
HOUR, DAY = 3_600.0, 86_400.0
#: (the span, what of it there must be at least, and full within that it is told), in seconds.
SPANS = ((DAY, HOUR, 7 * DAY), (HOUR, HOUR / 4, 6 * HOUR))
#: Points of a span that are compared, each with each other.
POINTS = 48

#: Seconds since the epoch, and bytes that are free then.
Point = tuple[float, float]


class DiskTrends:
    """The points of each disk, a minute apart."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._points: dict[str, deque[Point]] | None = None

    def tell(self, database: sa.Engine, now: datetime) -> None:
        """Take the disks as they are now, and raise the alerts, or clear them."""
        if self._points is None:
            self._points = read(database, now)
        found = disks.look(self._settings)
        for disk in found:
            points = self._points.setdefault(disk.name, deque(maxlen=int(DAY / 60)))
            points.append((now.timestamp(), float(disk.free)))
        told = dict(filling(found, self._points)) | dict(held(self._settings))
        alerts.sync(database, SOURCE, told)


def read(database: sa.Engine, now: datetime) -> dict[str, deque[Point]]:
    """What the samples say of each disk, by its name."""
    found: dict[str, deque[Point]] = {}
    for at, values in samples.since(database, now - samples.KEPT, FREE):
        for labels, free in values:
            points = found.setdefault(labels["disk"], deque(maxlen=int(DAY / 60)))
            points.append(((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), float(free)))
    return found


def held(settings: Settings) -> Iterator[tuple[str, str]]:
    """An alert's name and message for each hold."""
    for what in Hold:
        if why := holds.reason(settings.home, what):
            yield f"held: {what}", f"{CONSEQUENCE[what]}: {why}"


CONSEQUENCE = {
    Hold.INTAKE: "no lines are taken from the front-ends, where they wait in the files",
    Hold.LAYERS: "nothing is counted, archived or computed; lines wait in Kafka",
}


def filling(found: Sequence[Disk], points: dict[str, deque[Point]]) -> Iterator[tuple[str, str]]:
    """An alert's name and message for each disk that is full soon, if it goes on like this."""
    for disk in found:
        left = seconds_left(points.get(disk.name, ()), disk.free)
        if left is not None:
            yield (
                f"filling: {disk.name}",
                f"{disk}, and is full in about {_spoken(left)} if it goes on like this; intake stops before, "
                f"below {disk.reserve / GIB:.2f} GiB. It has {', '.join(disk.folders)}: {REMEDY}",
            )


def seconds_left(points: Sequence[Point], free: float) -> float | None:
    """When it is full at the pace of its trend; None if that is far off, or not known."""
    found = []
    for span, least, soon in SPANS:
        own = [point for point in points if point[0] >= points[-1][0] - span]
        if own and own[-1][0] - own[0][0] >= least and (lost := -slope(own)) > 0:
            found += [free / lost] if free / lost < soon else []
    return min(found, default=None)


def slope(points: Sequence[Point]) -> float:
    """Bytes a second that a disk wins: the middle of the slopes between all pairs, of `POINTS` points."""
    step = max(1, len(points) // POINTS)
    pairs = combinations(points[::-1][::step], 2)
    return statistics.median((a[1] - b[1]) / (a[0] - b[0]) for a, b in pairs if a[0] != b[0])


def _spoken(seconds: float) -> str:
    if seconds < HOUR:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / HOUR:.0f} hours" if seconds < 2 * DAY else f"{seconds / DAY:.1f} days"
