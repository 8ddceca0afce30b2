"""A day of a topic as the archiver and the speed layer leave it: files, index, one commit and its state.

Some lines come late and some blocks come twice, as after a crash of Flume.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.file import ArchivedPartition, of_records
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.runtime.settings import Settings
from sluice.state.merging import merge_into_blocks
from sluice.storage.hbase import STATE, STATE_FAMILY, HBase
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.tables.commits import Commit, CommitLog
from sluice.storage.tables.epochs import PeriodKey, StatePeriod, column
from sluice.tasks import ActiveTask, TaskSpec, TopicSpec
from sluice.tasks.store import TaskStore
from sluice.transmission.line_schema import LINE_SCHEMA
from sluice_lab.bench import workload
from sluice_lab.bench.databases import database

TOPIC_ID = "bench"
PARTITIONS, LINES_A_RECORD, WRITERS = 4, 100, 4
DAY_SECONDS = 86_400
BEGIN_MS = round(workload.START.timestamp()) * 1000
#: This share of the lines comes up to two hours late; every so many records one comes again.
LATE, LATE_SECONDS, TWICE = 0.005, 7_200, 50
COUNTED_LINES = 200_000
PUT_BLOCKS = 200


@dataclass(frozen=True)
class ArchiveSize:
    """How much the archive has."""

    lines: int
    files: int  # a partition
    old_files: int  # in the index, of other days


@contextmanager
def archived_day(
    settings: Settings, size: ArchiveSize, specs: Sequence[TaskSpec]
) -> Iterator[tuple[Settings, str]]:
    """The settings of a database of its own, and the topic; everything is deleted afterwards."""
    topic = f"bench_{secrets.token_hex(4)}"
    with database(settings, topic) as own, HBase.of(own) as hbase:
        with engine(own).begin() as connection:
            first = 1_000_000 + secrets.randbelow(1_000_000_000)  # HBase's tables are shared
            connection.execute(sa.text(f"ALTER SEQUENCE tasks_id_seq RESTART WITH {first}"))
        rows: list[bytes] = []
        try:
            store = TaskStore(engine(own))
            store.apply([spec.model_copy(update={"topic": topic}) for spec in specs], "bench")
            lines = workload.lines(size.lines, DAY_SECONDS)
            ends = archive(own, topic, lines, size.files)
            rows = commit(own, hbase, topic, tasks=store.active(topic), lines=lines, ends=ends)
            add_old_files(own, topic, size.old_files)
            yield own, topic
        finally:
            HdfsStore.of(own).delete(f"{own.hdfs.raw}/{topic}", recursive=True)
            hbase.delete(STATE, [(row, [STATE_FAMILY]) for row in rows])


def archive(settings: Settings, topic: str, lines: pa.Array, files: int) -> dict[str, int]:
    """Archive the lines; returns the offset after each partition's last record."""
    store, ends = HdfsStore.of(settings), dict[str, int]()
    for partition in range(PARTITIONS):
        place, next_ = ArchivedPartition(topic, TOPIC_ID, partition), 0
        directory = layout.partition_directory(settings, topic, TOPIC_ID, partition)

        def publish(
            batch: pa.RecordBatch, first: int, directory: str = directory, place: ArchivedPartition = place
        ) -> None:
            made = of_records(place, first, [batch], generation=1)
            path = f"{directory}/{layout.file_name(first)}"
            store.write(path, made.data)
            indexing.add(engine(settings), [(made.footer, len(made.data), path)])

        with ThreadPoolExecutor(WRITERS) as pool:
            waiting = []
            for batch in records(lines, partition, files):
                waiting.append(pool.submit(publish, batch, next_))
                next_ = batch.column("offset")[-1].as_py() + 1
            for each in waiting:
                each.result()
        ends[str(partition)] = next_
    return ends


