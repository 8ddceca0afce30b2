"""Results for a reconciliation, made by the platform's own parts without Kafka and Flume."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition, of_records
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.results import results
from sluice.engine.schema import partials_schema
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from sluice.state.cells import online_cells
from sluice.storage.hbase import RESULTS, HBase
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.tables import schema, tallies
from sluice.storage.tables.commits import Commit, CommitLog, DayLines
from sluice.tasks.spec import TaskSpec, TopicSpec
from sluice.tasks.store import TaskStore
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import LINE_SCHEMA

Line = tuple[str, int, bytes]  # file, offset in it, text
#: A Kafka record has up to so many lines of a file.
BLOCK_LINES = 3


class TwoLayers:
    """A topic whose lines are archived and counted on demand, in one process."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.settings, self.topic, self.topic_id = settings, topic, secrets.token_hex(8)
        self.database = engine(settings)
        self.tasks = TaskStore(self.database)
        self.log = CommitLog(self.database, topic)
        self.next: defaultdict[int, int] = defaultdict(int)
        self.counted: dict[str, int] = {}
        self._archived: dict[int, int] = defaultdict(int)
        self._partials = partials_schema().empty_table()
        self._ledger = ByteLedger()
        self._seq = 0

    def forget(self) -> None:
        """Delete everything that belongs to the topic."""
        with self.database.begin() as connection:
            ids = sa.select(schema.tasks.c.id).where(schema.tasks.c.topic == self.topic)
            for table in (schema.task_versions, schema.task_changes):
                connection.execute(sa.delete(table).where(table.c.task_id.in_(ids)))
            for table in schema.metadata.tables.values():
                if "topic" in table.c:
                    connection.execute(sa.delete(table).where(table.c.topic == self.topic))
        HdfsStore.of(self.settings).delete(f"{self.settings.hdfs.raw}/{self.topic}", recursive=True)

    def apply(self, *specs: TaskSpec) -> None:
        self.tasks.apply(specs, "test")

    def records(self, lines: Sequence[Line], partition: int = 0) -> pa.RecordBatch:
        """The lines as they come out of Kafka: in blocks of up to BLOCK_LINES."""
        first, number, places = self.next[partition], -1, list[int]()
        offsets, following = list[int](), None
        for name, begin, text in lines:
            follows = (name, begin) == following and places[-1] + 1 < BLOCK_LINES
            number += not follows
            offsets.append(first + number)
            places.append(places[-1] + 1 if follows else 0)
            following = (name, begin + len(text) + 1)
        self.next[partition] += number + 1
        columns = [
            pa.array([partition] * len(lines), pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([1_700_000_000_000] * len(lines), pa.int64()),
            pa.array(["web1"] * len(lines)),
            pa.array([name for name, _, _ in lines]),
            pa.array([offset for _, offset, _ in lines], pa.int64()),
            pa.array([text for _, _, text in lines], pa.binary()),
            pa.array([False] * len(lines)),
            pa.array(places, pa.int32()),
            pa.nulls(len(lines), pa.string()),
            pa.nulls(len(lines), pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=LINE_SCHEMA)

    def archive(self, records: pa.RecordBatch, partition: int = 0) -> None:
        place = ArchivedPartition(self.topic, self.topic_id, partition)
        file = of_records(place, self._archived[partition], [records], generation=1)
        directory = layout.partition_directory(self.settings, self.topic, self.topic_id, partition)
        claims = Claims(HdfsStore.of(self.settings), directory)
        footer, size = claims.publish(file)
        self._archived[partition] = footer.next
        indexing.add(self.database, [(footer, size, claims.path(footer.first))])

    def count(self, records: pa.RecordBatch, given_up: Mapping[str, int] | None = None) -> None:
        """Make one commit of the speed layer, which may pass records, and put its results into HBase."""
        found, ends = identify(records, self.topic)
        fresh = self._ledger.claim(
            found.column("host"), found.column("src_file"), found.column("src_offset"), ends
        )
        unique = found.filter(pa.array(fresh))
        active = self.tasks.active(self.topic)
        counted = count(unique, EnginePlan.of(active, self.settings.limits, TopicSpec(name=self.topic)))
        self._partials = merge(pa.concat_tables([self._partials, counted.partials]))
        tasks = {(task.task_id, task.version): task for task in active}
        open_ = self.log.open_versions()
        end = dict(self.counted)
        offsets = found.column("offset").to_numpy()
        for partition in np.unique(found.column("partition").to_numpy()).tolist():
            inside = found.column("partition").to_numpy() == partition
            end[str(partition)] = int(offsets[inside].max()) + 1
        end |= given_up or {}
        self._seq += 1
        at = datetime.now(UTC)
        self.log.append(
            Commit(
                seq=self._seq,
                token=secrets.token_hex(8),
                topic_id=self.topic_id,
                committed_at=at,
                start=dict(self.counted),
                end=end,
                tasks=list(tasks),
                counts={"lines": len(found)},
                opened=sorted(set(tasks) - open_),
                closed=sorted(open_ - set(tasks)),
                days=_days(unique, counted.event_ms, counted.reason),
                tallies=tallies.rows(counted.tallies.to_pylist()),
                skipped=tallies.rows(counted.skipped.to_pylist()),
            )
        )
        self.counted = end
        touched = results(self._partials, tasks)
        with HBase.of(self.settings) as store:
            store.put_table(RESULTS, online_cells(touched), timestamp=round(at.timestamp() * 1000))
        self.log.set_projected(self._seq)

    def both(self, lines: Sequence[Line], partition: int = 0) -> None:
        records = self.records(lines, partition)
        self.archive(records, partition)
        self.count(records)


def _days(records: pa.RecordBatch, event_ms: np.ndarray, reason: pa.Array) -> list[DayLines]:
    alive = reason.is_null().to_numpy(zero_copy_only=False)
    partitions, offsets = records.column("partition").to_numpy(), records.column("offset").to_numpy()
    days = event_ms // 86_400_000
    return [
        DayLines(date(1970, 1, 1) + timedelta(days=day), partition, int(here.sum()), int(offsets[here].max()))
        for day in np.unique(days[alive]).tolist()
        for partition in np.unique(partitions[alive & (days == day)]).tolist()
        for here in [alive & (days == day) & (partitions == partition)]
    ]
