"""What becomes of Kafka's records of lines that were erased: all that both layers have are deleted at once.

Kafka deletes no single record, only all before an offset. Both layers have these, so nobody reads them again:
only `sluice archive repair` could.
"""

from __future__ import annotations

from sluice.archive.trimming import read_by_all
from sluice.runtime.settings import Settings
from sluice.transmission.topic_logs import TopicLogs
from sluice.transmission.topics import TopicMissing, Topics

EXTERNAL = (
    "Kafka's records: Kafka is run by somebody else here, who says how long it keeps them; have the topic's "
    "records deleted there, or wait until they are"
)


def delete_read(settings: Settings, topic: str) -> str:
    """Delete all records of the topic that are archived and counted; returns what was done.

    Raises KafkaError.
    """
    if "kafka" in settings.external:
        return EXTERNAL
    with Topics(settings) as topics, TopicLogs(settings) as logs:
        try:
            topic_id, spans = topics.describe(topic).id, topics.spans(topic, 0)
        except TopicMissing:
            return "Kafka's records: Kafka has no such topic"
        read = read_by_all(settings, topic, topic_id, {number: span.end for number, span in spans.items()})
        before = {
            number: min(read[number], span.end) for number, span in spans.items() if read[number] > span.start
        }
        if before:
            logs.delete(topic, before)
        gone = sum(at - spans[number].start for number, at in before.items())
    return (
        f"Kafka's records: {gone:,} that are archived and counted are deleted, so nobody can read them; "
        "their bytes leave the broker's disk with their segment, once a later one is begun"
    )
