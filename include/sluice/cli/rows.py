"""Arrow rows as text or as a file, a batch at a time; for programs without a loop over rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.cli.format import FORMULA

#: What a dimension shows in the row of the rest of a top list.
OTHER = "(other)"
#: Doubles above this print with an exponent, so that nobody takes all their digits for exact.
_EXACT = float(1 << 53)
_SPECIAL = '[",\r\n]'


def for_people(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], metrics: Sequence[str]
) -> tuple[list[str], Iterator[list[object]]]:
    """Columns and rows; a value that is not exact is text, with its error."""
    from sluice.results.counted import with_error

    columns = [name for name in schema.names if name not in {f"{metric}_error" for metric in metrics}]
    encoded = {field.name for field in schema if pa.types.is_dictionary(field.type)}

    def cell(row: dict[str, Any], name: str) -> object:
        value = row[name]
        if name in metrics:
            value = json.loads(value) if isinstance(value, str) else value
            return with_error(name, value, row.get(f"{name}_error") or 0.0)
        return OTHER if value is None and name in encoded else value

    def rows() -> Iterator[list[object]]:
        for batch in batches:
            for row in batch.to_pylist():
                yield [cell(row, name) for name in columns]

    return columns, rows()


def write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    """Write a header and a line for each row."""
    out.write((",".join(schema.names) + "\n").encode())
    for batch in batches:
        cells = [_csv(column) for column in batch.columns]
        _lines(cells, ",", "\n", out)
        out.write(b"\n")


def write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    """Write a list of objects, one a line."""
    out.write(b"[")
    before = b"\n "
    for batch in batches:
        named = [f"{json.dumps(name, ensure_ascii=False)}: " for name in schema.names]
        cells = [
            pc.binary_join_element_wise(n, _json(c), "") for n, c in zip(named, batch.columns, strict=True)
        ]
        objects = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*cells, ", "), "}", "")
        out.write(before)
        _lines([objects], "", ",\n ", out)
        before = b",\n "
    out.write(b"\n]\n")


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    """Write a Parquet file."""
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _lines(cells: Sequence[pa.Array], between: str, newline: str, out: BinaryIO) -> None:
    rows = cells[0] if len(cells) == 1 else pc.binary_join_element_wise(*cells, between)
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    out.write(pc.binary_join(whole, newline)[0].as_buffer())


def _csv(column: pa.Array) -> pa.Array:
    """A column's cells: empty where there is no value, quoted where a reader would end the cell."""
    if pa.types.is_dictionary(column.type):
        cells = _quoted(_guarded(column.dictionary)).take(column.indices)
        return cells.fill_null(OTHER)
    if pa.types.is_string(column.type):
        return _quoted(column).fill_null("")
    return _plain(column).fill_null("")


def _json(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        texts = (json.dumps(value, ensure_ascii=False) for value in column.dictionary.to_pylist())
        return pa.array(texts, pa.string()).take(column.indices).fill_null("null")
    if pa.types.is_timestamp(column.type):
        return pc.binary_join_element_wise('"', _plain(column), '"', "")
    return _plain(column).fill_null("null")  # a list is JSON already


def _plain(column: pa.Array) -> pa.Array:
    """Numbers, times and lists as text; integral doubles without a point, times in ISO 8601."""
    if pa.types.is_timestamp(column.type):
        whole = not pc.any(pc.not_equal(pc.millisecond(column), 0)).as_py()
        seconds = column.cast(pa.timestamp("s" if whole else "ms", tz=column.type.tz))
        text = pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%S%Ez")
        return pc.replace_substring(text, "+00:00", "Z") if column.type.tz == "UTC" else text
    if pa.types.is_floating(column.type):
        fits = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), _EXACT))
        integers = pc.if_else(fits, column, 0.0).cast(pa.int64()).cast(pa.string())
        return pc.if_else(fits, integers, column.cast(pa.string()))
    return column.cast(pa.string())


def _guarded(values: pa.Array) -> pa.Array:
    """Text from a log line must not become a formula in a spreadsheet."""
    formula = pc.match_substring_regex(values, f"^[{''.join(FORMULA)}]".replace("+-", "+\\-"))
    return pc.if_else(formula, pc.binary_join_element_wise("'", values, ""), values)


def _quoted(values: pa.Array) -> pa.Array:
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(values, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(values, _SPECIAL), quoted, values)
