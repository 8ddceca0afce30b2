"""What the watch finds out that no job shows by itself, as a file: ``run/watch.progress.json``.

`/sluice/metrics` reads the file instead of asking the daemons, so that a daemon that hangs cannot hold up a
scrape. A part that cannot be read is None, and the others are still shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from sluice.collection import deploy, lifecycle, metrics
from sluice.monitoring import books
from sluice.monitoring.lag.consumer_lag import Behind, ConsumingJob, PartitionLag
from sluice.monitoring.lag.measurement import by_topic
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack import disks, progress
from sluice.stack.progress import WATCH, AgentAnswer, DiskSpace, HopLag, WatchProgress, progress_file
from sluice.storage.postgres import engine

PARTS = ("daemons", "agents", "lag", "books", "disks")
#: What metrics call the consumers.
HOPS: dict[ConsumingJob, str] = {ConsumingJob.SPEED_LAYER: "speed", ConsumingJob.ARCHIVER: "archive"}
#: What reading a part may raise; anything else is a defect, which the watch logs.
_AWAY = (KafkaError, SQLAlchemyError, OSError, ValueError)


def collect(settings: Settings, problems: Mapping[str, str], say: Callable[[str], None]) -> WatchProgress:
    """Ask agents, consumers, books and disks once. problems: of the daemons, empty for a healthy one."""
    at, found = datetime.now(UTC), dict[str, Any]()
    for part, read in (("agents", agents), ("lag", lag), ("books", _books), ("disks", _disks)):
        try:
            found[part] = read(settings)
        except _AWAY as error:
            say(f"{part}: not known: {(str(error).splitlines() or [type(error).__name__])[0]}")
    held = {what.value: bool(holds.reason(settings.home, what)) for what in Hold}
    return WatchProgress(updated_at=at, daemons=dict(problems), held=held, **found)


def write(settings: Settings, found: WatchProgress) -> None:
    """Replace the file."""
    path = progress_file(settings, WATCH)
    path.parent.mkdir(parents=True, exist_ok=True)
    progress.write(path, found)


def agents(settings: Settings) -> dict[str, AgentAnswer]:
    """Each deployed Flume agent: whether it answers, its channel's fill, and its counters of blocks."""
    found: dict[str, AgentAnswer] = {}
    for agent in deploy.agents(settings):
        try:
            now = lifecycle.counters(settings, agent)
        except metrics.MetricsUnreachable:
            found[agent.name] = AgentAnswer(answers=False)
            continue
        found[agent.name] = AgentAnswer(
            answers=True,
            fill=None if now.fill is None else now.fill / 100,
            blocks=now.channel.get("ChannelSize"),
            put=now.channel.get("EventPutSuccessCount"),
            taken=now.channel.get("EventTakeSuccessCount"),
        )
    return found


def lag(settings: Settings) -> dict[str, dict[str, HopLag]]:
    """By topic and hop: the records that wait, and how long the oldest of them has waited, as `sluice lag`.

    A topic that Kafka does not have is left out.
    """
    return {
        topic: {hop: _behind(partitions, consumer) for consumer, hop in HOPS.items()}
        for topic, partitions in by_topic(settings).items()
    }


def _behind(partitions: Iterable[PartitionLag], consumer: ConsumingJob) -> HopLag:
    parts = [each.behind for each in partitions if each.consumer == consumer]
    whole = Behind.of(parts)
    unread = sum(part.records > 0 and part.seconds is None for part in parts)
    return HopLag(records=whole.records, seconds=whole.seconds, unread=unread)


def _books(settings: Settings) -> dict[str, Any]:
    with engine(settings).connect() as connection:
        return books.books(connection)


def _disks(settings: Settings) -> dict[str, DiskSpace]:
    return {
        disk.name: DiskSpace(size=disk.size, free=disk.free, reserve=disk.reserve)
        for disk in disks.look(settings)
    }
