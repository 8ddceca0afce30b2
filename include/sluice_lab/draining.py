"""Waiting until none of a topic's lines is in flight."""

from __future__ import annotations

from collections.abc import Callable

from sluice.archive import index
from sluice.quality.audit import audit, kafka_ends
from sluice.quality.hops import Hops
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.commits import CommitLog
from sluice_lab.waiting import until

DRAIN_SECONDS = 240.0
POLL_SECONDS = 0.5


def drain(
    settings: Settings,
    topic: str,
    seconds: float = DRAIN_SECONDS,
    good: Callable[[Hops], bool] = lambda hops: hops.ok,
) -> Hops:
    """Wait until none of the topic's lines is in flight and the hops are good; returns the hops of then.

    Raises TimeoutError, which says what is in flight or disagrees.
    """
    why = "nothing was looked at"

    def drained() -> Hops | None:
        nonlocal why
        try:
            if why := _behind(settings, topic):
                return None
            hops = audit(settings, topic, hive=False)
        except Exception as error:  # a daemon that was killed is still coming back
            why = f"{type(error).__name__}: {error}"
            return None
        moving = [what for what in hops.in_flight if "nightly_batch" not in what]
        why = f"in flight {moving}, disagreements {hops.disagreements}, lost {hops.lost}"
        return hops if not moving and good(hops) else None

    return until(drained, seconds, lambda: why, POLL_SECONDS)


def _behind(settings: Settings, topic: str) -> str:
    """What is certainly in flight. An audit asks all agents and reads all files, and so costs more."""
    book = CommitLog(engine(settings), topic)
    archived, last = index.positions(settings, topic), book.head()
    ends = {at: end for at, end in kafka_ends(settings, topic).items() if end}
    counted = {int(at): end for at, end in last.end.items()} if last else {}
    late = [at for at, end in ends.items() if min(counted.get(at, 0), archived.get(at, 0)) < end]
    unseen = last.seq - book.projected() if last else 0
    return f"partitions {late}, {unseen} commits without results" if late or unseen > 0 else ""
