"""How long a rebalance made partitions stand still.

Two members write it down: the one that stops reading a partition, and the one that reads it next. For a
member that dies its next process writes, by the last heartbeat. Until there is one, only the time of the
partition's next owner counts, and the group needs some seconds more to notice the death
(`archive.session.SESSION_MS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sluice.archive.rebalances import DIED
from sluice.monitoring.lag.consumer_lag import ShownRebalance
from sluice.storage.tables.rebalances import Rebalance

#: A partition that was given up longer ago had no member at all meanwhile: somebody stopped the group.
HANDED_OVER = timedelta(minutes=2)


def costs(found: Sequence[Rebalance], most: int) -> list[ShownRebalance]:
    """The newest `most` rebalances, each with the time that each of its gained partitions stood still.

    found: rows of one topic, in any order. What only lost partitions has no time of its own: their next
    owner's rebalance has it.
    """
    newest = sorted(found, key=lambda row: row.at, reverse=True)
    together: dict[tuple[datetime, str, int], list[Rebalance]] = {}
    for row in newest:
        together.setdefault((row.at, row.member, row.generation), []).append(row)
    return [_shown(rows, newest) for rows in list(together.values())[:most]]


def _shown(rows: Sequence[Rebalance], newest: Sequence[Rebalance]) -> ShownRebalance:
    one = rows[0]
    stood = {
        number: _stood_still(number, row, newest) for row in rows for number in row.gained
    }  # of one member and time, so no partition is in two rows
    times = [seconds for seconds in stood.values() if seconds is not None]
    return ShownRebalance(
        at=one.at,
        topic=one.topic,
        member=one.member,
        generation=one.generation,
        why=one.why,
        gained=tuple(sorted(stood)),
        lost=tuple(sorted(number for row in rows for number in row.lost)),
        stood_still=max(times, default=None),
        by_partition=dict(sorted(stood.items())),
    )


def _stood_still(partition: int, gain: Rebalance, newest: Sequence[Rebalance]) -> float | None:
    if gain.seconds is None:
        return None
    before = (row for row in newest if row.at < gain.at)
    last = next((row for row in before if partition in row.lost or partition in row.gained), None)
    if last is None or partition not in last.lost:
        return gain.seconds
    if last.why == DIED or gain.at - last.at < HANDED_OVER:
        return gain.seconds + (gain.at - last.at).total_seconds()
    return gain.seconds
