"""When the blocks of each front-end came to Kafka, and the longest time without one."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

from kafka import TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission.line_schema import HOST
from sluice.transmission.reading import reader
from sluice.transmission.topics import REQUEST_MS, Topics

POLL_MS = 500


def arrivals(settings: Settings, topic: str, since: int) -> dict[str, list[int]]:
    """The times of each front-end's blocks, in order, in ms since the epoch by the broker's clock.

    since: of the same clock; what came before is left out. Reads without a group, so no consumer's position
    moves. Raises TopicMissing, KafkaError.
    """
    with Topics(settings) as topics:
        partitions = [TopicPartition(topic, number) for number in topics.describe(topic).partitions]
    consumer = reader(
        settings.kafka,
        client_id="sluice-arrivals",
        request_timeout_ms=REQUEST_MS,
    )
    found: defaultdict[str, list[int]] = defaultdict(list)
    try:
        end = consumer.end_offsets(partitions)
        begin = consumer.offsets_for_times(dict.fromkeys(partitions, since))
        waiting = {at for at in partitions if begin[at] is not None}
        consumer.assign(list(waiting))
        for at in waiting:
            consumer.seek(at, begin[at].offset)
        while waiting:
            for messages in consumer.poll(timeout_ms=POLL_MS).values():
                for message in messages:
                    for host in (value for name, value in message.headers if name == HOST and value):
                        found[host.decode(errors="backslashreplace")].append(message.timestamp)
            waiting = {at for at in waiting if consumer.position(at) < end[at]}
    finally:
        consumer.close()
    return {host: sorted(times) for host, times in found.items()}


def longest_pause(times: Sequence[int], begin: int, end: int) -> float:
    """The longest time without a block between two moments, in seconds.

    times: as `arrivals` gives them. A time that began before or ended after these moments counts as a whole:
    the last block before `begin` and the first one after `end` are its ends, if there are any.
    """
    before = max((time for time in times if time < begin), default=begin)
    after = min((time for time in times if time > end), default=end)
    within = [before, *(time for time in times if begin <= time <= end), after]
    return max(later - earlier for earlier, later in itertools.pairwise(within)) / 1_000
