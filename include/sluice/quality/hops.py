"""The hops of a topic's lines, and what of them does not add up.

All count lines, except `kafka`: Kafka counts records, which have one line or more. Once nothing is in flight
these hold (`Hops.disagreements` names those that do not). Records that were not collected from a file
(`of_no_file`) are a line each, and count as lines_read here:

    lines_read = online + dead_lettered + redacted + lost
    archived records = kafka - expired before they were archived
    archived   = lines_read - lost + doubled, if none expired
    hive_raw   = archived
    hive_unique = online, of the days that are over
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluice.quality.file_accounts import FileAccount
from sluice.runtime.positions import UNREAD, PartitionLog
from sluice.storage.tables.tallies import TOPIC, Tally
from sluice.storage.tables.topic_totals import TopicTotals
from sluice.transmission.line_identity import KAFKA_HOST

LACKS_DAYS = "; the table logs lacks days that were computed: `sluice up` shows them again"


@dataclass(frozen=True)
class Hops:
    """Counts at each hop of a topic, what is still on its way, and what does not add up."""

    topic: str
    lines_read: int
    kafka: int  # records
    doubled: int
    online: int
    archived: int
    hive_raw: int
    hive_unique: int
    dead_lettered: int
    lost: int
    in_flight: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()
    files: tuple[FileAccount, ...] = ()
    gone: tuple[str, ...] = ()  # files, and contents before a truncation, that the front-ends no longer have
    days_to_come: Mapping[str, int] = field(default_factory=dict)  # lines by day, of days that are not over
    of_no_file: int = 0  # records of other producers, and forged ones
    redacted: int = 0  # lines that were online or dead letters until they were erased
    unmatched: int = 0  # of `online`: lines that are not of the topic's format
    untold: int = 0  # of `online`: lines that an earlier release counted, without what was skipped
    skipped: Mapping[str, Tally] = field(default_factory=dict)  # by task, of those that skipped lines
    unseen: str = ""  # why Hive's two counts are what the books say

    COUNTS = (
        "lines_read", "kafka", "doubled", "online", "unmatched", "archived",
        "hive_raw", "hive_unique", "dead_lettered", "lost",
    )  # fmt: skip

    @property
    def ok(self) -> bool:
        return not (self.lost or self.disagreements or self.unseen)

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.COUNTS}


@dataclass(frozen=True)
class HopCounts:
    """All that was read of a topic, from which its hops follow."""

    topic: str
    totals: TopicTotals
    kafka_end: Mapping[int, int]  # the offset after each partition's last record
    accounts: tuple[FileAccount, ...]
    moving: list[str]  # what is on its way to Kafka
    hive_raw: int
    hive_unique: int
    unseen: str = ""  # why Hive did not say these two, which are then what the books say
    logs: Mapping[int, PartitionLog] = field(default_factory=dict)  # of partitions that were looked at

    @property
    def lines_read(self) -> int:
        return sum(account.lines for account in self.accounts)

    @property
    def missing(self) -> int:
        """Lines in the files that the ledger lacks."""
        return sum(account.missing_lines for account in self.accounts)

    @property
    def kafka(self) -> int:
        """How many records were ever written, as none is transactional."""
        return sum(self.logs.get(number, UNREAD).given(end) for number, end in self.kafka_end.items())

    @property
    def speed_lag(self) -> int:
        return self._after(self.totals.committed)

    @property
    def archive_lag(self) -> int:
        return self._after(self.totals.archived_to)

    def _after(self, positions: Mapping[int, int]) -> int:
        """How many records come after these positions."""
        logs = {number: (self.logs.get(number, UNREAD), end) for number, end in self.kafka_end.items()}
        return sum(log.records(positions.get(at, 0), log.position(end)) for at, (log, end) in logs.items())

    @property
    def arriving(self) -> bool:
        """Whether lines are on their way to the ledger: then none can be called lost."""
        return bool(self.moving or self.speed_lag)

    @property
    def lost(self) -> int:
        return 0 if self.arriving else self.missing

    @property
    def gone(self) -> tuple[str, ...]:
        """Files, and earlier generations, that the ledger knows and the front-ends no longer have."""
        known = {(account.host, account.src_file) for account in self.accounts}
        return tuple(
            f"{host}:{name}"
            for host, name in sorted(self.totals.ledger)
            if (host, name) not in known and host != KAFKA_HOST
        )

    @property
    def elsewhere(self) -> int:
        """Records in the ledger that were not collected from a file; each has one offset there."""
        ledger = self.totals.ledger
        of_kafka = (ledger[host, name] for host, name in ledger if host == KAFKA_HOST)
        return sum(int((ends - starts).sum()) for starts, ends in of_kafka)


def reckon(read: HopCounts) -> Hops:
    """The hops and what disagrees, from what was read; pure."""
    totals = read.totals
    return Hops(
        topic=read.topic,
        lines_read=read.lines_read,
        kafka=read.kafka,
        doubled=totals.doubled,
        online=totals.counted,
        archived=totals.archived,
        hive_raw=read.hive_raw,
        hive_unique=read.hive_unique,
        dead_lettered=totals.dead,
        lost=read.lost,
        in_flight=tuple(_in_flight(read)),
        disagreements=tuple(_disagreements(read)),
        files=read.accounts,
        gone=read.gone,
        days_to_come=totals.days_to_come,
        of_no_file=read.elsewhere,
        redacted=totals.redacted,
        unmatched=totals.tallies.get(TOPIC, Tally()).unmatched,
        untold=max(0, totals.untold),
        skipped=dict(sorted(_skipped(totals))),
        unseen=read.unseen,
    )


def _skipped(totals: TopicTotals) -> Iterator[tuple[str, Tally]]:
    """The versions that skipped lines, by name and label."""
    for (task_id, version), tally in totals.tallies.items():
        if tally.skipped and (task_id, version) != TOPIC:
            yield f"{totals.names.get(task_id, 'task')} ({task_id}v{version})", tally


def _in_flight(read: HopCounts) -> Iterator[str]:
    """What is still on its way."""
    totals = read.totals
    yield from read.moving
    if read.speed_lag:
        yield f"{read.speed_lag:,} records in Kafka that the speed layer has not committed"
    if totals.projected < totals.last_seq:
        yield f"{totals.last_seq - totals.projected} commits whose results are not yet in HBase"
    if read.missing and read.arriving:
        yield f"{read.missing:,} lines in the files that are not yet in the ledger"
    if read.archive_lag:
        yield f"{read.archive_lag:,} records in Kafka that are not yet archived"
    if totals.stale_days:
        yield f"{len(totals.stale_days)} days to compute in nightly_batch: {some(totals.stale_days)}"


def _disagreements(read: HopCounts) -> Iterator[str]:
    """The equations that hold for what has arrived, and do not."""
    for left, a, right, b in _equations(read):
        if a != b:
            lacks_days = left == "hive_unique" and a < read.totals.computed_lines
            yield f"{left} {a:,} != {right} {b:,}" + (LACKS_DAYS if lacks_days else "")


def _equations(read: HopCounts) -> Iterator[tuple[str, int, str, int]]:
    """What must be equal: name and count of either side."""
    totals, lost = read.totals, read.lost
    taken = totals.doubled + totals.counted + totals.dead
    yield "lines that were committed", totals.lines, "doubled + online + dead_lettered", taken
    yield "online", totals.counted, "lines of all event days", totals.event_lines
    if totals.untold < 0:
        tallied = totals.event_lines - totals.untold
        yield "lines of the format + unmatched", tallied, "lines of all event days", totals.event_lines
    yield "dead_lettered", totals.dead, "rows of dead_letters", totals.dead_rows
    if not read.arriving and not read.gone and not totals.forgotten:
        sent, name = read.lines_read + read.elsewhere, "lines_read"
        if read.elsewhere:
            name = "lines_read + of_no_file"
        found, known = "online + dead_lettered + lost", totals.counted + totals.dead + lost
        if totals.redacted:
            found, known = found.replace(" + lost", " + redacted + lost"), known + totals.redacted
        yield name, sent, found, known
        if not read.archive_lag and not totals.expired:  # nobody knows how many lines expired records had
            yield "archived", totals.archived, f"{name} - lost + doubled", sent - lost + totals.doubled
    if not read.archive_lag:
        yield "archived records", totals.archived_records, "kafka - expired", read.kafka - totals.expired
        name = "archived - beyond retention.archive_days" if totals.beyond_retention else "archived"
        yield "hive_raw", read.hive_raw, name, totals.archived - totals.beyond_retention
    if not read.speed_lag and not totals.stale_days:
        due = totals.counted - sum(totals.days_to_come.values())
        yield "hive_unique", read.hive_unique, "online, of the days that are over", due


def some(names: list[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
