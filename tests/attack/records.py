"""Every record that nobody can read, in a topic of its own, read as the speed layer reads it."""

from __future__ import annotations

import resource
import uuid

import pytest

from sluice.runtime.settings import Settings
from sluice.speed.source import Slice, SourcePart
from sluice.transmission.line_schema import UNREADABLE
from sluice.transmission.topics import Topics
from tests.attack.outcome import Outcome
from tests.speed.test_poison import Poisoner, poisons
from tests.transmission.batches import lines

GOOD = b"a good line"
MOST_GROWTH_MIB = 512


def run(settings: Settings) -> Outcome:
    """Send poison between good lines: each good line must come, and what is not read must be named."""
    outcome = Outcome("hostile records")
    topic = f"attack_{uuid.uuid4().hex[:8]}"
    with Topics(settings) as topics, pytest.MonkeyPatch.context() as patch:
        topics.create(topic)
        poisoner = Poisoner(settings, topic, patch)
        try:
            for name, poison in poisons():
                column, wrong = one(settings, topics, poisoner, topic=topic, poison=poison)
                outcome.add("records", column, f"{name}: {wrong}" if wrong else "")
        finally:
            poisoner.close()
            topics.delete(topic)
    return outcome


def one(
    settings: Settings, topics: Topics, poisoner: Poisoner, *, topic: str, poison: bytes
) -> tuple[str, str]:
    """Send one piece of poison between two good lines, and read the three.

    Returns the column in which it counts, and what is wrong.
    """
    start = topics.spans(topic, 0)[0].end
    assert poisoner.send(lines(0, GOOD))
    taken = poisoner.send(poison)
    assert poisoner.send(lines(0, GOOD))
    end, before = topics.spans(topic, 0)[0].end, peak_mib()
    try:
        read = list(SourcePart(settings.kafka, topic, [Slice(0, start, end)], b"k" * 32))
    except Exception as error:
        return "STOPS", f"{type(error).__name__}: {error}"
    good = sum(batch.column("line").to_pylist().count(GOOD) for batch in read)
    dead = sum(len(batch) - batch.column(UNREADABLE).null_count for batch in read)
    column = "a dead letter" if dead else "read" if taken else "refused by the broker"
    if peak_mib() - before > MOST_GROWTH_MIB:
        return column, f"memory grew by {peak_mib() - before} MiB"
    return column, "" if good == 2 else f"{good} of 2 good lines were read"


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
