"""The front-ends send again what Kafka lost before both layers had it.

Lines that come twice are recognised by their identity in both layers, so sending too much is harmless. What
is missing is known once nothing that was sent is still on its way: both layers have passed what Kafka had at
one look, and the next look finds the same stretches of the files missing. Then each edge with missing lines
is drained, taken back to before the first of them, and started. A resend that dies begins again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from sluice.archive import index
from sluice.archive.newest_files import last_arrival
from sluice.collection import deploy
from sluice.quality.archived_bytes import ArchivedBytes
from sluice.quality.audit import kafka_ends
from sluice.quality.missing_lines import (
    CollectedFile,
    MissingLines,
    collected_files,
    joined,
    missing_lines,
    uncounted_spans,
)
from sluice.runtime import days
from sluice.runtime.arrays import Ints
from sluice.runtime.positions import UNREAD
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger, File
from sluice.storage.postgres import engine
from sluice.storage.tables import eras, open_losses
from sluice.storage.tables.open_losses import OpenLoss, Unarchived
from sluice.transmission.line_identity import KAFKA_HOST

#: Between two looks: a block that an agent took is in Kafka and counted within a few seconds.
PAUSE_SECONDS = 20.0
#: Files that were counted so long before a loss, and are gone, lost nothing in it.
BEFORE = timedelta(days=1)

#: By so much the day in a file's name may differ from the day (UTC) on which its lines were counted.
ANY_ZONE = timedelta(days=2)

NONE: Ints = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class ResendReading:
    """Where everything is at one time.

    ends: the positions after Kafka's last records. spans: what the ledger lacks of the files, gone ones
    included, below where the first look found that they were read.
    """

    at: float
    files: Mapping[File, CollectedFile]
    away: Mapping[str, str]
    counted: ByteLedger
    ends: Mapping[int, int]
    spans: Mapping[File, Ints]


@dataclass(frozen=True)
class Finding:
    """What both layers together lack. gone: what of it cannot be sent again, because its file is gone.

    others: records that were not collected from a file are among what the archive lacks.
    """

    lines: tuple[MissingLines, ...] = ()
    gone: tuple[str, ...] = ()
    others: bool = False
    away: Mapping[str, str] = field(default_factory=dict)
    unarchived: tuple[Unarchived, ...] = ()

    @property
    def lost(self) -> bool:
        """Whether something is missing that cannot be sent again, as far as is known."""
        return bool(self.lines or self.gone or self.others)


class Resend:
    """One topic's, for some losses; `find` is called until it has found what is missing."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        losses: Sequence[OpenLoss],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topic, self.losses = topic, tuple(losses)
        self._settings, self._clock = settings, clock
        self._database = engine(settings)
        self._reading: dict[File, int] = {}  # how far files were read at the first look
        self._before: ResendReading | None = None

    def find(self) -> Finding | None:
        """What is missing; None as long as that is not known, because lines are on their way."""
        before = self._before
        if before is None:
            self._before = self._look()
        elif self._clock() >= before.at + PAUSE_SECONDS and self._passed(before.ends):
            now = self._before = self._look()
            if all(map(self._all_read_again, (before, now))) and _same(before.spans, now.spans):
                return self._finding(before, now)
        return None

    def send(self, lines: Sequence[MissingLines], log: Callable[[str], None]) -> dict[str, str]:
        """Have the edges send these again; returns why some could not, by their names."""
        self._before = None
        to: dict[str, dict[str, int]] = {}
        for each in lines:
            to.setdefault(each.host, {})[each.src_file] = each.first
        failed = deploy.send_again(self._settings, to, log)
        for each in lines:
            if each.host not in failed:
                log(f"sent again, because it was missing: {each} ({each.bytes:,} bytes)")
        return failed

    def _look(self) -> ResendReading:
        files, away = collected_files(self._settings, self.topic)
        for key, file in files.items():
            self._reading.setdefault(key, file.read_to if self._before is None else 0)
        counted = ByteLedger.from_rows(open_losses.counted_files(self._database, self.topic))
        forgotten = open_losses.forgotten_files(self._database, self.topic)
        kept = timedelta(days=self._settings.retention.days) - ANY_ZONE
        oldest = days.today() - kept if forgotten else None
        spans = uncounted_spans(files, counted, oldest)
        below = {key: _below(rows, self._reading[key]) for key, rows in spans.items()}
        for key in self._gone(files, away):
            below[key] = counted.holes(*key, counted.end(*key))
        ends = self._ends()  # after the ledger: both layers pass what it has, before the next look
        found = {key: rows for key, rows in below.items() if len(rows)}
        return ResendReading(self._clock(), files, away, counted, ends, found)

    def _gone(self, files: Mapping[File, CollectedFile], away: Mapping[str, str]) -> set[File]:
        """Files of which lines were counted lately, and that their front-ends do not have any more."""
        found = min((one.found_at for one in self.losses if one.of_read), default=datetime.now(UTC))
        counted = open_losses.counted_since(self._database, self.topic, found - BEFORE)
        return {key for key in counted - files.keys() if key[0] not in away and key[0] != KAFKA_HOST}

    def _ends(self) -> dict[int, int]:
        logs = eras.logs(self._database, self.topic)
        ends = kafka_ends(self._settings, self.topic)
        return {number: logs.get(number, UNREAD).position(end) for number, end in ends.items()}

    def _passed(self, ends: Mapping[int, int]) -> bool:
        """Whether both layers have all that Kafka has below these positions."""
        logs = eras.logs(self._database, self.topic)
        counted = open_losses.committed(self._database, self.topic)
        archived = index.positions(self._settings, self.topic)
        return all(
            logs.get(number, UNREAD).records(layer.get(number, 0), end) == 0
            for number, end in ends.items()
            for layer in (counted, archived)
        )

    def _all_read_again(self, look: ResendReading) -> bool:
        """Whether the edges have read everything again that they were taken back to."""
        return all(file.read_to >= self._reading[key] for key, file in look.files.items())

    def _finding(self, before: ResendReading, now: ResendReading) -> Finding:
        unarchived = tuple(open_losses.unarchived(self._database, self.losses))
        spans = dict(now.spans)
        if unarchived:
            for key, rows in self._unarchived_spans(before, now, unarchived).items():
                spans[key] = joined(spans.get(key, NONE), rows)
        lines, gone = [], []
        for key, rows in sorted(spans.items()):
            if key not in now.files:
                whole = tuple((int(start), int(end)) for start, end in rows)
                gone.append(str(MissingLines(*key, whole, 0)))
            elif found := missing_lines(now.files[key], rows):
                lines.append(found)
        others = any(_counted_within(now.counted, self.topic, each) for each in unarchived)
        return Finding(tuple(lines), tuple(gone), others, now.away, unarchived)

    def _unarchived_spans(
        self, before: ResendReading, now: ResendReading, unarchived: Sequence[Unarchived]
    ) -> dict[File, Ints]:
        """What the archive lacks of what was counted, by file."""
        places = [(each.partition, each.first) for each in unarchived]
        arrival = last_arrival(self._database, self.topic, places)
        sizes = {key: min(file.read_to, self._reading[key]) for key, file in now.files.items()}
        sizes |= {key: before.counted.end(*key) for key in self._gone(now.files, now.away)}
        # What no layer has is known from the ledger. The archive has what was counted at the look before.
        sizes = {key: min(size, before.counted.end(*key)) for key, size in sizes.items()}
        wanted = {key for key, size in sizes.items() if size}
        archived = ArchivedBytes.read(self._settings, self.topic, wanted, arrival)
        found = {key: archived.holes(*key, sizes[key]) for key in wanted}
        return {key: rows for key, rows in found.items() if len(rows)}


def _counted_within(counted: ByteLedger, topic: str, lost: Unarchived) -> bool:
    """Whether records among these were counted that were not collected from a file."""
    holes = counted.holes(KAFKA_HOST, f"{topic}/{lost.partition}", lost.next).clip(min=lost.first)
    return int((holes[:, 1] - holes[:, 0]).sum()) < lost.next - lost.first


def _below(spans: Ints, limit: int) -> Ints:
    rows = spans.clip(max=limit)
    return rows[rows[:, 0] < rows[:, 1]]


def _same(one: Mapping[File, Ints], other: Mapping[File, Ints]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(rows, other[key]) for key, rows in one.items())
