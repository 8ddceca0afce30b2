"""Lines that another topic can read go there, each under its own identity, so they count once.

A topic's format never changes once lines were read by it, and its byte ledger has the bytes of dead letters,
too. So a corrected format is another topic (ADR 0082). There a replayed line is like one that an edge sends:
the speed layer's byte ledger and the nights remove its copies. Whoever replays it again, after a crash or by
mistake, sends a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.engine.parse import dead_reason, event_time
from sluice.letters import replayed_lines
from sluice.runtime.arrays import Bools
from sluice.runtime.crash_points import crash_point
from sluice.runtime.days import DAY_MS
from sluice.runtime.sections import Limits
from sluice.speed.ledger import ByteLedger
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_schema import HOST, SRC_FILE, SRC_OFFSET
from sluice.transmission.record_writer import LineRecord
from sluice.transmission.redacted import are_redacted

EPOCH = date(1970, 1, 1)
#: Lines that a dry run shows, of those that the other topic reads and of those that it does not.
SAMPLES = 3


class Destination(Protocol):
    """Where replayed lines go."""

    def write(self, records: Sequence[LineRecord]) -> None: ...


@dataclass
class ReplayReport:
    """What became of the lines."""

    looked_at: int = 0
    sent: int = 0  # or, of a dry run, to be sent
    copies: int = 0  # the other topic has them already, or this replay sent them before
    days: Counter[date] = field(default_factory=Counter)  # of event time, of those that were sent
    still_dead: Counter[str] = field(default_factory=Counter)  # they would be dead letters there: why
    refused: Counter[str] = field(default_factory=Counter)
    read: list[bytes] = field(default_factory=list)  # the first SAMPLES that were sent
    unread: list[bytes] = field(default_factory=list)  # and of those that would be dead letters there


#: Told after each portion.
ReplayTold = Callable[[ReplayReport], object]


class LineReplay:
    """One replay of a topic's lines into another; without a destination it only looks.

    known: the other topic's ledger. It saves work only: lines that it lacks and that were sent before become
    copies.
    """

    def __init__(
        self,
        source: str,
        into: TopicSpec,
        limits: Limits,
        known: ByteLedger,
        destination: Destination | None,
        *,
        report: ReplayReport,
    ) -> None:
        self._source, self._into, self._limits = source, into, limits
        self._known, self._destination = known, destination
        self._report = report
        self._seen = ByteLedger()

    def run(self, portions: Iterable[pa.RecordBatch], told: ReplayTold) -> ReplayReport:
        """Send what is to be sent of these lines (LINE_SCHEMA) of the source."""
        for lines in portions:
            self._report.looked_at += len(lines)
            self._portion(self._sendable(lines))
            told(self._report)
        return self._report

    def _sendable(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        """The lines that may go to another topic, with the identities that they have there."""
        why = replayed_lines.refusals(lines)
        self._report.refused.update(each for each in why.to_pylist() if each is not None)
        lines = replayed_lines.under_identity(lines, self._source)
        if (erased := are_redacted(lines)).any():  # a copy that a front-end sent again must not go either
            self._claim(lines.filter(pa.array(erased)))
        return lines.filter(why.is_null())

    def _portion(self, lines: pa.RecordBatch) -> None:
        """Judge the lines as the speed layer will, and send those that it will count."""
        if not len(lines):
            return
        text = lines.column("line")
        ms, valid = event_time(text, self._into)
        dead = dead_reason(text, valid, self._limits)
        new = self._claim(lines)
        self._report.copies += int((~new).sum())
        alive = dead.is_null().to_numpy(zero_copy_only=False)
        unread, fresh = np.flatnonzero(new & ~alive), np.flatnonzero(new & alive)
        self._report.still_dead.update(dead.take(pa.array(unread)).to_pylist())
        chosen = lines.take(pa.array(fresh))
        if len(chosen) and self._destination is not None:
            self._destination.write(replayed_lines.records(chosen))
            crash_point("replay_sent")
        self._report.sent += len(chosen)
        days, numbers = np.unique(ms[fresh] // DAY_MS, return_counts=True)
        for day, number in zip(days.tolist(), numbers.tolist(), strict=True):
            self._report.days[EPOCH + timedelta(days=day)] += number
        for samples, rows in ((self._report.read, fresh), (self._report.unread, unread)):
            some = rows[: SAMPLES - len(samples)]
            samples.extend(text.take(pa.array(some)).to_pylist())

    def _claim(self, lines: pa.RecordBatch) -> Bools:
        """Which lines neither the other topic's ledger has, nor this replay saw before."""
        host, file, start = (lines.column(name) for name in (HOST, SRC_FILE, SRC_OFFSET))
        ends, runs = replayed_lines.ends(lines), replayed_lines.runs(lines)
        return self._seen.claim(host, file, start, ends, runs=runs, known=self._known)
