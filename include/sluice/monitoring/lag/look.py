"""One look at where the platform's consumers are.

The archiver is a consumer group of Kafka, and its position is that of the archive's index. The speed layer is
no group: its position is that of its commits. Both rates are those of the last minute: of Kafka's log by the
records' times, of the archiver by its heartbeat, of the speed layer by its commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka.errors import KafkaError

from sluice.archive import index
from sluice.monitoring.lag.cost import costs
from sluice.monitoring.lag.model import Behind, Consumer, PartitionLag, Report, Shown
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.storage import rebalances
from sluice.storage.pace import committed
from sluice.storage.postgres import engine
from sluice.tasks.topics import TopicStore
from sluice.transmission import waiting
from sluice.transmission.lag import archive_group
from sluice.transmission.topics import Span, TopicMissing, Topics

MINUTE = 60.0
#: Rebalances that are shown of all topics, and rows that are read of one to compute their cost.
SHOWN, READ = 20, 1_000


@dataclass(frozen=True)
class Hop:
    """One consumer of a topic. positions, paces (records a second), owners: by partition."""

    consumer: Consumer
    positions: Mapping[int, int]
    paces: Mapping[int, float | None]
    owners: Mapping[int, str]


def look(settings: Settings, topic: str | None = None) -> Report:
    """Where the consumers are now, of one topic or of all. Raises what PostgreSQL raises."""
    with Topics(settings) as topics:
        return _Look(settings, topics).report(topic)


class _Look:
    """What one look needs."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._settings, self._topics = settings, topics
        self._database = engine(settings)
        self._at = datetime.now(UTC)
        self._archiver_says = jobs.progress(settings, "archiver").get("topics", {})
        self._speed_layer_says = jobs.progress(settings, "speed_layer")

    def report(self, topic: str | None) -> Report:
        partitions: list[PartitionLag] = []
        shown: list[Shown] = []
        problems: dict[str, str] = {}
        for name in [topic] if topic else TopicStore(self._database).names():
            try:
                partitions += self._topic(name)
            except TopicMissing as error:
                problems[name] = str(error)
            except KafkaError as error:
                problems[name] = f"Kafka does not say: {error}"
            with self._database.connect() as connection:
                shown += costs(rebalances.last(connection, name, READ), SHOWN)
        newest = sorted(shown, key=lambda each: each.at, reverse=True)[:SHOWN]
        return Report(self._at, tuple(partitions), tuple(newest), problems)

    def _topic(self, topic: str) -> list[PartitionLag]:
        spans = self._topics.spans(topic, round((self._at.timestamp() - MINUTE) * 1000))
        topic_id = self._topics.describe(topic).id
        found = []
        for hop in (self._archiver(topic, topic_id, spans), self._speed_layer(topic, topic_id, spans)):
            begins = {number: max(span.start, hop.positions.get(number, 0)) for number, span in spans.items()}
            behind = {(topic, at): begin for at, begin in begins.items() if begin < spans[at].end}
            came = waiting.since(self._settings, behind)
            for number, span in sorted(spans.items()):
                since = came.get((topic, number))
                waited = None if since is None else max(0.0, self._at.timestamp() - since / 1000)
                found.append(partition_lag(topic, hop, number, span, waited))
        return found

    def _archiver(self, topic: str, topic_id: str, spans: Mapping[int, Span]) -> Hop:
        told = self._archiver_says.get(topic, {}).get("partitions", {})
        paces = {int(number): each.get("pace") for number, each in told.items()}
        positions = index.positions_of(self._settings, topic, topic_id, spans)
        return Hop("archiver", positions, paces, self._topics.owners(archive_group(topic)))

    def _speed_layer(self, topic: str, topic_id: str, spans: Mapping[int, Span]) -> Hop:
        since = self._at - timedelta(seconds=MINUTE)
        with self._database.connect() as connection:
            found = committed(connection, topic, topic_id, since)
        paces = {
            number: max(0, found.now.get(number, 0) - found.then.get(number, 0)) / MINUTE for number in spans
        }
        driver = counts(self._speed_layer_says, topic, self._at)
        return Hop("speed_layer", found.now, paces, dict.fromkeys(spans, driver) if driver else {})


def partition_lag(topic: str, hop: Hop, number: int, span: Span, waited: float | None) -> PartitionLag:
    """One partition of a hop. waited: how long its oldest record has waited, if that is known."""
    position = max(span.start, hop.positions.get(number, 0))
    records = max(0, span.end - position)
    arriving = (span.end - span.then) / MINUTE
    behind = Behind(records, waited if records else 0.0, arriving, hop.paces.get(number))
    return PartitionLag(topic, hop.consumer, number, hop.owners.get(number), position, span.end, behind)


def counts(progress: Mapping[str, Any], topic: str, now: datetime) -> str | None:
    """The driver that counts the topic, by the speed layer's progress; None if none does."""
    found = progress.get("topics", {}).get(topic, {})
    said = found.get("updated_at", progress.get("updated_at"))
    if not said or found.get("state") != "counting":
        return None
    silent = (now - datetime.fromisoformat(said)).total_seconds() >= jobs.SILENT_SECONDS
    return None if silent else str(found.get("driver", jobs.SPEED_LAYER))