def records(lines: pa.Array, partition: int, files: int) -> Iterator[pa.RecordBatch]:
    """LINE_SCHEMA of each file of a partition, in the order of arrival."""
    dice = np.random.default_rng(partition)
    mine = np.arange(partition, len(lines), PARTITIONS)
    event = BEGIN_MS + mine * DAY_SECONDS * 1000 // len(lines)
    late = np.where(dice.random(len(mine)) < LATE, dice.integers(0, LATE_SECONDS * 1000, len(mine)), 0)
    order = np.argsort(event + late, kind="stable")
    mine, arrival = mine[order], (event + late)[order]
    size = pc.binary_length(lines).to_numpy()[mine] + 1
    begins = np.cumsum(size) - size
    numbers = np.arange(-(-len(mine) // LINES_A_RECORD))
    sent = np.repeat(numbers, np.where(numbers % TWICE == 0, 2, 1))
    offsets = np.arange(len(sent))
    for part in np.array_split(offsets, files):
        rows = (sent[part][:, None] * LINES_A_RECORD + np.arange(LINES_A_RECORD)).ravel()
        offset = np.repeat(part, LINES_A_RECORD)[rows < len(mine)]
        rows = rows[rows < len(mine)]
        columns = {
            "partition": pa.array(np.full(len(rows), partition, np.int32)),
            "offset": pa.array(offset),
            "arrival": pa.array(arrival[rows]),
            "host": pa.repeat(f"web{partition}", len(rows)),
            "src_file": pa.repeat("access.2015-05-17.log", len(rows)),
            "src_offset": pa.array(begins[rows]),
            "line": lines.take(pa.array(mine[rows])),
            "forged": pa.repeat(False, len(rows)),
            "line_in_record": pa.array((rows % LINES_A_RECORD).astype(np.int32)),
            "unreadable": pa.nulls(len(rows), pa.string()),
            "last_offset": pa.nulls(len(rows), pa.int64()),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in LINE_SCHEMA.names], schema=LINE_SCHEMA)


def commit(
    settings: Settings,
    hbase: HBase,
    topic: str,
    *,
    tasks: Sequence[ActiveTask],
    lines: pa.Array,
    ends: Mapping[str, int],
) -> list[bytes]:
    """Count all lines in one commit; returns the rows of the blocks that it wrote."""
    plan = EnginePlan.of(tasks, settings.limits, TopicSpec(name=topic))
    partials = partials_schema().empty_table()
    for begin in range(0, len(lines), COUNTED_LINES):
        own = lines.slice(begin, COUNTED_LINES)
        zeros = pa.array(np.zeros(len(own), np.int64))
        batch = pa.table({"partition": zeros.cast(pa.int32()), "offset": zeros, "line": own})
        partials = merge(pa.concat_tables([partials, count(batch, plan).partials]))
    token, blocks = secrets.token_hex(8), merge_into_blocks(partials, {}, lambda _: {}).blocks
    cells = [(block.row.encode(), {column(1, token): data}) for block, data in blocks.items()]
    for begin in range(0, len(cells), PUT_BLOCKS):
        hbase.put(STATE, cells[begin : begin + PUT_BLOCKS])
    periods: dict[PeriodKey, StatePeriod] = {}
    for block, data in blocks.items():
        known = periods.get(block.period)
        size = len(data) + (known.bytes if known else 0)
        periods[block.period] = StatePeriod(*block.period, block.layout, 1, 1, size)
    versions = [(task.task_id, task.version) for task in tasks]
    CommitLog(engine(settings), topic).append(
        Commit(
            *(1, token, TOPIC_ID, datetime.now(UTC), {}, dict(ends), versions, {"counted": len(lines)}),
            periods=list(periods.values()),
            opened=versions,
        )
    )
    return [row for row, _ in cells]


def add_old_files(settings: Settings, topic: str, files: int) -> None:
    """Rows of files of other days, as an archive has them after months."""
    statement = sa.text(
        """
        INSERT INTO archive_files (topic, topic_id, partition, first, next, records, lines, bytes,
            arrival_min, arrival_max, days, unparsed, generation, path)
        SELECT :topic, :id, n % :partitions, -n, 1 - n, 1, 400, 40000, 0, 0,
            jsonb_build_object(to_char(date '2015-05-01' - n / 5760, 'YYYY-MM-DD'),
                jsonb_build_array(400, 1000000000000 - n, 1000000015000 - n)), 0, 1, '/old/' || n
        FROM generate_series(1, :files) n"""
    )
    values = {"topic": topic, "id": TOPIC_ID, "partitions": PARTITIONS, "files": files}
    with engine(settings).begin() as connection:
        connection.execute(statement, values)
    with engine(settings).connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("VACUUM ANALYZE"))
