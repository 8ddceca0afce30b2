"""Measures where the platform's consumers are.

The archiver is a consumer group of Kafka, and its position is that of the archive's index. The speed layer is
no group: its position is that of its commits. Both rates are those of the last minute: of Kafka's log by the
records' times, of the archiver by its members' heartbeats, of the speed layer by its commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kafka.errors import KafkaError

from sluice.archive import index
from sluice.monitoring.lag.consumer_lag import Behind, ConsumingJob, LagReport, PartitionLag, ShownRebalance
from sluice.monitoring.lag.cost import costs
from sluice.runtime.positions import PartitionLog, offset_of
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.stack.progress import ArchiverProgress, CountingState, SpeedLayerProgress
from sluice.storage.postgres import engine
from sluice.storage.tables import eras, rebalances
from sluice.storage.tables.commit_progress import committed
from sluice.tasks.topics import TopicStore
from sluice.transmission.lag import archive_group, waiting_since
from sluice.transmission.topics import Span, TopicMissing, Topics

Logs = Mapping[int, PartitionLog]
#: When the oldest waiting record of each topic and partition came (ms), by consumer.
Came = Mapping[ConsumingJob, Mapping[tuple[str, int], int]]

MINUTE = 60.0
#: Rebalances that are shown of all topics, and rows that are read of one to compute their cost.
SHOWN, READ = 20, 1_000


@dataclass(frozen=True)
class TopicConsumer:
    """One consumer of a topic. positions, paces (records a second), owners: by partition."""

    consumer: ConsumingJob
    positions: Mapping[int, int]
    paces: Mapping[int, float | None]
    owners: Mapping[int, str]


@dataclass(frozen=True)
class ShownLog:
    """A topic's log, by partition, and its consumers."""

    topic: str
    spans: Mapping[int, Span]
    hops: Sequence[TopicConsumer]


def lag_report(settings: Settings, topic: str | None = None) -> LagReport:
    """Where the consumers are now, of one topic or of all. Raises what PostgreSQL raises."""
    with Topics(settings) as topics:
        return _LagReader(settings, topics).report(topic)


def by_topic(settings: Settings) -> dict[str, list[PartitionLag]]:
    """Where the consumers are now. A topic that Kafka does not have is left out.

    Raises KafkaError, and what PostgreSQL raises.
    """
    with Topics(settings) as topics:
        return _LagReader(settings, topics).by_topic()


