"""Moves of topics between drivers: a person's, and those that even out the drivers' loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.placement.base import Cluster, HostSlots, Move, Unit
from sluice.placement.plan import plan
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.storage.postgres import engine
from sluice.storage.tables.speed_topics import SpeedTopics
from sluice.tasks.topics import TopicStore


class OneDriver(ValueError):
    """There is one driver, so no topic can move."""

    def __init__(self) -> None:
        super().__init__(
            "one driver counts all topics: set speed.drivers in include/settings.yaml to share them"
        )


class UnknownDriver(LookupError):
    """There is no driver of that name."""

    def __init__(self, driver: str, drivers: Sequence[str]) -> None:
        super().__init__(f"driver {driver!r} does not exist: the drivers are {', '.join(drivers)}")


class NotCounted(LookupError):
    """No driver counts the topic."""

    def __init__(self, topic: str, topics: Sequence[str]) -> None:
        super().__init__(f"topic {topic!r} is not counted: the topics are {', '.join(topics)}")


class DriverAway(ValueError):
    """The driver does not run, so a topic would wait for it."""

    def __init__(self, driver: str) -> None:
        super().__init__(
            f"driver {driver!r} has shown no sign of life for {jobs.SILENT_SECONDS:.0f} s, and a topic would "
            "wait for it: see `sluice status`"
        )


def move(settings: Settings, topic: str, driver: str, user: str) -> str | None:
    """Let the driver count the topic; returns the driver that should have until now, if there was one.

    Raises OneDriver, UnknownDriver, NotCounted, DriverAway.
    """
    drivers = _several(settings)
    if driver not in drivers:
        raise UnknownDriver(driver, drivers)
    topics = TopicStore(engine(settings)).names()
    if topic not in topics:
        raise NotCounted(topic, topics)
    if driver not in jobs.running_drivers(settings):
        raise DriverAway(driver)
    table = SpeedTopics(engine(settings))
    before = table.places().get(topic)
    table.move({topic: driver}, user)
    return None if before is None else before.driver


def spread(settings: Settings) -> list[Move]:
    """The moves after which the drivers that run have about equal loads. Nothing moves. Raises OneDriver."""
    _several(settings)
    table = SpeedTopics(engine(settings))
    placed = {topic: place.driver for topic, place in table.places().items()}
    return evened(placed, jobs.running_drivers(settings), table.loads(placed))


def evened(placed: Mapping[str, str], drivers: Sequence[str], loads: Mapping[str, float]) -> list[Move]:
    """The fewest moves that even out the drivers. placed: the driver of each topic. loads: bytes a second.

    A topic of a driver that is none of these moves in any case. Without a driver nothing moves.
    """
    if not (drivers and placed):
        return []
    hosts = tuple(HostSlots(driver, slots=len(placed), speed=1.0) for driver in drivers)
    units = tuple(Unit(topic, load=loads.get(topic, 0.0)) for topic in placed)
    found = plan(Cluster(hosts, units, placed))
    return [each._replace(source=placed[each.unit]) for step in found.steps for each in step]


def _several(settings: Settings) -> list[str]:
    drivers = jobs.drivers(settings)
    if len(drivers) == 1:
        raise OneDriver
    return drivers
