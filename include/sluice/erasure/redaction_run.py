"""Erases lines from the archive and from the books: the first part of an erasure.

1. The cut is the end of the newest commit: both layers know all lines below it. The archive has to reach it.
2. All files that may have such lines are read once: which copy of each came first is known then, and it is
   the one that was counted.
3. Files that have some are replaced (`archive.redaction`), and the sums become less with each. Backfills wait
   from before 2 until that is done: one that had read an old file would put its lines back into the sums.
4. The old files go once nobody can claim their names any more, up to twenty minutes after they were written.
5. Each day is waited for that is being computed from files that are gone, and marked to be computed again.

A run that died is gone on with by the next one with the same value: what is redacted already keeps its place
among the copies, and is not looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from sluice.archive import index
from sluice.archive.compaction import alone
from sluice.archive.redaction import PartitionRedaction
from sluice.archive.verification import places
from sluice.batch.backfill.backfill import archived_to, wait_for
from sluice.erasure.accounts import FileEraser, day_plans
from sluice.erasure.matching import ErasedValue
from sluice.erasure.planning import ErasurePlan
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.days import Days
from sluice.storage.tables.erasures import Erasure, Erasures, ErasureState

Tell = Callable[[str], None]
#: Between two looks whether old files can go, in seconds.
LOOK_SECONDS = 30.0


class ErasureAbandoned(RuntimeError):
    """Somebody abandoned the erasure before its run began."""

    def __init__(self, erasure: Erasure) -> None:
        super().__init__(
            f"erasure {erasure.id} of topic {erasure.topic!r} was abandoned meanwhile: no line was erased"
        )


def planned(settings: Settings, topic: str, value: ErasedValue) -> ErasurePlan:
    """What would be erased now; nothing is changed. Raises NotArchived."""
    plan = ErasurePlan(settings, topic, value)
    for place, claims in places(settings, topic):
        plan.look(place, claims, claims.standing().files)
    return plan


def abandon(settings: Settings, erasure: Erasure, user: str) -> None:
    """End an erasure that redacted nothing yet; what a run that died began of a file is ended first.

    Raises NotAbandoned, CompactionUnderWay while a run is at work, and what the archive raises.
    """
    database = engine(settings)
    with alone(database, erasure.topic, erasing=True):
        if erasure.id in Erasures(database).noted(erasure.topic):
            for place, claims in places(settings, erasure.topic):
                PartitionRedaction(database, place, claims, erasure.id).standing()
        Erasures(database).abandon(erasure.id, user)


class RedactionRun:
    """The first part of one erasure."""

    def __init__(self, settings: Settings, erasure: Erasure, value: ErasedValue, tell: Tell) -> None:
        self._settings, self._erasure, self._value, self._tell = settings, erasure, value, tell
        self._topic, self._database = erasure.topic, engine(settings)

    def run(self, pause: Callable[[float], None] = time.sleep) -> Erasure:
        """Erase the lines from the archive, and wait until the old files are gone; returns what the book has.

        Raises NotArchived, CompactionUnderWay, ErasureAbandoned, NotYet, PartsChanged, BrokenChain,
        UnreadableArchiveFile, HdfsError, and what the stores raise while a daemon is away.
        """
        cut = dict(self._value.cut)
        wait_for(
            lambda: archived_to(index.positions_of(self._settings, self._topic, cut), cut) or None,
            f"the archive of {self._topic} has not reached the newest commit: see the archiver "
            "(`sluice status`)",
        )
        book = Erasures(self._database)
        with alone(self._database, self._topic, erasing=True):
            if book.get(self._erasure.id).state == ErasureState.ABANDONED:
                raise ErasureAbandoned(self._erasure)
            self._sweep(self._unfilled(), pause)
            days = Days(self._database, self._topic)
            for day in book.get(self._erasure.id).days:
                with days.locked(day):  # whoever computes it now may have read a file that is gone
                    pass
            book.set_state(self._erasure.id, ErasureState.REDACTED)
        return book.get(self._erasure.id)

    def _unfilled(self) -> list[PartitionRedaction]:
        """Replace the files while no backfill reads them."""
        backfills = Backfills(self._database)
        for each in backfills.running(self._topic):
            self._tell(f"backfill {each.id} of {self._topic} fills days: this waits until it has ended")
        with backfills.unfilled(self._topic) as still:
            return self._redact(still)

    def _redact(self, still: Callable[[], None]) -> list[PartitionRedaction]:
        """Replace all files that have such lines. still: raises if backfills do not wait any more."""
        number, partitions = self._erasure.id, {}
        plan = ErasurePlan(self._settings, self._topic, self._value)
        for place, claims in places(self._settings, self._topic):
            own = PartitionRedaction(self._database, place, claims, number, self._tell)
            partitions[place] = own
            plan.look(place, claims, own.standing())
        self._tell(f"{self._topic}: {plan}")
        plans = day_plans(self._settings, self._topic, self._value)
        for each in plan.files:
            eraser = FileEraser(each.place.partition, number, self._value, plan.copies, plans)
            still()
            partitions[each.place].redact(each.file, eraser)
        return list(partitions.values())

    def _sweep(self, partitions: Iterable[PartitionRedaction], pause: Callable[[float], None]) -> None:
        """Delete the old files, and wait for those that cannot go yet."""
        said = False
        while True:
            swept = [own.sweep() for own in partitions]
            waiting, left = sum(each.waiting for each in swept), max(each.waits_ms for each in swept) / 1000
            if not waiting:
                return
            if not said:
                self._tell(
                    f"{waiting:,} old files were written less than 20 minutes ago: they are deleted in "
                    f"{left / 60:.0f} minutes. Ctrl-C only ends the waiting; give the command again then"
                )
                said = True
            pause(min(left + 1, LOOK_SECONDS))
