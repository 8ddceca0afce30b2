"""The topics that collectors write to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sluice.collection.deploy_plan import AgentChange
from sluice.runtime.settings import Settings

Log = Callable[[str], None]


def make_topics(settings: Settings, changes: Iterable[AgentChange], log: Log) -> None:
    """Create the collectors' topic.

    A failure is only logged, because without Kafka the lines wait in the collectors' channels.
    """
    from kafka.errors import KafkaError

    from sluice.transmission.topics import Topics

    collectors = [c.rendered.agent for c in changes if c.rendered and c.tier == "collector"]
    for topic in sorted({agent.topic for agent in collectors}):
        try:
            with Topics(settings) as topics:
                topics.create(topic)
        except KafkaError as error:
            log(
                f"topic {topic!r} is not known to exist ({error}): lines wait in the collectors until it does"
            )
