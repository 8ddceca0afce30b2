"""The front-ends send again what Kafka lost before both layers had it.

Lines that come twice are recognised by their identity in both layers, so sending too much is harmless. What
is missing is known once all that the edges had read is where it belongs: the edges, then the collectors have
handed on what their channels held, and then both layers have passed what Kafka had. Then each edge with
missing lines is drained, taken back to before the first of them, and started. A resend that dies begins
again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import numpy as np

from sluice.archive import index
from sluice.archive.newest_files import last_arrival
from sluice.collection import channels, deploy
from sluice.collection.channels import AgentRestarted
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

#: Files that were counted so long before a loss, and are gone, lost nothing in it.
BEFORE = timedelta(days=1)

#: By so much the day in a file's name may differ from the day (UTC) on which its lines were counted.
ANY_ZONE = timedelta(days=2)

NONE: Ints = np.empty((0, 2), np.int64)


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

    def __init__(self, settings: Settings, topic: str, losses: Sequence[OpenLoss]) -> None:
        self.topic, self.losses = topic, tuple(losses)
        self._settings, self._database = settings, engine(settings)
        self._read_to: dict[File, int] = {}  # at first: lines below that are looked for
        self._course = self._find()

    def find(self) -> Finding | None:
        """What is missing; None as long as that is not known, because lines are on their way."""
        try:
            next(self._course)
        except StopIteration as end:
            self._course = self._find()
            found: Finding = end.value
            return found
        except AgentRestarted:
            self._course = self._find()
        except Exception:
            self._course = self._find()
            raise
        return None

    def send(self, lines: Sequence[MissingLines], log: Callable[[str], None]) -> dict[str, str]:
        """Have the edges send these again; returns why some could not, by their names."""
        to: dict[str, dict[str, int]] = {}
        for each in lines:
            to.setdefault(each.host, {})[each.src_file] = each.first
        failed = deploy.send_again(self._settings, to, log)
        for each in lines:
            if each.host not in failed:
                log(f"sent again, because it was missing: {each} ({each.bytes:,} bytes)")
        return failed

    def _find(self) -> Generator[None, None, Finding]:
        """Follow what the edges have read, until both layers have it; yields while it waits."""
        for key, file in collected_files(self._settings, self.topic)[0].items():
            self._read_to.setdefault(key, file.read_to)
        while not self._read_again():
            yield
        for tier in ("edge", "collector"):
            agents = [each for each in deploy.agents(self._settings) if each.tier == tier]
            held = channels.marks(self._settings, agents)
            while held := channels.still_held(self._settings, held):
                yield
        ends = self._ends()
        while not self._passed(ends):
            yield
        return self._finding()

    def _read_again(self) -> bool:
        """Whether the edges have read again what they were taken back to."""
        files, _ = collected_files(self._settings, self.topic)
        return all(file.read_to >= self._read_to.get(key, 0) for key, file in files.items())

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

    def _finding(self) -> Finding:
        files, away = collected_files(self._settings, self.topic)  # again: new ones are not gone
        counted = ByteLedger.from_rows(open_losses.counted_files(self._database, self.topic))
        sizes = {key: self._read_to[key] for key in files if key in self._read_to}
        gone = {key: counted.end(*key) for key in self._gone(files, away)}
        spans = {
            key: _below(rows, sizes[key])
            for key, rows in uncounted_spans(files, counted, self._oldest()).items()
            if key in sizes
        }
        spans |= {key: counted.holes(*key, end) for key, end in gone.items()}
        unarchived = tuple(open_losses.unarchived(self._database, self.losses))
        if unarchived:
            # What no layer has is known from the ledger.
            known = {key: min(size, counted.end(*key)) for key, size in (sizes | gone).items()}
            for key, rows in self._unarchived_spans(known, unarchived).items():
                spans[key] = joined(spans.get(key, NONE), rows)
        lines, lost = [], []
        for key, rows in sorted((key, rows) for key, rows in spans.items() if len(rows)):
            if key not in files:
                whole = tuple((int(start), int(end)) for start, end in rows)
                lost.append(str(MissingLines(*key, whole, 0)))
            elif found := missing_lines(files[key], rows):
                lines.append(found)
        others = any(_counted_within(counted, self.topic, each) for each in unarchived)
        return Finding(tuple(lines), tuple(lost), others, away, unarchived)

    def _oldest(self) -> date | None:
        """The first day whose files retention cannot have deleted from the ledger; None: it deleted none."""
        if not open_losses.forgotten_files(self._database, self.topic):
            return None
        return days.today() - timedelta(days=self._settings.retention.days) + ANY_ZONE

    def _unarchived_spans(
        self, sizes: Mapping[File, int], unarchived: Sequence[Unarchived]
    ) -> dict[File, Ints]:
        """What the archive lacks of each file's first bytes, which were counted."""
        places = [(each.partition, each.first) for each in unarchived]
        arrival = last_arrival(self._database, self.topic, places)
        wanted = {key for key, size in sizes.items() if size}
        archived = ArchivedBytes.read(self._settings, self.topic, wanted, arrival)
        return {key: archived.holes(*key, sizes[key]) for key in wanted}


def _counted_within(counted: ByteLedger, topic: str, lost: Unarchived) -> bool:
    """Whether records among these were counted that were not collected from a file."""
    holes = counted.holes(KAFKA_HOST, f"{topic}/{lost.partition}", lost.next).clip(min=lost.first)
    return int((holes[:, 1] - holes[:, 0]).sum()) < lost.next - lost.first


def _below(spans: Ints, limit: int) -> Ints:
    rows = spans.clip(max=limit)
    return rows[rows[:, 0] < rows[:, 1]]
