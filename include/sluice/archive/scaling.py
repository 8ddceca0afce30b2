"""How many archivers there should be: one more while the archive falls behind, one less when it does not.

The archive is behind by the time that its oldest waiting record has waited, of all partitions. Both need the
state to last, and the two limits are far apart, so the number does not swing. A file is up to
`archive.max_age_seconds` old when it is written, so that much is no sign of falling behind.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.stack.progress import WATCH, WatchProgress, progress_file, read

#: A lag above BEHIND_SECONDS for GROW_AFTER_SECONDS adds a member. It takes some seconds to be of use.
BEHIND_SECONDS, GROW_AFTER_SECONDS = 60.0, 45.0
#: A lag below a file's age plus CLOSE_SECONDS for SHRINK_AFTER_SECONDS removes a member.
CLOSE_SECONDS, SHRINK_AFTER_SECONDS = 15.0, 300.0
#: Least distance between these two limits of lag, however old files may be.
APART_SECONDS = 30.0
#: A look of the watch that is older says nothing.
FRESH_SECONDS = 60.0


def most(settings: Settings) -> int:
    """The setting `archive.members`; 0 there means half of the machine's cores, and at least one."""
    return settings.archive.members or max(1, (os.cpu_count() or 1) // 2)


@dataclass
class Sizing:
    """Decides how many members there are, one step at a time.

    most: members. close: behind by less than this is not behind. far: behind by more than this is behind.
    useful: members that can have a partition, by what is known now. A rebalance or an outage of Kafka
    hides partitions for a moment, so that only keeps the number from growing; a member without a partition
    goes as slowly as one that is not needed.
    Times are seconds of one clock.
    """

    most: int
    close: float
    far: float = BEHIND_SECONDS
    useful: int | None = None
    _behind_since: float | None = None
    _close_since: float | None = None

    def wanted(self, now: float, members: int, behind: float | None) -> int:
        """How many there should be. behind: by how many seconds the archive is; None if nobody knows."""
        if members > self.most:
            return members - 1
        too_far = behind is not None and behind > self.far
        spare = self.useful is not None and members > self.useful
        near = spare or (behind is not None and behind < self.close)
        self._behind_since = (self._behind_since or now) if too_far else None
        self._close_since = (self._close_since or now) if near else None
        room = members < (self.most if self.useful is None else min(self.most, self.useful))
        if self._lasts(self._behind_since, now, GROW_AFTER_SECONDS) and room:
            self._behind_since = None
            return members + 1
        if self._lasts(self._close_since, now, SHRINK_AFTER_SECONDS) and members > 1:
            self._close_since = None
            return members - 1
        return members

    @staticmethod
    def _lasts(since: float | None, now: float, seconds: float) -> bool:
        return since is not None and now - since >= seconds


class Follows:
    """How many archivers an instance needs, by what the watch saw last."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        close = settings.archive.max_age_seconds + CLOSE_SECONDS
        self._sizing = Sizing(most(settings), close, max(BEHIND_SECONDS, close + APART_SECONDS))

    def __call__(self, now: float, members: int) -> int:
        topics = jobs.archiver(self._settings).topics.values()
        useful = max((len(topic.partitions) for topic in topics), default=0)
        self._sizing.most, self._sizing.useful = most(self._settings), max(1, useful)
        return self._sizing.wanted(now, members, behind(self._settings, self._sizing.far))


def behind(settings: Settings, far: float = BEHIND_SECONDS) -> float | None:
    """By how many seconds the archive is behind, on the topic where that is most; None if nobody knows.

    A partition's oldest waiting record may not be readable. It may be the one that waits longest, so the
    others say only that the archive is behind by more than `far`, never that it keeps up.
    """
    look = read(progress_file(settings, WATCH), WatchProgress)
    if not look.lag or not look.updated_at or time.time() - look.updated_at.timestamp() > FRESH_SECONDS:
        return None
    hops = [hops["archive"] for hops in look.lag.values()]
    longest = max((hop.seconds for hop in hops if hop.seconds is not None), default=None)
    unread = any(hop.seconds is None or hop.unread for hop in hops)
    return None if unread and (longest is None or longest <= far) else longest
