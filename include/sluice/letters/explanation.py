"""Why a line is a dead letter: what was tried with it, and what would make it count."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sluice.engine.extract import BatchLines
from sluice.engine.parse import NO_EVENT_TIME, NOT_GENUINE, event_time
from sluice.storage.tables.dead_letters import OF_DIMENSION, DeadLetter
from sluice.tasks.topic_spec import TopicSpec

#: Characters of what stood where a line's time was looked for.
FOUND = 80


def tried(letter: DeadLetter, topic: TopicSpec) -> str:
    """What was done with the line before it was given up, and what came of it."""
    if letter.reason == NOT_GENUINE:
        return "Its record came with an identity (host, file, offset) whose proof is wrong."
    if letter.unreadable is not None:
        return f"Kafka's bytes could not be read as lines: {letter.unreadable}."
    if letter.reason != NO_EVENT_TIME:
        return f"The line has {letter.size:,} bytes: {letter.reason}."
    time = topic.time
    if time is None or time.extract is None:
        return "No time in brackets, like [17/May/2015:10:05:03 +0000], was found in it."
    values = BatchLines(pa.array([letter.line], pa.binary()), {}, topic).values(time.extract)
    where = ", ".join(f"{key} {value!r}" for key, value in time.extract.model_dump(exclude_none=True).items())
    if not len(values.distinct):
        return f"Its time was looked for by {where}: nothing is there."
    found = values.distinct[0].as_py()[:FOUND]
    return f"Its time was looked for by {where}: {found!r} is no time of the format {time.format!r}."


def remedy(letter: DeadLetter) -> str:
    """What would make the line count."""
    if letter.reason == NOT_GENUINE:
        return "Nothing here: if the line is real, its front-end sends it under its own identity."
    if letter.unreadable is not None:
        return "Nothing here: its producer must send it again, in a form that can be read."
    replay = f"`sluice deadletters replay {letter.topic} --into TOPIC`"
    if letter.reason == NO_EVENT_TIME:
        return (
            "A topic whose time reads it: describe one (`sluice topics apply`), apply its tasks there, then "
            f"{replay}."
        )
    if letter.reason.startswith(OF_DIMENSION):
        return "Nothing: an earlier release gave it up for all tasks, and both layers leave it out for good."
    return f"A higher limits.line_bytes ({letter.size:,} or more), and another topic: {replay}."


def readers(line: bytes, topics: Iterable[TopicSpec]) -> dict[str, datetime]:
    """The topics that find a time in the line, and which one (UTC)."""
    found = {}
    for topic in topics:
        ms, valid = event_time(pa.array([line], pa.binary()), topic)
        if valid[0]:
            found[topic.name] = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(ms[0]))
    return found
