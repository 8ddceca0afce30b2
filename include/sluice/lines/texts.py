"""LINES as text, for JSON, CSV and terminals."""

from __future__ import annotations

import pyarrow as pa

from sluice.lines.answer import LINES

_WORDS = pa.dictionary(pa.int32(), pa.string())
#: LINES whose texts are texts; they are encoded, as those of results are.
TEXT_LINES = pa.schema(
    [
        pa.field(each.name, _WORDS)
        if pa.types.is_binary(each.type) or pa.types.is_string(each.type)
        else each
        for each in LINES
    ]
)


def as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """LINES as TEXT_LINES; bytes that are not UTF-8 become \\xNN."""
    columns = {name: batch.column(name) for name in LINES.names}
    columns["line"] = _text(columns["line"])
    return pa.RecordBatch.from_arrays(
        [columns[f.name].dictionary_encode() if f.type == _WORDS else columns[f.name] for f in TEXT_LINES],
        schema=TEXT_LINES,
    )


def _text(lines: pa.Array) -> pa.Array:
    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode("utf-8", "backslashreplace") for line in lines.to_pylist()], pa.string())
