"""Deletes from Kafka what is archived and counted, once it is too old or too much.

Kafka's own retention does not know what was read, so an archiver that is behind by more would lose records.
Therefore Kafka itself deletes nothing of a topic that is archived: this does, and never beyond what both the
archive and the speed layer have. A topic that is no longer archived is given back to Kafka's retention.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from kafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from sluice.archive import index
from sluice.runtime.positions import UNREAD
from sluice.runtime.settings import Settings, newest
from sluice.storage.postgres import engine
from sluice.storage.tables import eras
from sluice.storage.tables.commits import CommitLog
from sluice.tasks.topics import TopicStore
from sluice.transmission.topic_logs import TopicLogs
from sluice.transmission.topics import Span, TopicMissing, Topics

#: Between two looks, in seconds.
BEAT = 300.0
PATIENCE = 10.0


def limits(
    spans: Mapping[int, Span], sizes: Mapping[int, int], read: Mapping[int, int], most_bytes: int
) -> dict[int, int]:
    """The offset before which each partition's records may go; partitions of which none may are left out.

    spans: what the log has, and from where on it is young. sizes: bytes of the logs. read: the offset after
    what is archived and counted; a partition that is missing was not read. most_bytes: of all together. If
    they have more, as large a share of each partition's records goes, the oldest first.
    """
    whole = sum(sizes.values())
    spare = 1 - most_bytes / whole if whole > most_bytes else 0.0
    found = {}
    for number, span in spans.items():
        by_size = span.start + int((span.end - span.start) * spare)
        before = min(read.get(number, 0), max(span.then, by_size))
        if before > span.start:
            found[number] = before
    return found


def read_by_all(settings: Settings, topic: str, topic_id: str, ends: Mapping[int, int]) -> dict[int, int]:
    """The offset in each partition's log after what is archived and counted.

    topic_id: Kafka's, of now. ends: of the logs. 0 where nobody has looked since the topic was made again.
    """
    database = engine(settings)
    head, logs = CommitLog(database, topic, PATIENCE).head(), eras.logs(database, topic)
    archived = index.positions_of(settings, topic, ends)
    counted = head.end if head else {}
    found = {}
    for number, end in ends.items():
        position, log = min(archived[number], counted.get(str(number), 0)), logs.get(number, UNREAD)
        known = position and log.newest.topic_id in ("", topic_id)
        found[number] = log.offset(position, end) if known else 0
    return found


def trim(settings: Settings, now: datetime | None = None) -> Iterator[str]:
    """Trim all topics; yields a line for each that was trimmed, held or released. Raises KafkaError."""
    old = (now or datetime.now(UTC)) - timedelta(days=settings.kafka.retention_days)
    wanted = set(TopicStore(engine(settings)).names())
    with Topics(settings) as topics, TopicLogs(settings) as logs:
        there = logs.topics()
        held = logs.held(there)
        for name in sorted((held - wanted) & eras.topics(engine(settings))):  # others may have their own
            logs.release(name)
            yield f"{name} is not archived any more: Kafka deletes from it again"
        for name in sorted(wanted & there):
            if name not in held:
                logs.hold(name)
                yield f"{name} is archived: Kafka deletes nothing from it by itself"
            try:
                topic_id = topics.describe(name).id
                spans = topics.spans(name, round(old.timestamp() * 1000))
            except TopicMissing:  # deleted at this moment
                continue
            ends = {number: span.end for number, span in spans.items()}
            read = read_by_all(settings, name, topic_id, ends)
            before = limits(spans, logs.sizes(name, spans), read, settings.kafka.retention_bytes)
            if before:
                logs.delete(name, before)
                gone = sum(at - spans[number].start for number, at in before.items())
                yield f"{name}: {gone:,} records that are archived and counted were deleted from Kafka"


class KafkaTrimmer:
    """Called with the daemons' problems after each round of the watch; returns at once.

    It trims each BEAT seconds, in a thread of its own, while Kafka and PostgreSQL are healthy.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._thread: threading.Thread | None = None
        self._due, self._fault = 0.0, ""

    def __call__(self, problems: Mapping[str, str]) -> None:
        if "kafka" in self._settings.external:  # whoever runs it says what it keeps, and for whom
            return
        busy = self._thread is not None and self._thread.is_alive()
        if busy or time.monotonic() < self._due or problems.get("kafka") or problems.get("postgres"):
            return
        self._due = time.monotonic() + BEAT
        self._thread = threading.Thread(target=self.look, daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Trim once; a fault is said once, until it is over."""
        fault = ""
        try:
            for line in trim(newest(self._settings)):
                self._say(line)
        except (KafkaError, SQLAlchemyError) as error:
            fault = f"Kafka is not trimmed: {type(error).__name__}: {str(error).splitlines()[0]}"
        if fault and fault != self._fault:
            self._say(fault)
        self._fault = fault
