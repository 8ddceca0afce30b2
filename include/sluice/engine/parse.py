"""When a line happened, and why a line cannot be counted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.cut import COMPILED_LINES, raw, stretches
from sluice.engine.extract import BatchLines, text
from sluice.engine.times import HOURS, MONTHS, SIXTY, instants, read_times
from sluice.runtime.arrays import Bools, Bytes, Ints
from sluice.runtime.sections import Limits
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_schema import FORGED, UNREADABLE

NO_EVENT_TIME = "no event time"
#: A record came with an identity that it could not prove (`transmission.mac`).
NOT_GENUINE = "forged"

#: Apache's %t, e.g. [17/May/2015:10:05:03 +0000]; if a line has several, the first counts.
_STAMP = r"\[([0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4})\]"
#: The same by position: d is a digit, U and l are letters, s is a sign, the rest stands for itself.
_SHAPE = "dd/Ull/dddd:dd:dd:dd sdddd"
_DIGITS, _LETTERS = 10, 26


def event_time(line: pa.Array, topic: TopicSpec) -> tuple[Ints, Bools]:
    """Each line's own time in ms since the epoch, and whether it has one (0 if it has none).

    `line` is binary, without nulls. The stamp must be a real date of the years 1970 to 9998 with a real time.
    """
    time = topic.time
    if time is None or time.extract is None:
        return bracketed(line)
    values = BatchLines(line, {}, topic).values(time.extract)
    ms, valid = read_times(values.distinct, time)
    return np.append(ms, 0)[values.codes], np.append(valid, False)[values.codes]


def bracketed(line: pa.Array) -> tuple[Ints, Bools]:
    """The time of lines that have it in brackets, as Apache writes it.

    A stamp right after the first bracket is read by position; lines that have none there are searched.
    """
    if len(line) == 0:
        return np.zeros(0, np.int64), np.zeros(0, bool)
    ms, valid, shaped = (_compiled if len(line) >= COMPILED_LINES else _by_position)(line)
    search = np.flatnonzero(~shaped)
    if len(search):
        found = pl.Series(pl.from_arrow(text(line.take(pa.array(search))))).str.extract(_STAMP, 1)
        hits = search[found.is_not_null().to_numpy()]
        flat = np.frombuffer("".join(found.drop_nulls().to_list()).encode(), np.uint8)
        _, ms[hits], valid[hits] = _read(list(flat.reshape(-1, len(_SHAPE)).T))
    return ms, valid


def _compiled(line: pa.Array) -> tuple[Ints, Bools, Bools]:
    """Read the stamp after each line's first bracket with a kernel.

    Returns its time, whether that time is real, and whether there is a stamp at all.
    """
    from sluice.engine import kernels

    bounds, buffer = raw(line)
    ms, valid, shaped = np.empty(len(line), np.int64), np.empty(len(line), bool), np.empty(len(line), bool)
    months = np.frombuffer("".join(MONTHS).encode(), np.uint8)
    kernels.stamps(buffer, bounds, months, ms, valid, shaped)
    return ms, valid, shaped


def _by_position(line: pa.Array) -> tuple[Ints, Bools, Bools]:
    """What `_compiled` does, by numpy, one position of the stamp at a time."""
    ms, valid = np.zeros(len(line), np.int64), np.zeros(len(line), bool)
    shaped = np.zeros(len(line), bool)
    at = pc.find_substring(line, b"[").to_numpy(zero_copy_only=False).astype(np.int64) + 1
    starts, ends, buffer = stretches(line)
    fits = np.flatnonzero((at > 0) & (starts + at + len(_SHAPE) < ends))
    first = (starts + at)[fits]
    closed = buffer[first + len(_SHAPE)] == ord("]")
    fits, first = fits[closed], first[closed]
    shaped[fits], ms[fits], valid[fits] = _read([buffer[first + k] for k in range(len(_SHAPE))])
    return ms, valid, shaped


def dead_reason(line: pa.Array, valid: Bools, limits: Limits, refused: pa.Array | None = None) -> pa.Array:
    """Why no task can count a line; null if tasks can.

    `refused`: why its record gives none (forged, unreadable), null where it does. Else the line may be too
    long, or without a time.
    """
    bounds, _ = raw(line)
    long = np.diff(bounds) > limits.line_bytes
    fine = refused is None or refused.null_count == len(refused)
    if valid.all() and not long.any() and fine:
        return pa.nulls(len(line), pa.string())
    reasons = np.full(len(line), None, object)
    reasons[~valid] = NO_EVENT_TIME
    reasons[long] = f"line over {limits.line_bytes} bytes"
    found = pa.array(reasons, pa.string())
    return found if refused is None else pc.coalesce(refused, found)


def refused(lines: pa.RecordBatch | pa.Table) -> pa.Array | None:
    """Why a row of LINE_SCHEMA gives no line; null where it does. None: each does."""
    if FORGED not in lines.schema.names:
        return None
    forged, unreadable = _whole(lines.column(FORGED)), _whole(lines.column(UNREADABLE))
    if unreadable.null_count == len(unreadable) and not forged.true_count:
        return None
    reason = pc.replace_substring_regex(unreadable, ":.*", "")
    return pc.if_else(pc.fill_null(forged, False), NOT_GENUINE, reason)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _read(columns: list[Bytes]) -> tuple[Bools, Ints, Bools]:
    """Read stamps, given as one array per character.

    Returns which have the shape of a stamp, their times in ms, and which of these are real.
    """
    shaped = np.ones(len(columns[0]), bool)
    for kind, column in zip(_SHAPE, columns, strict=True):
        if kind == "d":
            shaped &= (column - np.uint8(ord("0"))) < _DIGITS  # wraps below "0"
        elif kind == "U":
            shaped &= (column - np.uint8(ord("A"))) < _LETTERS
        elif kind == "l":
            shaped &= (column - np.uint8(ord("a"))) < _LETTERS
        elif kind == "s":
            shaped &= (column == ord("+")) | (column == ord("-"))
        else:
            shaped &= column == ord(kind)

    def number(start: int, stop: int) -> Ints:
        value = np.zeros(len(shaped), np.int64)
        for column in columns[start:stop]:
            value = value * 10 + column - ord("0")
        return value

    day, year, hour, minute, second = (
        number(a, b) for a, b in ((0, 2), (7, 11), (12, 14), (15, 17), (18, 20))
    )
    month = np.zeros(len(shaped), np.int64)
    for n, name in enumerate(MONTHS, 1):
        month[(columns[3] == ord(name[0])) & (columns[4] == ord(name[1])) & (columns[5] == ord(name[2]))] = n
    zone_hour, zone_minute = number(22, 24), number(24, 26)
    zone = (zone_hour * 60 + zone_minute) * np.where(columns[21] == ord("-"), -1, 1)
    ms, valid = instants(year=year, month=month, day=day, hour=hour, minute=minute, second=second)
    valid &= shaped & (zone_hour < HOURS) & (zone_minute < SIXTY)
    return shaped, np.where(valid, ms - zone * 60_000, 0), valid
