"""Dead letters as a file: JSON lines, CSV or Parquet, a portion at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sluice.results import formats
from sluice.storage.tables.dead_letters import DeadLetter

#: Limits of a portion: rows, and bytes of lines. A single line may have more.
PORTION_ROWS, PORTION_BYTES = 1_000, 8 << 20
#: Only the one who wrote the file reads it: its lines may hold anything.
MODE = 0o600

#: A row of the file.
EXPORTED = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("line_in_record", pa.int32()),
        ("host", pa.string()),
        ("src_file", pa.string()),
        ("src_offset", pa.int64()),
        ("reason", pa.string()),
        ("unreadable", pa.string()),
        ("last_offset", pa.int64()),
        ("arrived_at", pa.timestamp("ms", "UTC")),
        ("bytes", pa.int64()),  # of the whole line
        ("whole", pa.bool_()),  # whether `line` is all of it, and not its beginning
        ("line", pa.binary()),
    ]
)
_WORDS = pa.dictionary(pa.int32(), pa.string())
#: EXPORTED as texts, which CSV guards against formulas where they are encoded.
_TEXTS = pa.schema(
    [
        pa.field(each.name, _WORDS)
        if pa.types.is_string(each.type) or pa.types.is_binary(each.type)
        else each
        for each in EXPORTED
    ]
)

#: A letter and its whole line; None: only its beginning is known.
Read = tuple[DeadLetter, bytes | None]


class ExportRefused(ValueError):
    """The file cannot be written as it was asked for."""


def export(letters: Iterable[Read], path: Path, *, force: bool = False) -> int:
    """Write the letters to the file, in the format that its name ends with; returns how many.

    The file appears when it is complete. Raises ExportRefused if it is there already (without `force`), or
    its ending is none of jsonl, csv and parquet; OSError.
    """
    write = _writer(path)
    if not force and os.path.lexists(path):
        raise _there(path)
    number = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal number
        for batch in batches(letters):
            number += batch.num_rows
            yield batch

    with _new_file(path, force) as out:
        write(counted(), out)
    return number


def batches(letters: Iterable[Read]) -> Iterator[pa.RecordBatch]:
    """The letters as EXPORTED, in portions."""
    rows: list[dict[str, Any]] = []
    size = 0
    for letter, line in letters:
        shown = letter.line if line is None else line
        if rows and (len(rows) == PORTION_ROWS or size + len(shown) > PORTION_BYTES):
            yield pa.RecordBatch.from_pylist(rows, EXPORTED)
            rows, size = [], 0
        whole = {"line": shown, "whole": line is not None, "bytes": letter.size}
        rows.append({**vars(letter), **whole})
        size += len(shown)
    if rows:
        yield pa.RecordBatch.from_pylist(rows, EXPORTED)


def _jsonl(given: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    for batch in given:
        arrived = formats.times(batch.column("arrived_at"))
        for row, at in zip(batch.to_pylist(), arrived, strict=True):
            whole = {**row, "arrived_at": at, "line": _text(row["line"])}
            out.write(json.dumps(whole, ensure_ascii=False).encode() + b"\n")


def _csv(given: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    out.writelines(formats.csv(_TEXTS, map(_as_texts, given)))


def _parquet(given: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    formats.write_parquet(EXPORTED, given, out)


_WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}


def _writer(path: Path) -> Callable[[Iterable[pa.RecordBatch], BinaryIO], None]:
    try:
        return _WRITERS[path.suffix.lower()]
    except KeyError:
        raise ExportRefused(f"{path} ends with none of {', '.join(_WRITERS)}: choose one of them") from None


def _as_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """EXPORTED as _TEXTS; a text that is missing is empty."""
    columns = []
    for field, column in zip(_TEXTS, batch.columns, strict=True):
        if pa.types.is_binary(column.type):
            texts = pa.array(map(_text, column.to_pylist()), pa.string())
            columns.append(texts.dictionary_encode())
        elif field.type == _WORDS:
            columns.append(column.fill_null("").dictionary_encode())
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=_TEXTS)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def _there(path: Path) -> ExportRefused:
    return ExportRefused(f"{path} is there already: choose another name, or replace it with --force")


@contextmanager
def _new_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    """A file that has the name only when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # what a killed process left
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as out:
            yield out
        if force:
            temporary.replace(path)
        else:
            try:
                path.hardlink_to(temporary)  # fails if somebody else made one meanwhile
            except FileExistsError:
                raise _there(path) from None
    finally:
        temporary.unlink(missing_ok=True)
