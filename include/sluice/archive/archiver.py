"""The archiver of one topic: one session with Kafka after another, until it is stopped."""

from __future__ import annotations

import logging
import threading
import time

from kafka.errors import KafkaError
from sqlalchemy.exc import DBAPIError

from sluice.archive.heartbeat import Heartbeat
from sluice.archive.membership import DroppedMember, Replaced
from sluice.archive.session import ArchiveSession
from sluice.runtime.backoff import Backoff
from sluice.runtime.settings import Settings
from sluice.stack.jobs import ARCHIVER
from sluice.stack.progress import ArchivedTopic, ArchivingState
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice.transmission.topics import TopicMissing, Topics

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.5, 5.0


class Archiver:
    """Archives one topic until `stop` is set, as the group's member of that name."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        heartbeat: Heartbeat,
        stop: threading.Event,
        member: str = ARCHIVER,
    ) -> None:
        self._settings, self._topic, self._member = settings, topic, member
        self._heartbeat, self._stop = heartbeat, stop

    def run(self) -> None:
        """Run one session after another until `stop` is set.

        Each session has its own consumer, writers and topic id, and needs nothing of the one before.
        """
        backoff = Backoff(FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS)
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._session()
            except Replaced as change:
                self._tell(str(change))
            except DroppedMember as event:
                log.warning("%s: joining the group again: %s", self._topic, event)
            except TopicMissing as error:
                self._beat(ArchivingState.NO_TOPIC, str(error))
            except KafkaError as error:
                log.warning("%s: starting again: %s: %s", self._topic, type(error).__name__, error)
                self._beat(ArchivingState.NO_KAFKA, str(error))
            except Exception as error:
                # The files are right in any case, so begin again from them. Other topics go on.
                log.exception("%s: unexpected; starting again", self._topic)
                self._beat(ArchivingState.AGAIN, str(error))
            if time.monotonic() - began > MAX_DELAY_SECONDS:
                backoff.reset()
            self._stop.wait(backoff.pause())
        self._beat(ArchivingState.STOPPED, "")

    def _session(self) -> None:
        with Topics(self._settings) as topics:
            found = topics.describe(self._topic)
            ArchiveSession(
                self._settings,
                self._topic,
                found.id,
                topics=topics,
                heartbeat=self._heartbeat,
                stop=self._stop,
                member=self._member,
            ).run()

    def _tell(self, change: str) -> None:
        log.error("%s: %s", self._topic, change)
        try:
            name = f"{self._topic}: replaced"
            alerts.sync(engine(self._settings), "archive", {name: change}, prefix=name)
        except DBAPIError as error:
            log.warning("%s: the alert could not be written: %s", self._topic, error)

    def _beat(self, state: ArchivingState, message: str) -> None:
        self._heartbeat.beat(self._topic, ArchivedTopic(state=state, message=message))
