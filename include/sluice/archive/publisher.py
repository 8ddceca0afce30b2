"""Publishes files in the archive, and indexes the files that stand there."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from kafka.errors import KafkaError
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from sluice.archive import indexing
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition, ArchiveFile
from sluice.archive.footer import Footer
from sluice.archive.status import PartitionStatus
from sluice.stack.progress import PartitionState
from sluice.storage.hdfs import HdfsUnavailable
from sluice.storage.tables import eras
from sluice.storage.tables.eras import LogMoved
from sluice.transmission.topics import TopicMissing, Topics

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.2, 5.0
#: Errors that pass by themselves: Kafka or HDFS is away.
AWAY = (HdfsUnavailable, KafkaError)


class TopicChanged(RuntimeError):
    """The topic was deleted, and maybe made again: buffered records may be another topic's."""


class LostClaim(Exception):  # an event, not an error
    """Another writer's file stands under our name."""


class Publisher:
    """The files of one partition, each under the name that its first offset claims."""

    def __init__(
        self,
        place: ArchivedPartition,
        claims: Claims,
        topics: Topics,
        database: Engine,
        status: PartitionStatus,
    ) -> None:
        self._place = place
        self._claims = claims
        self._topics = topics
        self._database = database
        self._status = status
        self._unindexed: deque[tuple[Footer, int, str]] = deque()

    @property
    def behind(self) -> bool:
        """Whether files stand that are not in the index yet."""
        return bool(self._unindexed)

    def check_topic(self) -> None:
        """Raise TopicChanged if the topic is not the one whose records these are."""
        try:
            now = self._topics.describe(self._place.topic).id
        except TopicMissing as error:
            raise TopicChanged(self._ended("was deleted")) from error
        if now != self._place.topic_id:
            raise TopicChanged(self._ended(f"was made again with id {now}"))

    def check_log(self, read_at: tuple[int, int]) -> None:
        """Raise LogMoved if the partition's log has another era, or its leader another epoch, than that.

        Kafka is asked first: on another volume it has the same epoch, but an era began before it started.
        That needs PostgreSQL. So while that is away, Kafka's epoch says enough.
        """
        place = self._place
        if self._topics.log_ends(place.topic, [place.partition])[place.partition].epoch != read_at[1]:
            raise LogMoved(place.topic, [place.partition])
        try:
            with self._database.begin() as connection:
                eras.hold(connection, place.topic, {place.partition: read_at})
        except DBAPIError as error:
            log.warning("%s: cannot compare the era of its log: %s", place, error)

    def publish(self, made: ArchiveFile, check: Callable[[], None] = lambda: None) -> None:
        """Claim the file's name and index it. Raises LostClaim if another file stands there.

        check: raises if the file must not be claimed any more.
        """
        standing, length = self._claims.publish(made, check)
        if standing.claim != made.footer.claim:
            log.warning(
                "%s: lost the claim on offset %d to generation %d (this is %d); going on from what stands",
                self._place,
                standing.first,
                standing.generation,
                made.footer.generation,
            )
            raise LostClaim
        self._unindexed.append((standing, length, self._claims.named(standing.name)))
        self.try_index()

    def publish_through_outages(
        self,
        made: ArchiveFile,
        read_at: tuple[int, int],
        given_up: Callable[[], bool],
        sleep: Callable[[float], None],
    ) -> None:
        """Check the topic and its log, and publish the file; try again while Kafka or HDFS is away.

        It tries until `given_up`. The records were fetched before the check, in that era and at that epoch of
        the leader. So they are the topic's own, and in its log, if its id and both are still the same.

        Raises LostClaim, TopicChanged, LogMoved.
        """

        def publish() -> None:
            self.check_topic()
            self.publish(made, lambda: self.check_log(read_at))

        def failed(attempt: RetryCallState) -> None:
            if attempt.outcome and isinstance(error := attempt.outcome.exception(), AWAY):
                self._status.waits(error, attempt.seconds_since_start or 0.0)

        Retrying(
            retry=retry_if_exception_type(AWAY),
            wait=wait_exponential(FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS),
            stop=lambda _: given_up(),
            after=failed,
            sleep=sleep,
            reraise=True,
        )(publish)

    def try_index(self) -> None:
        """Index what stands, if PostgreSQL is there.

        The file is safe and its row can wait: the rows are added in their order before a position is derived
        again.
        """
        try:
            self.index()
        except DBAPIError as error:
            self._status.problem(PartitionState.ARCHIVING, error)
        else:
            self._status.recovered()

    def index(self) -> None:
        """Index what stands."""
        if self._unindexed:
            indexing.add(self._database, self._unindexed)
            self._unindexed.clear()

    def _ended(self, how: str) -> str:
        return (
            f"topic {self._place.topic!r} with id {self._place.topic_id} {how} "
            f"({self._status.progress.buffered} buffered lines of partition {self._place.partition} are "
            "dropped: they may be another topic's)"
        )
