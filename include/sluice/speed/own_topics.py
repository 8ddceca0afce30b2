"""Which topics a driver counts: all if there is one driver, else those whose row names it.

With several drivers any of them gives new topics to the least loaded (`SpeedTopics.settle`). Each looks at
the rows once a second, so a move begins within a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.speed_topics import Places, SpeedTopics
from sluice.tasks.topics import DEFAULT_TOPIC, TOPICS_SECONDS, TopicStore

log = logging.getLogger(__name__)

#: How soon a driver sees that a topic moves.
MOVES_SECONDS = 1.0
#: A driver that becomes the only one is alone after this time. Until then another may still hold a topic.
ALONE_SECONDS = 30.0


@dataclass(frozen=True)
class Named:
    """Topics that were named when the driver was started: it counts them, whatever their rows say."""

    topics: Sequence[str]
    alone: bool = True

    def __call__(self, counted: Collection[str]) -> Collection[str]:
        return self.topics


class OwnTopics:
    """The topics of one driver. While PostgreSQL does not answer, they are those of the last answer.

    driver: its name. drivers: returns the names of all, the first one first. moves: returns whether it was
    ever started on another host; it may then still run there, beside this one.
    """

    def __init__(
        self, settings: Settings, driver: str, drivers: Callable[[], Sequence[str]], moves: Callable[[], bool]
    ) -> None:
        database = engine(settings)
        self._moves = moves
        self._topics, self._table = TopicStore(database), SpeedTopics(database)
        self._driver, self._ask = driver, drivers
        self._drivers = drivers()
        self._names: Sequence[str] = [DEFAULT_TOPIC] if self.only else ()
        self._places: Places = {}
        self._settle_at = self._look_at = 0.0
        self._shared_at = float("-inf")  # when there last was another driver

    @property
    def only(self) -> bool:
        """Whether there should be no other driver."""
        return list(self._drivers) == [self._driver]

    @property
    def alone(self) -> bool:
        """Whether there is no other driver: who else counts a topic of this one is a second speed layer.

        A driver that moves is never alone: it waits for topics that the one before it still holds.
        """
        return not self._moves() and time.monotonic() - self._shared_at > ALONE_SECONDS

    def __call__(self, counted: Collection[str]) -> Collection[str]:
        """The topics that it should count now. counted: those that it counts."""
        now = time.monotonic()
        try:
            if now >= self._settle_at:
                self._settle_at, self._look_at = now + TOPICS_SECONDS, now + MOVES_SECONDS
                self._settle(counted)
            elif now >= self._look_at and not self.alone:
                self._look_at = now + MOVES_SECONDS
                self._places = self._table.places()
        except DBAPIError as error:
            log.warning("cannot ask PostgreSQL for this driver's topics: %s", error)
        if self._places or not self.only:
            self._shared_at = now
        if self.only:
            return self._names
        return [name for name, place in self._places.items() if place.driver == self._driver]

    def _settle(self, counted: Collection[str]) -> None:
        self._drivers = self._ask()
        self._names = self._topics.names()
        mine = dict.fromkeys(counted, self._driver)
        self._places = self._table.settle(self._names, self._drivers, mine)
