"""The watch's look at what no job shows by itself, as a file: ``run/watch.progress.json``.

`/sluice/metrics` reads the file instead of asking the daemons, so that a daemon that hangs cannot hold up a
scrape. A part that cannot be read is None, and the others are still shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from sluice.collection import deploy, lifecycle, metrics
from sluice.monitoring import books
from sluice.monitoring.books import Reached
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.storage.postgres import engine
from sluice.tasks.topics import TopicStore
from sluice.transmission.topics import TopicMissing, Topics

PARTS = ("daemons", "agents", "lag", "books")
#: What reading a part may raise; anything else is a defect, which the watch logs.
_AWAY = (KafkaError, SQLAlchemyError, OSError, ValueError)


def take(settings: Settings, problems: Mapping[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    """Look once. problems: of the daemons that are asked, empty for a healthy one."""
    found: dict[str, Any] = {"at": time.time(), "parts": PARTS, "daemons": dict(problems)}
    for part, read in (("agents", agents), ("lag", lag), ("books", _books)):
        try:
            found[part] = read(settings)
        except _AWAY as error:
            say(f"{part}: not known: {(str(error).splitlines() or [type(error).__name__])[0]}")
            found[part] = None
    return found


def write(settings: Settings, look: Mapping[str, Any]) -> None:
    """Replace the file."""
    folder = settings.home / "run"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "watch.progress.json", json.dumps(look, indent=1))


def agents(settings: Settings) -> dict[str, dict[str, Any]]:
    """Each deployed Flume agent: whether it answers, its channel's fill, and its counters of blocks."""
    found: dict[str, dict[str, Any]] = {}
    for agent in deploy.agents(settings):
        try:
            now = lifecycle.counters(settings, agent)
        except metrics.MetricsUnreachable:
            found[agent.name] = {"answers": False}
            continue
        found[agent.name] = {
            "answers": True,
            "fill": None if now.fill is None else now.fill / 100,
            "blocks": now.channel.get("ChannelSize"),
            "put": now.channel.get("EventPutSuccessCount"),
            "taken": now.channel.get("EventTakeSuccessCount"),
        }
    return found


def lag(settings: Settings) -> dict[str, dict[str, dict[str, float | None]]]:
    """By topic and hop: `behind` the topic's end. A topic that Kafka does not have is left out."""
    database = engine(settings)
    counted = jobs.progress(settings, "speed_layer").get("topics", {})
    found = {}
    with Topics(settings) as topics:
        for topic in TopicStore(database).names():
            try:
                ends, newest = topics.newest(topic)
            except TopicMissing:
                continue
            with database.connect() as connection:
                speed, archive = books.committed(connection, topic), books.archived(connection, topic)
            # The commit's time says little while the speed layer catches up.
            arrival = counted.get(topic, {}).get("newest_arrival")
            speed = Reached(speed.offsets, arrival or speed.newest)
            found[topic] = {"speed": behind(ends, newest, speed), "archive": behind(ends, newest, archive)}
    return found


def behind(ends: Mapping[int, int], newest: int | None, reached: Reached) -> dict[str, float | None]:
    """How far a hop is behind the topic's end: records, and seconds between the newest lines of both.

    The seconds are None for a hop that has processed nothing yet.
    """
    records = sum(max(0, end - reached.offsets.get(partition, 0)) for partition, end in ends.items())
    if not records or newest is None:
        return {"records": records, "seconds": 0.0}
    seconds = None if reached.newest is None else max(0.0, (newest - reached.newest) / 1000)
    return {"records": records, "seconds": seconds}


def _books(settings: Settings) -> dict[str, Any]:
    with engine(settings).connect() as connection:
        return books.books(connection)
