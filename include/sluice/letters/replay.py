"""Dead letters that another topic can read go there, each under its own identity, so they count once.

A topic's format never changes once lines were read by it, and its byte ledger has the bytes of dead letters,
too. So a corrected format is another topic (ADR 0082). There a replayed line is like one that an edge sends:
the speed layer's byte ledger and the nights remove its copies. Whoever replays it again, after a crash or by
mistake, sends a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.engine.parse import dead_reason, event_time
from sluice.letters.export import PORTION_BYTES, PORTION_ROWS, Read
from sluice.letters.replayed_record import record, refusal
from sluice.letters.whole import WholeLines
from sluice.runtime.arrays import Bools
from sluice.runtime.crash_points import crash_point
from sluice.runtime.days import DAY_MS
from sluice.runtime.sections import Limits
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from sluice.storage.postgres import engine
from sluice.storage.tables import history
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.dead_letters import LetterFilter, all_in_order
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import TopicStore
from sluice.tasks.versions import TaskState
from sluice.transmission.record_writer import LineRecord, RecordWriter
from sluice.transmission.topics import Topics

EPOCH = date(1970, 1, 1)
#: More than the clocks of two hosts ever differ.
CLOCKS_APART = timedelta(hours=1)


class ReplayRefused(ValueError):
    """The letters cannot go to that topic."""


class Destination(Protocol):
    """Where replayed lines go."""

    def write(self, records: Sequence[LineRecord]) -> None: ...


@dataclass
class ReplayReport:
    """What became of the letters."""

    looked_at: int = 0
    sent: int = 0  # or, of a dry run, to be sent
    counted_before: int = 0  # the other topic has them already
    days: Counter[date] = field(default_factory=Counter)  # of event time, of those that were sent
    still_dead: Counter[str] = field(default_factory=Counter)  # they would be dead letters there, too: why
    refused: Counter[str] = field(default_factory=Counter)


#: Told after each portion.
ReplayTold = Callable[[ReplayReport], object]


def replay(
    settings: Settings,
    chosen: LetterFilter,
    into: str,
    *,
    who: str,
    dry_run: bool = False,
    told: ReplayTold = lambda _: None,
) -> ReplayReport:
    """Send these letters to the topic `into`, if it reads them. A dry run only looks.

    Raises ReplayRefused, UnknownTopic, TopicMissing, KeyMissing, and what the stores raise while away.
    """
    database = engine(settings)
    check(database, chosen.topic, into)
    chosen = replayable(chosen, settings)
    letters = WholeLines(settings, chosen.topic).of(all_in_order(database, chosen))
    ledger = ByteLedger.from_rows(vars(row) for row in CommitLog(database, into).ledger())
    if dry_run:
        return LetterReplay(TopicStore(database).get(into), settings.limits, ledger, None, told).run(letters)
    with Topics(settings) as topics:
        partitions = len(topics.describe(into).partitions)
    spec = TopicStore(database).freeze(into)  # what is sent is judged by it
    with database.begin() as connection:
        after = {"into": into, "reason": chosen.reason}
        history.record(connection, who=who, what="topic", name=chosen.topic, action="replayed", after=after)
    with RecordWriter(settings, into, partitions) as writer:
        return LetterReplay(spec, settings.limits, ledger, writer, told).run(letters)


def check(database: sa.Engine, topic: str, into: str) -> None:
    """Raise ReplayRefused unless lines that come to `into` now are counted by its tasks."""
    if topic == into:
        raise ReplayRefused(
            f"topic {topic!r} has read these lines already, and its format never changes: describe a topic "
            "with the right format, apply its tasks there, and name it by --into"
        )
    TopicStore(database).require(into)
    tasks = [task for task in TaskStore(database).list(into) if task.state is TaskState.ACTIVE]
    if not tasks:
        raise ReplayRefused(
            f"no active task reads topic {into!r}: apply its tasks first (`sluice tasks apply`)"
        )
    begun = CommitLog(database, into).open_versions()
    if late := sorted(task.name for task in tasks if task.key not in begun):
        raise ReplayRefused(
            f"the speed layer has not begun to count {', '.join(late)}, so a line that comes now may be "
            "before their first one: wait some seconds, and see `sluice status`"
        )


def replayable(chosen: LetterFilter, settings: Settings, now: datetime | None = None) -> LetterFilter:
    """Those of the letters that arrived within retention, and not in the future, as a wrong clock may say.

    A byte ledger forgets a file that long after its last line was counted. A letter arrived before it was
    first replayed, so the ledger of the other topic knows it for as long as it can be replayed again.
    """
    now = now or datetime.now(UTC)
    oldest = now - timedelta(days=settings.retention.days) + CLOCKS_APART
    since = oldest if chosen.since is None else max(oldest, chosen.since)
    until = now if chosen.until is None else min(now, chosen.until)
    return LetterFilter(chosen.topic, chosen.reason, since, until)


class LetterReplay:
    """One replay into a topic; without a destination it only looks."""

    def __init__(
        self,
        topic: TopicSpec,
        limits: Limits,
        ledger: ByteLedger,
        destination: Destination | None,
        told: ReplayTold,
    ) -> None:
        self._topic, self._limits = topic, limits
        self._known, self._destination, self._told = ledger, destination, told
        self._report = ReplayReport()

    def run(self, letters: Iterable[Read]) -> ReplayReport:
        for some in _portions(self._sendable(letters)):
            self._portion(some)
            self._told(self._report)
        return self._report

    def _sendable(self, letters: Iterable[Read]) -> Iterator[LineRecord]:
        for letter, line in letters:
            self._report.looked_at += 1
            if why := refusal(letter, line):
                self._report.refused[why] += 1
            elif line is not None:
                yield record(letter, line)

    def _portion(self, records: Sequence[LineRecord]) -> None:
        """Judge the lines as the speed layer will, and send those that it will count."""
        lines = pa.array([each.line for each in records], pa.binary())
        ms, valid = event_time(lines, self._topic)
        dead = dead_reason(lines, valid, self._limits)
        self._report.still_dead.update(why for why in dead.to_pylist() if why is not None)
        alive = dead.is_null().to_numpy(zero_copy_only=False)
        fresh = alive & self._fresh(records, lines)
        self._report.counted_before += int(alive.sum() - fresh.sum())
        numbers = np.flatnonzero(fresh).tolist()
        if numbers and self._destination is not None:
            self._destination.write([records[number] for number in numbers])
            crash_point("letters_sent")
        self._report.sent += len(numbers)
        self._report.days.update(EPOCH + timedelta(days=int(ms[number]) // DAY_MS) for number in numbers)

    def _fresh(self, records: Sequence[LineRecord], lines: pa.Array) -> Bools:
        """Which lines the other topic's ledger does not have."""
        hosts = pa.array([each.host for each in records], pa.string())
        files = pa.array([each.src_file for each in records], pa.string())
        starts = np.array([each.src_offset for each in records], np.int64)
        ends = starts + pc.binary_length(lines).to_numpy(zero_copy_only=False) + 1
        return ByteLedger().claim(hosts, files, starts, ends, known=self._known)


def _portions(records: Iterable[LineRecord]) -> Iterator[list[LineRecord]]:
    some: list[LineRecord] = []
    size = 0
    for each in records:
        if some and (len(some) == PORTION_ROWS or size + len(each.line) > PORTION_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += len(each.line)
    if some:
        yield some
