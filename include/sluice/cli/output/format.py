"""Rows for people (table) and for programs (csv, json)."""

from __future__ import annotations

import csv
import datetime as dt
import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, TextIO

from sluice.cli.output.terminal import escaped
from sluice.results.spreadsheet import FORMULA

#: Above this an integral double may have lost its last digits, so it is printed as a double.
EXACT = 2**53


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def plain(value: Any) -> Any:
    """A value as it is printed: integral doubles as integers, times in ISO 8601, bytes as text.

    A time in UTC ends with Z, one in another time zone with its offset.
    """
    shown = value
    match value:
        case float():
            shown = int(value) if value.is_integer() and abs(value) <= EXACT else value
        case dt.datetime():
            whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
            text = whole.isoformat(timespec="milliseconds" if whole.microsecond else "seconds")
            utc = value.tzinfo is None or value.tzinfo is dt.UTC
            shown = f"{text.removesuffix('+00:00')}Z" if utc else text
        case dt.date():
            shown = value.isoformat()
        case bytes():
            shown = value.decode("utf-8", "backslashreplace")
        case dict():
            shown = {str(k): plain(v) for k, v in value.items()}
        case list() | tuple():
            shown = [plain(v) for v in value]
    return shown


def write(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], style: Format, out: TextIO | None = None
) -> None:
    """Print rows to `out`, by default standard output.

    A table is aligned, CSV has a header, and JSON is a list of objects.
    """
    out = out or sys.stdout
    cleaned = [[plain(v) for v in row] for row in rows]
    if style is Format.CSV:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        quoting = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in cleaned:
            cells = [_cell(v) for v in row]
            # The default writer does not quote a carriage return, but readers end a row there.
            (quoting if any("\r" in cell for cell in cells) else writer).writerow(cells)
    elif style is Format.JSON:
        json.dump(
            [dict(zip(columns, row, strict=True)) for row in cleaned], out, indent=1, ensure_ascii=False
        )
        out.write("\n")
    else:
        out.write(table(columns, cleaned))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns aligned with spaces, numbers to the right; ends with a newline."""
    right = [bool(rows) and all(_number(row[i]) for row in rows) for i in range(len(columns))]
    cells = [list(columns), *[[_shown(v) for v in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = []
    for row in cells:
        pieces = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(pieces).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    """A cell of a CSV file. Text from a log line must not become a formula in a spreadsheet."""
    text = "" if value is None else _text(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _shown(value: Any) -> str:
    return printable("-" if value is None else _text(value))


def printable(text: str) -> str:
    """The text on one line, with nothing in it that steers a terminal, wherever it is shown later."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
