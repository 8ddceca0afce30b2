"""The front-ends send again what Kafka lost before both layers had it.

Lines that come twice are recognised by their identity in both layers, so sending too much is harmless. What
is missing is known once all that the edges had read is where it belongs: the edges, then the collectors have
handed on what their channels held, and then both layers have passed what Kafka had. Then each edge with
missing lines is drained, taken back to before the first of them, and started. A resend that dies begins
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from sluice.archive import index
from sluice.archive.newest_files import last_arrival
from sluice.collection import channels, deploy
from sluice.collection.channels import AgentRestarted
from sluice.quality.archived_bytes import MARGIN_MS, ArchivedBytes
from sluice.quality.audit import kafka_ends
from sluice.quality.missing_lines import (
    CollectedFile,
    MissingLines,
    collected_files,
    joined,
    missing_lines,
    uncounted_spans,
    without,
    without_forgotten,
)
from sluice.runtime import days
from sluice.runtime.arrays import Ints
from sluice.runtime.positions import UNREAD
from sluice.runtime.settings import Settings
from sluice.speed.ledger import BadLedger, ByteLedger, File
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_expiry, eras, open_losses
from sluice.storage.tables.open_losses import CLOCKS, OpenLoss, Unarchived
from sluice.transmission.line_identity import KAFKA_HOST, REPLAYED_HOST

log = logging.getLogger(__name__)

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
        others = away.keys() | {KAFKA_HOST, REPLAYED_HOST}  # the latter two have no files
        return {key for key in counted - files.keys() if key[0] not in others}

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
        anywhere = self._counted_anywhere(counted, {host for host, _ in sizes | gone})
        spans = {
            key: _below(rows, sizes[key])
            for key, rows in uncounted_spans(files, anywhere, self._oldest()).items()
            if key in sizes
        }
        spans |= {key: anywhere.holes(*key, end) for key, end in gone.items()}
        unarchived = tuple(open_losses.unarchived(self._database, self.losses))
        if unarchived:
            ends = {key: min(size, counted.end(*key)) for key, size in (sizes | gone).items()}
            for key, rows in self._unarchived_spans(ends, files, unarchived).items():
                # What was not counted is known from the ledger. It may belong to another topic.
                own = without(rows, counted.holes(*key, ends[key]), ends[key])
                spans[key] = joined(spans.get(key, NONE), own)
        lines, lost = [], []
        for key, rows in sorted((key, rows) for key, rows in spans.items() if len(rows)):
            if key not in files:
                whole = tuple((int(start), int(end)) for start, end in rows)
                lost.append(str(MissingLines(*key, whole, 0)))
            elif found := missing_lines(files[key], rows):
                lines.append(found)
        others = any(_counted_within(counted, self.topic, each) for each in unarchived)
        return Finding(tuple(lines), tuple(lost), others, away, unarchived)

    def _counted_anywhere(self, counted: ByteLedger, hosts: set[str]) -> ByteLedger:
        """With what other topics counted: an edge that was pointed to this one goes on where it had been."""
        every = ByteLedger()
        every.update(counted)
        for row in open_losses.counted_elsewhere(self._database, self.topic, hosts):
            try:
                every.update(ByteLedger.from_rows([row]))
            except BadLedger as damaged:  # another topic's fault must not leave this one's lines lost
                log.warning("topic %s: %s", self.topic, damaged)
        return every

    def _oldest(self) -> date | None:
        """The first day whose files retention cannot have deleted from the ledger; None: it deleted none."""
        if not open_losses.forgotten_files(self._database, self.topic):
            return None
        return days.today() - timedelta(days=self._settings.retention.days) + ANY_ZONE

    def _oldest_archived(self) -> date | None:
        """The first day whose files the archive's retention cannot have deleted; None: it deleted nothing."""
        with self._database.connect() as connection:
            if not archive_expiry.sums(connection, self.topic).records:
                return None
        return days.today() - timedelta(days=self._settings.retention.archive_days) + ANY_ZONE

    def _unarchived_spans(
        self, ends: Mapping[File, int], files: Mapping[File, CollectedFile], unarchived: Sequence[Unarchived]
    ) -> dict[File, Ints]:
        """What the archive lacks of each file below its end, of files that may have lost lines.

        A lost line came after what is archived before it, and was counted after it came.
        """
        places = [(each.partition, each.first) for each in unarchived]
        arrival = last_arrival(self._database, self.topic, places)
        since = datetime.fromtimestamp(max(0, arrival - MARGIN_MS) / 1000, UTC) - CLOCKS
        late = open_losses.counted_since(self._database, self.topic, since)
        wanted = {key: _began(files.get(key)) for key, end in ends.items() if end and key in late}
        archived = ArchivedBytes.read(self._settings, self.topic, wanted, arrival)
        found = {key: archived.holes(*key, ends[key]) for key in wanted}
        oldest = self._oldest_archived()
        return {
            key: without_forgotten(rows, files[key], oldest) if key in files else rows
            for key, rows in found.items()
        }


def _counted_within(counted: ByteLedger, topic: str, lost: Unarchived) -> bool:
    """Whether records among these were counted that were not collected from a file."""
    holes = counted.holes(KAFKA_HOST, f"{topic}/{lost.partition}", lost.next).clip(min=lost.first)
    return int((holes[:, 1] - holes[:, 0]).sum()) < lost.next - lost.first


def _began(file: CollectedFile | None) -> int:
    """The time before which no line of the file can have come, in ms since the epoch; 0: not known."""
    if file is None or file.day is None:
        return 0
    midnight = datetime.combine(file.day, time(), UTC) - ANY_ZONE
    return max(0, round(midnight.timestamp() * 1000))


def _below(spans: Ints, limit: int) -> Ints:
    rows = spans.clip(max=limit)
    return rows[rows[:, 0] < rows[:, 1]]
