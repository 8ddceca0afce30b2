"""Commits of the archive's lines, for a topic whose commits are lost: no task counts in them.

Each covers some files, as a batch of the speed layer covers records: it has the positions, the byte ledger,
the days of event time and the dead letters. So the speed layer goes on behind the archive, and knows each
line that comes again. What the tasks counted of these lines, a rebuild counts (`backup.lost_state`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.archive import index
from sluice.archive.index import IndexedFile
from sluice.engine.batches import PASS_BYTES, PASS_LINES
from sluice.engine.plan import EnginePlan
from sluice.engine.wire import FOUND
from sluice.runtime.settings import Settings
from sluice.speed.doubles import gather
from sluice.speed.ledger import ByteLedger, File
from sluice.speed.partition_pass import Gathered, PartitionPass, days
from sluice.speed.writer import COMMITS_APART, day_lines
from sluice.storage.parquet import RowGroups, read
from sluice.storage.stores import Stores
from sluice.storage.tables import eras, schema
from sluice.storage.tables.commits import Commit, CommitLog, LedgerRow
from sluice.tasks.topics import TopicStore
from sluice.transmission.line_schema import LINE_IN_RECORD, LINE_SCHEMA
from sluice.transmission.redacted import are_redacted, with_days

#: What a commit covers at most, of packed lines, or one file that is larger. A kill loses the work on it.
COMMIT_BYTES = 64 << 20
_COLUMNS = {each.name: each.type for each in LINE_SCHEMA if each.name != "partition"}


@dataclass
class ArchiveCommits:
    """One topic's; its index and its eras are there. It goes on after the newest commit."""

    settings: Settings
    database: sa.Engine
    topic: str
    lines: int = 0
    doubled: int = 0
    _recent: list[File] = field(default_factory=list)

    def write(self, say: Callable[[str], None]) -> None:
        """Commit all that the archive has. Raises what the stores raise, FencedOut."""
        log, token = CommitLog(self.database, self.topic), secrets.token_hex(8)
        plan = EnginePlan.of((), self.settings.limits, TopicStore(self.database).freeze(self.topic))
        ledger = ByteLedger.from_rows(vars(row) for row in log.ledger())
        ends = {str(number): end for number, end in self._positions().items()}
        head = log.head()
        position = dict(head.end) if head else {}
        left = [each for each in self._files() if each.first >= position.get(str(each.partition), 0)]
        for files in together(left):
            found, added = gather(lambda known, _: self._pass(plan, known, files), ledger, self._recent)  # noqa: B023
            ledger.update(added)
            self.lines += found.counts["lines"]
            self.doubled += found.counts["doubled"]
            found = without_redacted(found)
            self._recent = added.files() or self._recent
            after = {**position, **{str(file.partition): file.next for file in files}}
            log.append(replace(self._next(log, token, found, added), start=position, end=after))
            position = after
            say(f"{self.lines:,} lines, {self.doubled:,} of them doubles")
        if log.head() is None or position != ends:  # the newest file may say what was lost, and have no lines
            nothing = Gathered.of(FOUND.empty_table())
            last = self._next(log, token, nothing, ByteLedger())
            log.append(replace(last, start=position, end={**position, **ends}))

    def _positions(self) -> dict[int, int]:
        return index.positions(self.settings, self.topic)

    def _files(self) -> list[IndexedFile]:
        """The files with lines, in the order of their positions, those of earlier topics of the name, too."""
        found = index.files_for(self.settings, self.topic, None, self._positions())
        return sorted(found, key=lambda file: (file.partition, file.first))

    def _pass(self, plan: EnginePlan, known: pa.Table, files: Sequence[IndexedFile]) -> Gathered:
        lines = (batch for file in files for batch in whole_records(self._lines(file)))
        rows = PartitionPass(plan, self.topic, known)(lines)
        return Gathered.of(pa.Table.from_batches(rows, FOUND))

    def _lines(self, file: IndexedFile) -> Iterator[pa.RecordBatch]:
        """A file's lines as LINE_SCHEMA."""
        pieces = [RowGroups(self.settings.hdfs.namenode + file.path, file.bytes, 0, file.bytes)]
        for batch in read(Stores.of(self.settings), pieces, _COLUMNS, PASS_LINES, PASS_BYTES):
            columns = {name: batch.column(name) for name in _COLUMNS}
            columns["partition"] = pa.array(np.full(len(batch), file.partition, np.int32))
            columns[LINE_IN_RECORD] = pc.fill_null(
                columns[LINE_IN_RECORD], 0
            )  # older files have a line a record
            yield pa.RecordBatch.from_arrays([columns[each.name] for each in LINE_SCHEMA], schema=LINE_SCHEMA)

    def _next(self, log: CommitLog, token: str, found: Gathered, added: ByteLedger) -> Commit:
        """The commit after the newest, still without its positions."""
        head, now = log.head(), datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)  # HBase's times are in ms
        if head:
            before = head.committed_at if head.committed_at.tzinfo else head.committed_at.replace(tzinfo=UTC)
            now = max(now, before + COMMITS_APART)
        return Commit(
            seq=1 + (head.seq if head else self._newest_of_ranges()),
            token=token,
            topic_id=self._topic_id(),
            committed_at=now,
            start={},
            end={},
            tasks=sorted(log.open_versions()),
            counts=found.counts,
            ledger=[LedgerRow(**row) for row in added.to_rows()],
            days=[day_lines(row) for row in found.days.to_pylist()],
            dead_letters=found.dead_letters.to_pylist(),
        )

    def _newest_of_ranges(self) -> int:
        """The newest commit that is known to have been: numbers go on after it."""
        t = schema.task_ranges.c
        query = sa.select(sa.func.max(t.first_seq), sa.func.max(t.end_seq)).where(t.topic == self.topic)
        with self.database.connect() as connection:
            return max((number or 0 for number in connection.execute(query).one()), default=0)

    def _topic_id(self) -> str:
        """The id of the topic that the newest records are of."""
        known = {log.newest.topic_id for log in eras.logs(self.database, self.topic).values()}
        newest = max(self._files(), key=lambda file: file.arrival_min, default=None)
        return known.pop() if len(known) == 1 else newest.topic_id if newest else ""


