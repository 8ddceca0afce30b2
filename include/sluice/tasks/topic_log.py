"""A topic's partitions with all eras of their logs, looked at in Kafka and booked in PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from kafka.errors import LeaderNotAvailableError
from sqlalchemy import Engine

from sluice.runtime.positions import NO_EPOCH, Era, PartitionLog
from sluice.storage.tables import alerts, eras
from sluice.storage.tables.eras import LookedAt
from sluice.transmission.log_ends import LogEnd
from sluice.transmission.topics import Topics

log = logging.getLogger(__name__)

#: How often a look begins again because others looked, too.
TRIES = 5


class TopicLog:
    """Looks at a topic's partitions; used by one thread at a time.

    Whoever reads records looks before it reads on: when it starts, and once `moved` says so. Else it could
    take other records for those that it has read, because they have the same offsets.
    """

    def __init__(self, database: Engine, topics: Topics, topic: str) -> None:
        self.topic, self.topic_id = topic, ""
        self.logs: Mapping[int, PartitionLog] = {}
        self._database, self._topics = database, topics

    def look(self, only: Collection[int] | None = None) -> Mapping[int, PartitionLog]:
        """Each partition's log as it is now; only: these partitions alone.

        An era begins if one of the layers had read records that Kafka does not have now. Raises
        TopicMissing, KafkaError, DBAPIError.
        """
        described = self._topics.describe(self.topic)
        left = [each for each in described.partitions if only is None or each in only]
        for _ in range(TRIES):
            if not (left := self._look(described.id, left)):
                break
        else:
            raise LeaderNotAvailableError(f"{self.topic}: partitions {left} change all the time")
        there = eras.logs(self._database, self.topic)
        self.topic_id = described.id
        self.logs = {number: log for number, log in there.items() if number in described.partitions}
        return self.logs

    def _look(self, topic_id: str, numbers: Sequence[int]) -> list[int]:
        """Look once; returns the partitions that somebody else looked at meanwhile."""
        known = eras.known(self._database, self.topic, topic_id, numbers)
        ends = self._topics.log_ends(self.topic, numbers)
        asked = {}
        cuts = {number: end.offset for number, end in ends.items()}
        for number, end in ends.items():
            newest = known[number].newest
            if not newest or newest.topic_id != topic_id or newest.epoch == end.epoch:
                continue
            if newest.shared == NO_EPOCH:
                cuts[number] = 0
            elif min(newest.known, end.epoch) >= 0:
                # A log of an older epoch than is known was restored; what is of its newest one came since.
                asked[number] = newest.known if newest.known < end.epoch else end.epoch - 1
        for number, cut in self._topics.ends_of_epochs(self.topic, asked).items():
            cuts[number] = min(cut, cuts[number])
        found = {
            number: LookedAt(topic_id, end.epoch, cuts[number], known[number]) for number, end in ends.items()
        }
        stale = eras.looked_at(self._database, self.topic, found)
        after = eras.logs(self._database, self.topic)
        for number in found.keys() - set(stale):
            newest, before = after[number].newest, known[number].newest
            if newest.era and (before is None or (newest.era, -newest.begins) > (before.era, -before.begins)):
                self._say(number, newest)
        return stale

    def moved(self, ends: Mapping[int, LogEnd]) -> list[int]:
        """The partitions whose leader has another epoch than when they were looked at, or that are new."""
        return [
            number
            for number, end in ends.items()
            if number not in self.logs or self.logs[number].newest.epoch != end.epoch
        ]

    def _say(self, number: int, era: Era) -> None:
        name = f"lost {self.topic}/{number}: offset {era.begins}, era {era.era}"
        message = (
            f"Kafka lost the records of {self.topic}/{number} from offset {era.begins} on, of which "
            f"{era.reached - era.begins} had been read: its log was cut off (a power cut, an older volume), "
            "or the topic was made again. What comes to these offsets now is counted and archived as era "
            f"{era.era}"
        )
        log.error("%s", message)
        alerts.sync(self._database, "archive", {name: message}, prefix=name)
