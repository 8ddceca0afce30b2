"""An archive file's bytes and footer, from the lines that it holds."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.archive.contents import RecordCount
from sluice.archive.footer import Footer
from sluice.engine.parse import event_time
from sluice.runtime.arrays import Ints
from sluice.runtime.days import DAY_MS
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_schema import LAST_OFFSET, LINE_IN_RECORD, LINE_SCHEMA, UNREADABLE

#: LINE_SCHEMA without the partition, which the path and the footer say.
COLUMNS = pa.schema([field for field in LINE_SCHEMA if field.name != "partition"])
# zstd's level 1 packs access logs 8:1 at 300 MB/s; level 3 gains 6 % for half the speed.
COMPRESSION_LEVEL = 1
# A footer says for each day in which stretches of time its lines lie: up to STRETCHES, with gaps of more than
# GAP_MS. So a few late lines do not make a file look as if it had lines of all the time between.
STRETCHES, GAP_MS = 8, 60_000
# Chunks with fewer lines are joined first: each chunk costs something of its own.
CHUNK_LINES = 4_096


@dataclass(frozen=True)
class ArchivedPartition:
    """A partition of one incarnation of a topic."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True)
class ArchiveFile:
    """A file ready to be written: its bytes and what its footer says."""

    footer: Footer
    data: bytes


def of_records(
    place: ArchivedPartition,
    first: int,
    batches: Sequence[pa.RecordBatch],
    generation: int,
    topic: TopicSpec | None = None,
    *,
    following: int | None = None,
) -> ArchiveFile:
    """The file of the lines of whole records, from `first` (the chain's end) to after the last record.

    topic: says how its lines tell their time; without it they tell it as an access log's do. following: where
    the file ends, if offsets without a record come before that. There is at least one line. Raises ValueError
    where the lines' places (offset, line_in_record) do not rise from `first` on, or lack a record's
    beginning: that would be a fault of this program.
    """
    table = pa.Table.from_batches(batches, schema=LINE_SCHEMA)
    if len(batches) * CHUNK_LINES > len(table):
        table = table.combine_chunks()
    found = RecordCount()
    found.add(table)
    if found.first < first or not found.sound:
        raise ValueError(f"{place}: records from offset {found.first} on, out of order behind {first}")
    arrival = table.column("arrival").to_numpy()
    known = _event_times(table.column("line"), topic or TopicSpec(name=place.topic))
    following = following or found.next
    footer = Footer(
        topic=place.topic,
        topic_id=place.topic_id,
        partition=place.partition,
        first=first,
        next=following,
        records=found.records,
        lines=found.lines,
        skipped=following - first - found.records,
        arrival_min=int(arrival.min()),
        arrival_max=int(arrival.max()),
        event_min=int(known.min()) if len(known) else None,
        event_max=int(known.max()) if len(known) else None,
        days=_days(known),
        times=_times(known),
        unparsed=found.lines - len(known),
        generation=generation,
        claim=secrets.token_hex(8),
        written_at=now_ms(),
    )
    return ArchiveFile(footer, _encode(table.select(COLUMNS.names).cast(COLUMNS), footer))


def of_loss(place: ArchivedPartition, first: int, following: int, why: str, generation: int) -> ArchiveFile:
    """The file for positions [first, following) whose records Kafka dropped before they were archived."""
    return _without_lines(place, first, following, generation, why)


def of_seam(place: ArchivedPartition, first: int, following: int, generation: int) -> ArchiveFile:
    """The file for positions [first, following) between two eras of the log: nothing was there."""
    return _without_lines(place, first, following, generation, None)


def _without_lines(
    place: ArchivedPartition, first: int, following: int, generation: int, why: str | None
) -> ArchiveFile:
    now = now_ms()
    footer = Footer(
        topic=place.topic,
        topic_id=place.topic_id,
        partition=place.partition,
        first=first,
        next=following,
        records=0,
        lines=0,
        skipped=following - first,
        arrival_min=now,
        arrival_max=now,
        event_min=None,
        event_max=None,
        days={},
        unparsed=0,
        generation=generation,
        claim=secrets.token_hex(8),
        written_at=now,
        loss=why,
    )
    return ArchiveFile(footer, _encode(COLUMNS.empty_table(), footer))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _event_times(line: pa.ChunkedArray, topic: TopicSpec) -> Ints:
    """The event times of the lines that have one."""
    read = (event_time(chunk, topic) for chunk in line.chunks)
    return np.concatenate([ms[valid] for ms, valid in read])


def _days(event_ms: Ints) -> dict[str, int]:
    days, lines = np.unique(event_ms // DAY_MS, return_counts=True)
    return {str(np.datetime64(int(day), "D")): int(n) for day, n in zip(days, lines, strict=True)}


def _times(event_ms: Ints) -> dict[str, tuple[int, ...]]:
    """The stretches of time in which the lines of each day lie: first, last, first, last ..., in order."""
    in_order = np.sort(event_ms)
    days, first = np.unique(in_order // DAY_MS, return_index=True)
    parts = np.split(in_order, first[1:]) if len(in_order) else []
    return {str(np.datetime64(int(d), "D")): _stretches(own) for d, own in zip(days, parts, strict=True)}


def _stretches(in_order: Ints) -> tuple[int, ...]:
    gaps = np.diff(in_order)
    widest = np.argsort(gaps, kind="stable")[::-1][: STRETCHES - 1]
    cuts = np.sort(widest[gaps[widest] > GAP_MS])
    first, last = in_order[np.append(0, cuts + 1)], in_order[np.append(cuts, len(in_order) - 1)]
    return tuple(np.column_stack([first, last]).ravel().tolist())


def parquet_writer(out: pa.NativeFile) -> pq.ParquetWriter:
    """The writer of a file's lines (COLUMNS)."""
    return pq.ParquetWriter(
        out,
        COLUMNS,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=["host", "src_file", UNREADABLE],
        column_encoding={
            "offset": "DELTA_BINARY_PACKED",
            "arrival": "DELTA_BINARY_PACKED",
            "src_offset": "DELTA_BINARY_PACKED",
            LINE_IN_RECORD: "DELTA_BINARY_PACKED",
            LAST_OFFSET: "DELTA_BINARY_PACKED",
        },
    )


def _encode(table: pa.Table, footer: Footer) -> bytes:
    out = pa.BufferOutputStream()
    with parquet_writer(out) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(footer.to_metadata())
    return bytes(out.getvalue())
