"""The two jobs that run for ever, and how to see from outside whether they get on.

Both write ``run/<job>.progress.json`` every second or two, idle or not; that they get on shows in the
positions in it, and what they have still to do in the lag of their Kafka groups.
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
    """A topic's position as the job's progress file has it, and the Kafka group that the job commits to."""

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
    """What the job said last; empty if it never said anything."""
    path = settings.home / "run" / f"{job}.progress.json"
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def failing(settings: Settings, job: str) -> dict[str, str]:
    """The topics that the job cannot process now, and what it said of them last."""
    return {
        name: (topic.get("errors") or [{}])[-1].get("message", "it does not say why")
        for name, topic in progress(settings, job).get("topics", {}).items()
        if topic.get("state") == "failed"
    }


def position(settings: Settings, job: str) -> Any:
    """Something that changes whenever the job gets on; None before it began and for an unknown job."""
    topics = progress(settings, job).get("topics", {}) if job in JOBS else {}
    return {name: JOBS[job].position_of(topic) for name, topic in topics.items()} or None


def lag(settings: Settings, job: str) -> int | None:
    """Records that the job has not processed yet, over its topics; None where Kafka does not tell."""
    from kafka.errors import KafkaError

    from sluice.transmission.lag import group_lag
    from sluice.transmission.topics import TopicMissing

    records = 0
    try:
        for topic in progress(settings, job).get("topics", {}):
            group = f"sluice-{JOBS[job].group}-{topic}"
            with suppress(TopicMissing):  # described before its first line: nothing is to do
                records += sum(each.records for each in group_lag(settings, group, topic).values())
    except KafkaError:
        return None
    return records
