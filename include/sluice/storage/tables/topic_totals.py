"""What was counted of a topic at each hop, according to the transactional tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any

import numpy as np
import sqlalchemy as sa

from sluice.runtime.arrays import Ints
from sluice.runtime.days import is_over
from sluice.storage.tables import archive_chains, archive_expiry, schema
from sluice.storage.tables.commits import STORED_AS
from sluice.storage.tables.tallies import Tally, of_topic, unknown_lines

#: By field, the counts of commits, and of those that retention deleted, as they are stored.
STORED = {name: STORED_AS.get(name, name) for name in ("lines", "doubled", "counted", "dead", "redacted")}


class LedgerSpans(Mapping[tuple[str, str], tuple[Ints, Ints]]):
    """The byte intervals of each file, by host and name: starts and ends.

    They are decoded when they are asked for: the ledger has the files of all of retention, and most of them
    are asked for their names alone.
    """

    def __init__(self, rows: Mapping[tuple[str, str], tuple[bytes, bytes]] = MappingProxyType({})) -> None:
        self._rows = rows

    def __getitem__(self, file: tuple[str, str]) -> tuple[Ints, Ints]:
        starts, ends = (np.frombuffer(each, "<i8").astype(np.int64) for each in self._rows[file])
        return starts, ends

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass
class TopicTotals:
    """What the transactional tables say about a topic."""

    lines: int = 0  # that came, doubles included
    doubled: int = 0
    counted: int = 0
    dead: int = 0
    event_lines: int = 0
    dead_rows: int = 0
    archived: int = 0  # lines
    archived_records: int = 0  # of Kafka, which the lines came in
    expired: int = 0  # records of Kafka
    redacted: int = 0  # lines that were counted or dead letters, and were erased
    last_seq: int = 0
    beyond_retention: int = 0  # of `archived`: lines that the archive kept as long as it should
    projected: int = 0
    committed: dict[int, int] = field(default_factory=dict)
    archived_to: dict[int, int] = field(default_factory=dict)
    stale_days: list[str] = field(default_factory=list)
    days_to_come: dict[str, int] = field(default_factory=dict)  # lines by day, of days that are not over
    computed_lines: int = 0
    forgotten: int = 0  # files that retention deleted from the ledger
    ledger: Mapping[tuple[str, str], tuple[Ints, Ints]] = field(default_factory=LedgerSpans)
    untold: int = 0  # of event_lines: lines that an earlier release counted, without their outcomes
    tallies: dict[tuple[int, int], Tally] = field(default_factory=dict)  # by task version; the topic: TOPIC
    names: dict[int, str] = field(default_factory=dict)  # of the tasks that skipped lines


def read(connection: sa.Connection, topic: str, today: date) -> TopicTotals:
    """All that the tables say about the topic now; a day is over once it is before `today` (UTC)."""
    totals = TopicTotals()
    _add_commits(connection, topic, totals)
    totals.projected = _scalar(
        connection, sa.select(schema.projections.c.seq).where(schema.projections.c.topic == topic)
    )
    totals.dead_rows = _scalar(
        connection, sa.select(sa.func.count()).where(schema.dead_letters.c.topic == topic)
    )
    _add_pruned(connection, topic, totals)
    losses, chains = schema.archive_losses.c, archive_chains.sums(connection, topic)
    totals.archived = sum(each.lines for each in chains)
    totals.archived_records = sum(each.records for each in chains)
    totals.archived_to = archive_chains.ends(chains)
    expired = archive_expiry.sums(connection, topic)  # retention deleted these, and they were archived
    totals.beyond_retention = expired.lines
    totals.archived += expired.lines
    totals.archived_records += expired.records
    totals.expired = _scalar(
        connection, sa.select(sa.func.sum(losses.next - losses.first)).where(losses.topic == topic)
    )
    _add_days(connection, topic, totals, today)
    totals.tallies, totals.untold = of_topic(connection, topic), unknown_lines(connection, topic)
    tasks = schema.tasks.c
    skipping = sorted({task_id for (task_id, _), tally in totals.tallies.items() if tally.skipped})
    totals.names = {
        row.id: row.name
        for row in connection.execute(sa.select(tasks.id, tasks.name).where(tasks.id.in_(skipping)))
    }
    t = schema.ledger.c
    spans = sa.select(t.host, t.src_file, t.starts, t.ends).where(t.topic == topic)
    totals.ledger = LedgerSpans(
        {(host, name): (starts, ends) for host, name, starts, ends in connection.execute(spans)}
    )
    return totals


def _add_commits(connection: sa.Connection, topic: str, totals: TopicTotals) -> None:
    """What all commits counted, and where the newest ends.

    PostgreSQL computes the sums, because there is one commit a second. The sums of a folded day need 64 bits.
    """
    commits = schema.commits.c
    sums = (
        sa.func.coalesce(sa.func.sum(sa.cast(commits.counts[stored].as_string(), sa.BigInteger)), 0).label(
            name
        )
        for name, stored in STORED.items()
    )
    counts = connection.execute(sa.select(*sums).where(commits.topic == topic)).one()
    for name in STORED:
        setattr(totals, name, int(counts._mapping[name]))
    newest = sa.select(commits.seq, commits.end).where(commits.topic == topic)
    for row in connection.execute(newest.order_by(commits.seq.desc()).limit(1)):
        totals.last_seq = row.seq
        totals.committed = {int(partition): int(offset) for partition, offset in row.end.items()}


def _add_pruned(connection: sa.Connection, topic: str, totals: TopicTotals) -> None:
    """Add the counts of the rows that retention deleted."""
    for row in connection.execute(sa.select(schema.pruned).where(schema.pruned.c.topic == topic)):
        for name, stored in STORED.items():
            setattr(totals, name, getattr(totals, name) + row._mapping[stored])
        totals.dead_rows += row.dead_letters
        totals.forgotten = row.files


def _add_days(connection: sa.Connection, topic: str, totals: TopicTotals, today: date) -> None:
    """The lines by event day, and the days that are not computed up to their last line.

    No nightly run computes a day before it is over. So the lines of such a day are not in flight: a line may
    be dated years ahead.
    """
    days, event = schema.days.c, schema.event_days.c
    totals.computed_lines = _scalar(connection, sa.select(sa.func.sum(days.lines)).where(days.topic == topic))
    totals.event_lines = _scalar(connection, sa.select(sa.func.sum(event.lines)).where(event.topic == topic))
    beyond = archive_expiry.days(connection, topic)
    # PostgreSQL compares: few of all days ever are waiting.
    cut = sa.func.jsonb_extract_path_text(days.cut, sa.cast(event.partition, sa.Text))
    waits = event.last_offset >= sa.func.coalesce(sa.cast(cut, sa.BigInteger), 0)
    book = schema.event_days.outerjoin(schema.days, (days.topic == event.topic) & (days.day == event.day))
    query = sa.select(event.day, days.day.label("computed"), sa.func.sum(event.lines)).select_from(book)
    query = query.where(event.topic == topic, sa.or_(days.day.is_(None), waits))
    for day, computed, lines in connection.execute(query.group_by(event.day, days.day).order_by(event.day)):
        if day in beyond:
            continue  # no night can compute it again
        if computed is None and not is_over(day, today):
            totals.days_to_come[day.isoformat()] = int(lines)
        else:
            totals.stale_days.append(day.isoformat())


def _scalar(connection: sa.Connection, statement: sa.Select[Any]) -> int:
    return int(connection.execute(statement).scalar() or 0)