class _LagReader:
    """Reads positions, rates and waiting times, all as of one moment."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._settings, self._topics = settings, topics
        self._database = engine(settings)
        self._at = datetime.now(UTC)
        self._archivers_say = jobs.archiver_files(settings)
        self._speed_layer_says = jobs.speed_layer(settings)

    def by_topic(self) -> dict[str, list[PartitionLag]]:
        logs = []
        for name in TopicStore(self._database).names():
            with suppress(TopicMissing):
                logs.append(self._log(name))
        came = self._came(logs)
        return {log.topic: self._partitions(log, came) for log in logs}

    def report(self, topic: str | None) -> LagReport:
        logs: list[ShownLog] = []
        shown: list[ShownRebalance] = []
        problems: dict[str, str] = {}
        for name in [topic] if topic else TopicStore(self._database).names():
            try:
                logs.append(self._log(name))
            except TopicMissing as error:
                problems[name] = str(error)
            except KafkaError as error:
                problems[name] = f"Kafka does not say: {error}"
            with self._database.connect() as connection:
                shown += costs(rebalances.last(connection, name, READ), SHOWN)
        try:
            came = self._came(logs)
        except KafkaError as error:
            came = {}
            problems |= {log.topic: f"Kafka does not say since when records wait: {error}" for log in logs}
        partitions = [each for log in logs for each in self._partitions(log, came)]
        newest = sorted(shown, key=lambda each: each.at, reverse=True)[:SHOWN]
        return LagReport(self._at, tuple(partitions), tuple(newest), problems)

    def _log(self, topic: str) -> ShownLog:
        spans = self._topics.spans(topic, round((self._at.timestamp() - MINUTE) * 1000))
        logs = eras.logs(self._database, topic)
        return ShownLog(
            topic, spans, (self._archiver(topic, spans, logs), self._speed_layer(topic, spans, logs))
        )

    def _came(self, logs: Iterable[ShownLog]) -> Came:
        """Each consumer reads its oldest waiting records of all topics together."""
        begins: dict[ConsumingJob, dict[tuple[str, int], int]] = {}
        for log in logs:
            for hop in log.hops:
                begins.setdefault(hop.consumer, {}).update(waiting_from(log, hop))
        return {consumer: waiting_since(self._settings, places) for consumer, places in begins.items()}

    def _partitions(self, log: ShownLog, came: Came) -> list[PartitionLag]:
        found = []
        for hop in log.hops:
            for number, span in sorted(log.spans.items()):
                since = came.get(hop.consumer, {}).get((log.topic, number))
                waited = None if since is None else max(0.0, self._at.timestamp() - since / 1000)
                found.append(partition_lag(log.topic, hop, number, span, waited))
        return found

    def _archiver(self, topic: str, spans: Mapping[int, Span], logs: Logs) -> TopicConsumer:
        paces = archiving(self._archivers_say, topic)
        positions = in_kafka(index.positions_of(self._settings, topic, spans), spans, logs)
        return TopicConsumer(
            ConsumingJob.ARCHIVER,
            positions,
            paces,
            self._topics.owners(archive_group(topic)),
        )

    def _speed_layer(self, topic: str, spans: Mapping[int, Span], logs: Logs) -> TopicConsumer:
        since = self._at - timedelta(seconds=MINUTE)
        with self._database.connect() as connection:
            found = committed(connection, topic, since)
        now, then = in_kafka(found.now, spans, logs), in_kafka(found.then, spans, logs)
        paces = {number: max(0, now.get(number, 0) - then.get(number, 0)) / MINUTE for number in spans}
        driver = counts(self._speed_layer_says, topic, self._at)
        return TopicConsumer(
            ConsumingJob.SPEED_LAYER, now, paces, dict.fromkeys(spans, driver) if driver else {}
        )


def in_kafka(positions: Mapping[int, int], spans: Mapping[int, Span], logs: Logs) -> dict[int, int]:
    """Kafka's offsets of positions, by partition."""
    return {
        number: logs[number].offset(position, spans[number].end) if number in logs else offset_of(position)
        for number, position in positions.items()
        if number in spans
    }


def waiting_from(log: ShownLog, hop: TopicConsumer) -> dict[tuple[str, int], int]:
    """The consumer's next offset in each partition where records wait, by topic and partition."""
    begins = {number: max(span.start, hop.positions.get(number, 0)) for number, span in log.spans.items()}
    return {(log.topic, at): begin for at, begin in begins.items() if begin < log.spans[at].end}


def partition_lag(
    topic: str, hop: TopicConsumer, number: int, span: Span, waited: float | None
) -> PartitionLag:
    """One partition of a hop. waited: how long its oldest record has waited, if that is known."""
    position = max(span.start, hop.positions.get(number, 0))
    records = max(0, span.end - position)
    arriving = (span.end - span.then) / MINUTE
    behind = Behind(records, waited if records else 0.0, arriving, hop.paces.get(number))
    return PartitionLag(topic, hop.consumer, number, hop.owners.get(number), position, span.end, behind)


def archiving(members: Mapping[str, ArchiverProgress], topic: str) -> dict[int, float | None]:
    """The archivers' paces by partition, as their heartbeats say; a member that is silent has none."""
    paces: dict[int, float | None] = {}
    for document in sorted(members.values(), key=jobs.written):
        said = document.topics.get(topic)
        if said and not jobs.silent(document) and said.age <= jobs.SILENT_SECONDS:
            paces |= {number: each.pace for number, each in said.partitions.items()}
    return paces


def counts(progress: SpeedLayerProgress, topic: str, now: datetime) -> str | None:
    """The driver that counts the topic, by the speed layer's progress; None if none does."""
    found = progress.topics.get(topic)
    if not found or found.state != CountingState.COUNTING:
        return None
    said = found.updated_at or progress.updated_at
    silent = said is None or (now - said).total_seconds() >= jobs.SILENT_SECONDS
    return None if silent else found.driver or jobs.SPEED_LAYER
