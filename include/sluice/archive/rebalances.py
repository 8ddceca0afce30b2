"""A member writes down what each rebalance gave it and took from it, and how long that took.

Rebalances are rare, and the consumer's thread must not wait for PostgreSQL, so each is written in a thread of
its own. One that cannot be written is only logged: nothing is built on it but what `sluice lag` shows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.storage import rebalances
from sluice.storage.rebalances import Rebalance

log = logging.getLogger(__name__)


@dataclass
class _Pending:
    """Partitions that were gained, until the writers of all of them read again."""

    began: float
    at: datetime
    generation: int
    why: str
    gained: list[int]
    silent: set[int]


class Rebalances:
    """Writes one member's rebalances of one topic."""

    def __init__(self, topic: str, member: str, write: Callable[[Rebalance], None]) -> None:
        self._topic, self._member, self._write = topic, member, write
        self._pending: _Pending | None = None

    @classmethod
    def of(cls, database: Engine, topic: str, member: str) -> Rebalances:
        """Those that are kept in the database."""

        def write(rebalance: Rebalance) -> None:
            threading.Thread(target=_add, args=(database, rebalance), daemon=True).start()

        return cls(topic, member, write)

    def lost(self, partitions: Collection[int], generation: int, why: str) -> None:
        """The member stops reading these now."""
        if partitions:
            self._close(None)
            now = datetime.now(UTC)
            numbers = tuple(sorted(partitions))
            self._write(Rebalance(self._topic, self._member, generation, now, why, (), numbers, None))

    def gained(self, partitions: Collection[int], generation: int, why: str) -> None:
        """The member got these, and reads each as soon as it knows where to begin."""
        self._close(None)
        numbers = sorted(partitions)
        now = datetime.now(UTC)
        self._pending = _Pending(time.monotonic(), now, generation, why, numbers, set(numbers))

    def reads(self, partition: int) -> None:
        """The member reads the partition."""
        if self._pending is not None:
            self._pending.silent.discard(partition)
            if not self._pending.silent:
                self._close(time.monotonic() - self._pending.began)

    def _close(self, seconds: float | None) -> None:
        """Write what is pending. seconds: until all were read; None: another rebalance came before."""
        if (done := self._pending) is not None:
            self._pending = None
            gained = tuple(done.gained)
            self._write(
                Rebalance(self._topic, self._member, done.generation, done.at, done.why, gained, (), seconds)
            )


def _add(database: Engine, rebalance: Rebalance) -> None:
    try:
        rebalances.add(database, rebalance)
    except SQLAlchemyError as error:
        log.warning("the rebalance could not be written: %s", str(error).splitlines()[0])
