"""How long a rebalance made partitions stand still.

Two members write it down: the one that stops reading a partition, and the one that reads it next. Nobody
writes for a member that dies: then only the time of the next one counts, and the group needs some seconds
more to notice the death (`archive.session.SESSION_MS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sluice.monitoring.lag.model import Shown
from sluice.storage.rebalances import Rebalance

#: A partition that was given up longer ago had no member at all meanwhile: the group was stopped.
HANDED_OVER = timedelta(minutes=2)


def costs(found: Sequence[Rebalance], most: int) -> list[Shown]:
    """The newest `most`, each with the longest time that one of its partitions stood still.

    found: of one topic, in any order. A row that only lost partitions has no time of its own: their next
    owner's row has it.
    """
    newest = sorted(found, key=lambda each: each.at, reverse=True)
    return [
        Shown(
            at=each.at,
            topic=each.topic,
            member=each.member,
            generation=each.generation,
            why=each.why,
            gained=each.gained,
            lost=each.lost,
            stood_still=_stood_still(each, newest[number + 1 :]),
        )
        for number, each in enumerate(newest[:most])
    ]


def _stood_still(gain: Rebalance, before: Sequence[Rebalance]) -> float | None:
    if not gain.gained or gain.seconds is None:
        return None
    longest = gain.seconds
    for partition in gain.gained:
        last = next((row for row in before if partition in row.lost or partition in row.gained), None)
        if last is not None and partition in last.lost and gain.at - last.at < HANDED_OVER:
            longest = max(longest, gain.seconds + (gain.at - last.at).total_seconds())
    return longest
