"""Replays of a topic's lines into a topic that describes them rightly: its dead letters, or all of them.

Both are one `LineReplay`; they differ in where the lines come from.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import sqlalchemy as sa

from sluice.archive import index
from sluice.letters.archived_lines import ArchivedLines
from sluice.letters.letter_lines import letter_lines
from sluice.letters.line_replay import LineReplay, ReplayReport, ReplayTold
from sluice.letters.whole import WholeLines
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from sluice.storage.postgres import engine
from sluice.storage.tables import history
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.dead_letters import LetterFilter, all_in_order
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from sluice.tasks.versions import TaskState
from sluice.transmission.record_writer import RecordWriter
from sluice.transmission.topics import Topics

log = logging.getLogger(__name__)

#: More than the clocks of two hosts ever differ.
CLOCKS_APART = timedelta(hours=1)


class ReplayRefused(ValueError):
    """The lines cannot go to that topic."""


@dataclass(frozen=True)
class ReplayRequest:
    """From which topic into which, and who asked for it. A dry run only looks."""

    topic: str
    into: str
    who: str
    dry_run: bool = False
    told: ReplayTold = lambda _: None


def replay_letters(settings: Settings, chosen: LetterFilter, asked: ReplayRequest) -> ReplayReport:
    """Send these letters to the other topic, if it reads them.

    Raises ReplayRefused, UnknownTopic, TopicMissing, KeyMissing, and what the stores raise while away.
    """
    database, report = engine(settings), ReplayReport()
    check(database, asked.topic, asked.into)
    since, until = replayable(settings, chosen.since, chosen.until)
    letters = all_in_order(database, replace(chosen, since=since, until=until))
    lines = letter_lines(WholeLines(settings, asked.topic).of(letters), report)
    return _replay(settings, asked, lines, {"reason": chosen.reason}, report)


def replay_topic(
    settings: Settings, asked: ReplayRequest, since: datetime | None = None, until: datetime | None = None
) -> ReplayReport:
    """Send all lines that arrived in [since, until) to the other topic, if it reads them.

    Raises UnreadableArchiveFile, and what `replay_letters` raises.
    """
    database, report = engine(settings), ReplayReport()
    archived = [asked.topic] if index.positions(settings, asked.topic) else []
    TopicStore(database).require(asked.topic, also=archived)
    check(database, asked.topic, asked.into)
    since, until = replayable(settings, since, until)
    lines = ArchivedLines(settings, asked.topic, since, until, report).portions()
    return _replay(settings, asked, lines, {"lines": "all"}, report)


def _replay(
    settings: Settings,
    asked: ReplayRequest,
    lines: Iterable[pa.RecordBatch],
    what: Mapping[str, str],
    report: ReplayReport,
) -> ReplayReport:
    database, topic, into = engine(settings), asked.topic, asked.into
    ledger = ByteLedger.from_rows(vars(row) for row in CommitLog(database, into).ledger())
    topics, limits = TopicStore(database), settings.limits
    if asked.dry_run:
        return LineReplay(topic, topics.get(into), limits, ledger, None, report=report).run(lines, asked.told)
    with Topics(settings) as kafka:
        partitions = len(kafka.describe(into).partitions)
    spec = topics.freeze(into)  # what is sent is judged by it
    with database.begin() as connection:
        after = {"into": into, **what}
        history.record(connection, who=asked.who, what="topic", name=topic, action="replayed", after=after)
    with RecordWriter(settings, into, partitions) as writer:
        made = LineReplay(topic, spec, limits, ledger, writer, report=report)
        return made.run(_with_space(settings, lines), asked.told)


def _with_space(settings: Settings, portions: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The portions, each once there is space for it: Kafka keeps what both layers do not have yet."""
    for each in portions:
        holds.wait(settings.home, Hold.INTAKE, log.warning)
        yield each


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


def replayable(
    settings: Settings,
    since: datetime | None = None,
    until: datetime | None = None,
    now: datetime | None = None,
) -> tuple[datetime, datetime]:
    """The part of [since, until) that is within retention, and not in the future, as a wrong clock may say.

    A byte ledger forgets a file `retention.days` after its last line was counted. A line arrived before it
    was first replayed, so the ledger of the other topic knows it for as long as it can be replayed again.
    """
    now = now or datetime.now(UTC)
    oldest = now - timedelta(days=settings.retention.days) + CLOCKS_APART
    return max(oldest, since or oldest), min(now, until or now)
