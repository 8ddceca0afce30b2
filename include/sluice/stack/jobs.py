"""The two jobs that run for ever, and how to see from outside whether they make progress.

Both write ``run/<job>.progress.json`` every second or two, even when idle. The positions in it show their
progress, and the lag of their Kafka groups shows what they still have to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sluice.runtime.settings import Settings


@dataclass(frozen=True)
class Job:
    """How to read a topic's position from the job's progress file, and the job's Kafka group."""

    position_of: Callable[[dict[str, Any]], Any]
    group: str  # sluice-<this>-<topic>


JOBS = {
    "speed_layer": Job(lambda topic: topic.get("end"), "speed"),
    "archiver": Job(
        lambda topic: {number: each.get("position") for number, each in topic.get("partitions", {}).items()},
        "archive",
    ),
}


def progress(settings: Settings, job: str) -> dict[str, Any]:
    """The content of the job's progress file; empty if there is none that can be read."""
    path = settings.home / "run" / f"{job}.progress.json"
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def failing(settings: Settings, job: str) -> dict[str, str]:
    """The topics that the job cannot process now, and the last error of each."""
    return {
        name: (topic.get("errors") or [{}])[-1].get("message", "it does not say why")
        for name, topic in progress(settings, job).get("topics", {}).items()
        if topic.get("state") == "failed"
    }


def position(settings: Settings, job: str) -> Any:
    """A value that changes with the job's progress; None before it began or for an unknown job."""
    topics = progress(settings, job).get("topics", {}) if job in JOBS else {}
    return {name: JOBS[job].position_of(topic) for name, topic in topics.items()} or None


def lag(settings: Settings, job: str) -> int | None:
    """The Kafka records that the job has yet to process, over its topics; None if Kafka fails."""
    from kafka.errors import KafkaError

    from sluice.transmission.lag import group_lag
    from sluice.transmission.topics import TopicMissing

    records = 0
    try:
        for topic in progress(settings, job).get("topics", {}):
            group = f"sluice-{JOBS[job].group}-{topic}"
            with suppress(TopicMissing):  # it was described before its first line: there is no work yet
                records += sum(each.records for each in group_lag(settings, group, topic).values())
    except KafkaError:
        return None
    return records
