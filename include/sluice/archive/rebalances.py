"""A member writes down what each rebalance gave it and took from it, and how long that took.

Rebalances are rare, and the consumer's thread must not wait for PostgreSQL, so each is written in a thread of
its own. One that cannot be written is only logged: nothing is built on it but what `sluice lag` shows. Times
are written by the database's clock, because the standstill of a partition is between two members' times.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.archive import heartbeat
from sluice.storage.tables import rebalances
from sluice.storage.tables.rebalances import Rebalance

log = logging.getLogger(__name__)

#: Why a member lost partitions that it had when it died.
DIED = "this member died"


@dataclass
class _Pending:
    """Partitions that were gained, until the writers of all of them read again.

    took: seconds until each was read; None: not yet.
    """

    began: float
    at: datetime
    generation: int
    why: str
    took: dict[int, float | None]


class Rebalances:
    """Writes one member's rebalances of one topic: a row for what it lost, and one for each gained partition.

    The rows of one rebalance have its time and generation in common.
    """

    def __init__(
        self,
        topic: str,
        member: str,
        write: Callable[[Sequence[Rebalance]], None],
        wait: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._topic, self._member, self._write, self.wait = topic, member, write, wait
        self._pending: _Pending | None = None

    @classmethod
    def of(cls, database: Engine, topic: str, member: str) -> Rebalances:
        """Those that are kept in the database. `wait` waits at most `seconds` until all is written."""
        writing: list[threading.Thread] = []

        def write(rows: Sequence[Rebalance]) -> None:
            writing[:] = [each for each in writing if each.is_alive()]
            writing.append(threading.Thread(target=_add, args=(database, rows), daemon=True))
            writing[-1].start()

        def wait(seconds: float) -> None:
            deadline = time.monotonic() + seconds
            for each in writing:
                each.join(max(0.0, deadline - time.monotonic()))

        return cls(topic, member, write, wait)

    def lost(self, partitions: Collection[int], generation: int, why: str) -> None:
        """The member stops reading these now."""
        if partitions:
            self._close()
            now = datetime.now(UTC)
            numbers = tuple(sorted(partitions))
            self._write([Rebalance(self._topic, self._member, generation, now, why, (), numbers, None)])

    def gained(self, partitions: Collection[int], generation: int, why: str) -> None:
        """The member got these, and reads each as soon as it knows where to begin."""
        if partitions:
            self._close()
            took = dict.fromkeys(sorted(partitions))
            self._pending = _Pending(time.monotonic(), datetime.now(UTC), generation, why, {**took})

    def reads(self, partition: int) -> None:
        """The member reads the partition."""
        pending = self._pending
        if pending is None or pending.took.get(partition, 0.0) is not None:
            return
        pending.took[partition] = time.monotonic() - pending.began
        if None not in pending.took.values():
            self._close()

    def _close(self) -> None:
        """Write what is pending; what was not read yet has no time, because another rebalance came before."""
        if (done := self._pending) is not None:
            self._pending = None
            self._write(
                [
                    Rebalance(
                        self._topic, self._member, done.generation, done.at, done.why, (number,), (), seconds
                    )
                    for number, seconds in done.took.items()
                ]
            )


def died(database: Engine, path: Path, member: str) -> threading.Thread | None:
    """Write down when the member's process before this one read its partitions last, if it died.

    Its heartbeat says so, to a second. Call this before this process writes its own. Returns the thread that
    writes; None if there is nothing to write.
    """
    rows = [
        Rebalance(each.topic, member, each.generation, each.at, DIED, (), each.partitions, None)
        for each in heartbeat.left_behind(path)
    ]
    if not rows:
        return None
    thread = threading.Thread(target=_add, args=(database, rows), daemon=True)
    thread.start()
    return thread


def _add(database: Engine, rows: Sequence[Rebalance]) -> None:
    try:
        ahead = rebalances.ahead(database)
        for topic in {row.topic for row in rows}:
            rebalances.add(database, [replace(row, at=row.at + ahead) for row in rows if row.topic == topic])
    except SQLAlchemyError as error:
        log.warning("the rebalance could not be written: %s", str(error).splitlines()[0])