def without_redacted(found: Gathered) -> Gathered:
    """The same as erasures leave the books: redacted lines are no dead letters, and have a sum of their own.

    The days that they were of stay, so nights compute them again.
    """
    letters = found.dead_letters
    erased = are_redacted(letters)
    if not (number := int(erased.sum())):
        return found
    own = letters.filter(pa.array(erased))
    (batch,) = own.combine_chunks().to_batches()
    ms, timed = with_days(batch, np.zeros(number, np.int64), np.zeros(number, bool))
    without = days(batch, ms, pa.array(timed))
    none = pa.array(np.zeros(len(without), np.int64))
    counts = dict(found.counts)
    return replace(
        found,
        dead_letters=letters.filter(pa.array(~erased)),
        days=pa.concat_tables([found.days, without.set_column(2, "lines", none)]),
        counts={
            **counts,
            "lines": counts["lines"] - number,
            "dead": counts["dead"] - number,
            "redacted": number,
        },
    )


def together(files: Iterable[IndexedFile]) -> Iterator[list[IndexedFile]]:
    """The files in groups, each for a commit."""
    group: list[IndexedFile] = []
    for file in files:
        if group and sum(each.bytes for each in group) + file.bytes > COMMIT_BYTES:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def whole_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same lines, and no batch ends inside a record."""
    held: pa.RecordBatch | None = None
    for batch in batches:
        both = batch if held is None else pa.concat_batches([held, batch])
        offsets = np.asarray(both.column("offset"))
        cut = int(np.searchsorted(offsets, offsets[-1])) if len(offsets) else 0
        if cut:
            yield both.slice(0, cut)
        held = both.slice(cut)
    if held is not None and len(held):
        yield held
