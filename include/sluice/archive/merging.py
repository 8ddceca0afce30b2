"""One archive file made of several that follow each other: the same lines, and one footer for all.

It is made in memory, which holds its packed bytes and the lines of a row group.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sluice.archive.contents import checked_tables
from sluice.archive.file import COLUMNS, GAP_MS, STRETCHES, ArchiveFile, now_ms, parquet_writer
from sluice.archive.footer import Footer, of_opened
from sluice.runtime.days import DAY_MS
from sluice.transmission.redacted import are_redacted

#: Bytes of lines in a row group, as in a full file of the archiver's: readers hold one at a time.
GROUP_BYTES = 64 << 20

#: The first and the last event time of some lines; None: none of them has one.
Span = tuple[int, int] | None


def merged(
    parts: Iterable[tuple[str, pa.NativeFile]],
    change: Callable[[pa.Table], pa.Table] = lambda lines: lines,
    *,
    revision: int = 0,
) -> ArchiveFile:
    """The file of all lines of these files (path, and open to be read), which follow each other.

    change: what becomes of lines (COLUMNS), row for row. revision: how often it erased some.

    Raises UnreadableArchiveFile where one has not the lines that its footer counts, and ValueError where they
    do not follow each other.
    """
    footers: list[Footer] = []
    out = pa.BufferOutputStream()
    with parquet_writer(out) as writer:
        groups: list[Span] = []
        redacted = 0
        for lines, span in _grouped(_lines(parts, footers)):
            table = change(lines)
            writer.write_table(table, row_group_size=len(table))
            groups.append(span)
            redacted += int(are_redacted(table).sum())
        made = combined(footers)
        footer = replace(made, groups=tuple(groups), redacted=redacted, revision=revision)
        writer.add_key_value_metadata(footer.to_metadata())
    return ArchiveFile(footer, out.getvalue().to_pybytes())


def combined(footers: Sequence[Footer]) -> Footer:
    """What the file that is made of these says. Raises ValueError where they do not follow each other."""
    for before, after in pairwise(footers):
        if before.next != after.first:
            raise ValueError(f"offset {before.next} is followed by {after.first}")
    first, last = footers[0], footers[-1]
    with_lines = [each for each in footers if each.lines]
    events = [ms for each in footers for ms in (each.event_min, each.event_max) if ms is not None]
    days: dict[str, int] = {}
    for each in footers:
        for day, lines in each.days.items():
            days[day] = days.get(day, 0) + lines
    return Footer(
        topic=first.topic,
        topic_id=first.topic_id,
        partition=first.partition,
        first=first.first,
        next=last.next,
        records=sum(each.records for each in footers),
        lines=sum(each.lines for each in footers),
        skipped=sum(each.skipped for each in footers),
        arrival_min=min(each.arrival_min for each in with_lines),
        arrival_max=max(each.arrival_max for each in with_lines),
        event_min=min(events, default=None),
        event_max=max(events, default=None),
        days=dict(sorted(days.items())),
        times=_times(footers) if any(each.times for each in footers) else {},
        unparsed=sum(each.unparsed for each in footers),
        generation=last.generation,
        claim=secrets.token_hex(8),
        written_at=now_ms(),
        merged=sum(each.merged for each in footers),
    )


def _lines(
    parts: Iterable[tuple[str, pa.NativeFile]], footers: list[Footer]
) -> Iterator[tuple[pa.Table, Span]]:
    """The parts' row groups (COLUMNS), each with its span; what older files lack is null.

    The parts' footers are added to `footers`.
    """
    for path, opened in parts:
        footers.append(footer := of_opened(path, opened))
        whole = None if footer.event_min is None else (footer.event_min, footer.event_max or 0)
        for number, table in enumerate(checked_tables(path, opened, footer)):
            columns = [
                table.column(field.name).cast(field.type)
                if field.name in table.column_names
                else pa.nulls(len(table), field.type)
                for field in COLUMNS
            ]
            span = footer.groups[number] if footer.groups else whole
            yield pa.Table.from_arrays(columns, schema=COLUMNS), span


def _grouped(tables: Iterable[tuple[pa.Table, Span]]) -> Iterator[tuple[pa.Table, Span]]:
    """The same lines in tables of about GROUP_BYTES."""
    own: list[pa.Table] = []
    spans: list[Span] = []
    size = 0
    for table, span in tables:
        if own and size + table.nbytes > GROUP_BYTES:
            yield pa.concat_tables(own).combine_chunks(), _widest(spans)
            own, spans, size = [], [], 0
        own.append(table)
        spans.append(span)
        size += table.nbytes
    if own:
        yield pa.concat_tables(own).combine_chunks(), _widest(spans)


def _widest(spans: Iterable[Span]) -> Span:
    known = [each for each in spans if each is not None]
    return (min(first for first, _ in known), max(last for _, last in known)) if known else None


def _times(footers: Sequence[Footer]) -> dict[str, tuple[int, ...]]:
    """The stretches of event time of each day's lines; of an older file it is its whole time of that day."""
    found: dict[str, list[tuple[int, int]]] = {}
    for each in footers:
        for day in each.days:
            said = each.times.get(day) or _whole(each, day)
            found.setdefault(day, []).extend(zip(said[::2], said[1::2], strict=True))
    return {day: _stretches(own) for day, own in sorted(found.items())}


def _whole(footer: Footer, day: str) -> tuple[int, int]:
    begin = int(np.datetime64(day, "D").astype(np.int64)) * DAY_MS
    end = begin + DAY_MS - 1
    first, last = footer.event_min, footer.event_max
    return (begin if first is None else max(begin, first)), (end if last is None else min(end, last))


def _stretches(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """These spans as at most STRETCHES, with gaps of more than GAP_MS."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first - joined[-1][1] <= GAP_MS:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    widest = sorted(range(1, len(joined)), key=lambda at: joined[at - 1][1] - joined[at][0])
    begins = [0, *sorted(widest[: STRETCHES - 1])]
    ends = [*(at - 1 for at in begins[1:]), -1]
    return tuple(ms for b, e in zip(begins, ends, strict=True) for ms in (joined[b][0], joined[e][1]))
