"""Arrow rows as CSV, JSON, Arrow streams and Parquet, a batch at a time, without a loop over rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.results.spreadsheet import FORMULA

#: What a dimension shows in the row of the rest of a top list.
OTHER = "(other)"
#: The key of what an Arrow stream says of its rows, in the metadata of its last batch, which is empty.
ABOUT = "sluice"
#: Doubles above this print with an exponent, so that nobody takes all their digits for exact.
_EXACT = float(1 << 53)
_SPECIAL = '[",\r\n]'
#: Dictionaries whose cells are kept: twice as many as a task may have dimensions.
_MOST_KNOWN = 32


def csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """A header, and a line for each row."""
    yield (",".join(schema.names) + "\n").encode()
    texts = _Texts(_csv_values)
    for batch in batches:
        yield _lines([_csv(column, texts) for column in batch.columns], ",", "\n")
        yield b"\n"


def json_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """A list of objects, one a line."""
    yield b"["
    before = b"\n "
    texts = _Texts(_json_values)
    named = [f"{json.dumps(name, ensure_ascii=False)}: " for name in schema.names]
    for batch in batches:
        cells = [
            pc.binary_join_element_wise(name, _json(column, texts), "")
            for name, column in zip(named, batch.columns, strict=True)
        ]
        objects = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*cells, ", "), "}", "")
        yield before
        yield _lines([objects], "", ",\n ")
        before = b",\n "
    yield b"\n]\n"


def arrow(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], about: Callable[[], Mapping[str, Any]]
) -> Iterator[bytes]:
    """An Arrow IPC stream; what is said `about` the rows, as JSON, comes with an empty batch at its end."""
    sink = _Sink()
    with pa.ipc.new_stream(sink, schema) as writer:
        yield sink.take()
        last = pa.RecordBatch.from_pylist([], schema)
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
            last = batch
        writer.write_batch(last.slice(0, 0), custom_metadata={ABOUT: json.dumps(about())})
    yield sink.take()


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    """Write a Parquet file."""
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def times(column: pa.Array) -> list[str]:
    """Times in ISO 8601, as in CSV and JSON."""
    texts: list[str] = _times(column).to_pylist()
    return texts


class _Sink:
    """A file that gives back what was written to it since the last time."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(self._written[-1])

    def take(self) -> bytes:
        written, self._written = b"".join(self._written), []
        return written

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """What was written stays."""


class _Texts:
    """The cells of dictionaries' values, made once for batches that share a dictionary."""

    def __init__(self, made: Callable[[pa.Array], pa.Array]) -> None:
        self._made = made
        self._known: dict[tuple[int, ...], tuple[pa.Array, pa.Array]] = {}

    def of(self, column: pa.DictionaryArray) -> pa.Array:
        values = column.dictionary
        key = (len(values), values.offset, *(b.address if b is not None else 0 for b in values.buffers()))
        if key not in self._known:
            while len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            # The values are kept too: as long as they are, no others have their addresses.
            self._known[key] = values, self._made(values)
        return self._known[key][1].take(column.indices)


def _lines(cells: Sequence[pa.Array], between: str, newline: str) -> bytes:
    rows = cells[0] if len(cells) == 1 else pc.binary_join_element_wise(*cells, between)
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    joined: bytes = pc.binary_join(whole, newline)[0].as_buffer().to_pybytes()
    return joined


def _csv(column: pa.Array, texts: _Texts) -> pa.Array:
    """A column's cells: empty where there is no value, quoted where a reader would end the cell."""
    if pa.types.is_dictionary(column.type):
        return texts.of(column).fill_null(OTHER)
    if pa.types.is_string(column.type):
        return _quoted(column).fill_null("")
    return _plain(column).fill_null("")


def _csv_values(values: pa.Array) -> pa.Array:
    return _quoted(_guarded(values))


def _json(column: pa.Array, texts: _Texts) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return texts.of(column).fill_null("null")
    if pa.types.is_timestamp(column.type):
        return pc.binary_join_element_wise('"', _plain(column), '"', "")
    if pa.types.is_floating(column.type):  # JSON has no infinity
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return _plain(column).fill_null("null")  # a list is JSON already


def _json_values(values: pa.Array) -> pa.Array:
    return pa.array((json.dumps(each, ensure_ascii=False) for each in values.to_pylist()), pa.string())


def _plain(column: pa.Array) -> pa.Array:
    """Numbers, times and lists as text; integral doubles without a point, times in ISO 8601."""
    if pa.types.is_timestamp(column.type):
        return _times(column)
    if pa.types.is_floating(column.type):
        fits = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), _EXACT))
        integers = pc.if_else(fits, column, 0.0).cast(pa.int64()).cast(pa.string())
        return pc.if_else(fits, integers, column.cast(pa.string()))
    return column.cast(pa.string())


def _times(column: pa.Array) -> pa.Array:
    whole = not pc.any(pc.not_equal(pc.millisecond(column), 0)).as_py()
    seconds = column.cast(pa.timestamp("s" if whole else "ms", tz=column.type.tz))
    text = pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%S%Ez")
    return pc.replace_substring(text, "+00:00", "Z") if column.type.tz == "UTC" else text


def _guarded(values: pa.Array) -> pa.Array:
    """Text from a log line must not become a formula in a spreadsheet."""
    formula = pc.match_substring_regex(values, f"^[{''.join(FORMULA)}]".replace("+-", "+\\-"))
    return pc.if_else(formula, pc.binary_join_element_wise("'", values, ""), values)


def _quoted(values: pa.Array) -> pa.Array:
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(values, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(values, _SPECIAL), quoted, values)
