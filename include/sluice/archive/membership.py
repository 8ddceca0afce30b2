"""Checks that the topic is still the archived one, and that the group knows this member."""

from __future__ import annotations

import time

from kafka.errors import KafkaError

from sluice.transmission.lag import archive_group
from sluice.transmission.topics import TopicMissing, Topics

WATCH_SECONDS = 5.0
# Between two rounds of a rebalance a member may be missing.
MISSES = 2


class Replaced(Exception):
    """The topic was deleted or made again: the session is over."""


class DroppedMember(Exception):
    """The group has dropped this member, unnoticed by its consumer: a new session joins again."""


class Membership:
    """Asks Kafka every few seconds, because without lines no flush would notice either change."""

    def __init__(self, topics: Topics, topic: str, topic_id: str) -> None:
        self._topics, self._topic, self._topic_id = topics, topic, topic_id
        self._asked = time.monotonic()
        self._missed = 0

    def check(self, member: str, feeding: bool) -> None:
        """Raise Replaced or Dropped. `member`: this one's id. `feeding`: whether it has partitions."""
        if time.monotonic() - self._asked < WATCH_SECONDS:
            return
        self._asked = time.monotonic()
        try:
            found = self._topics.describe(self._topic).id
            members = self._topics.members(archive_group(self._topic))
        except TopicMissing:
            found, members = "none", frozenset()
        except KafkaError:
            return
        if found != self._topic_id:
            raise Replaced(f"topic {self._topic!r} had the id {self._topic_id}, it has {found} now")
        self._check_member(member, members, feeding)

    def _check_member(self, member: str, members: frozenset[str], feeding: bool) -> None:
        """Raise Dropped when the group has not known this member twice in a row.

        kafka-python 3.0.12: the task that sends the heartbeats can stall for good. The broker then drops the
        member, but `poll` hears nothing of it: it keeps fetching without a pause because a heartbeat is
        overdue.
        """
        self._missed = 0 if not feeding or member in members else self._missed + 1
        if self._missed >= MISSES:
            raise DroppedMember(f"the group does not know {member}, it has {len(members)} members")
