"""Dead letters as the lines that they are, in portions, to be replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from sluice.engine.parse import NOT_GENUINE
from sluice.letters.export import PORTION_BYTES, PORTION_ROWS, Read
from sluice.letters.line_replay import ReplayReport
from sluice.storage.tables.dead_letters import OF_DIMENSION, DeadLetter
from sluice.transmission.line_schema import FORGED, LINE_SCHEMA


def letter_lines(letters: Iterable[Read], report: ReplayReport) -> Iterator[pa.RecordBatch]:
    """The letters' lines (LINE_SCHEMA); the report counts those that have none that could be replayed."""
    rows: list[dict[str, Any]] = []
    size = 0
    for letter, line in letters:
        if why := _refusal(letter, line):
            report.looked_at += 1
            report.refused[why] += 1
            continue
        shown = letter.line if line is None else line
        if rows and (len(rows) == PORTION_ROWS or size + len(shown) > PORTION_BYTES):
            yield pa.RecordBatch.from_pylist(rows, LINE_SCHEMA)
            rows, size = [], 0
        arrival, forged = int(letter.arrived_at.timestamp() * 1_000), letter.reason == NOT_GENUINE
        rows.append({**vars(letter), "arrival": arrival, "line": shown, FORGED: forged})
        size += len(shown)
    if rows:
        yield pa.RecordBatch.from_pylist(rows, LINE_SCHEMA)


def _refusal(letter: DeadLetter, line: bytes | None) -> str:
    if letter.reason.startswith(OF_DIMENSION):  # retention keeps it for ever, but no ledger
        return "an earlier release gave it up for good"
    if line is None and letter.unreadable is None:
        return "its whole line is neither in the archive nor in Kafka"
    return ""
