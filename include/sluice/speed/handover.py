"""A driver that moves to another host hands its topics over first, and gets them back when it counts there.

A driver takes long to start, and a topic moves between drivers that run within seconds. So no topic waits for
the start. The rows of the topics say all: a mover that dies in between leaves them with the other drivers,
which count them, until `sluice topics spread` evens the drivers out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sluice.elsewhere import moving
from sluice.runtime.settings import Settings, newest
from sluice.stack import jobs
from sluice.storage.postgres import engine
from sluice.storage.speed_topics import SpeedTopics, least_loaded

Log = Callable[[str], None]

#: How long a driver may take to give a topic up, with a batch under way, and another one to take it.
HAND_OVER_SECONDS = 90.0
#: How long a driver may take from the start of its process until it counts.
START_SECONDS = 240.0
_POLL = 0.2


@contextmanager
def handed_over(settings: Settings, driver: str, log: Log) -> Iterator[None]:
    """Let the other drivers that run count the driver's topics, until it runs on its new host.

    Nothing is handed over if there is no other, or if nobody knows whether the driver runs: its topics then
    wait until it is started. Raises JobNotMoved if it does not count on its new host; as after any error, the
    others keep the topics.
    """
    table = SpeedTopics(engine(settings))
    lent = _lend(settings, driver, table)
    if not lent:
        log(f"{driver}: no other driver can have its topics, which wait until it has started")
        yield
        return
    log(f"{driver}: {_shown(lent)}, while it moves")
    try:
        if late := _until_owned(table, lent):
            log(f"{driver}: has not released {', '.join(late)}, and is stopped all the same")
        yield
        _until_it_counts(settings, driver)
        back = _give_back(table, driver, lent)
    except BaseException:
        log(f"{driver}: its topics stay where they are: `sluice topics spread` evens the drivers out")
        raise
    log(f"{driver}: has its topics again: {', '.join(back) or 'none, as all were moved meanwhile'}")


def _lend(settings: Settings, driver: str, table: SpeedTopics) -> Mapping[str, str]:
    """Write other drivers into the rows of the driver's topics; returns the driver of each."""
    settings = newest(settings)
    running = [each for each in jobs.running_drivers(settings) if moving.seen(settings, each)]
    others = [each for each in running if each != driver]
    if not others or driver not in running:
        return {}
    places = table.places()
    mine = [topic for topic, place in places.items() if place.driver == driver]
    placed = {topic: place.driver for topic, place in places.items() if place.driver in others}
    lent = least_loaded(mine, others, placed, table.loads(places))
    table.move(lent)
    return lent


def _give_back(table: SpeedTopics, driver: str, lent: Mapping[str, str]) -> list[str]:
    """Write the driver into the rows of the topics that the others still have for it; returns these."""
    places = table.places()
    back = [topic for topic, other in lent.items() if topic in places and places[topic].driver == other]
    table.move(dict.fromkeys(back, driver))
    _until_owned(table, dict.fromkeys(back, driver))
    return sorted(back)


def _until_owned(table: SpeedTopics, wanted: Mapping[str, str]) -> list[str]:
    """Wait until these drivers have the topics; returns those that they do not have in time."""
    deadline = time.monotonic() + HAND_OVER_SECONDS
    while True:
        places = table.places()
        late = [each for each, driver in wanted.items() if each in places and places[each].owner != driver]
        if not late or time.monotonic() > deadline:
            return sorted(late)
        time.sleep(_POLL)


def _until_it_counts(settings: Settings, driver: str) -> None:
    """Wait until the process that is there now says that it counts. Raises JobNotMoved."""
    deadline = time.monotonic() + START_SECONDS
    while not _counts(settings, driver):
        if time.monotonic() > deadline:
            raise moving.JobNotMoved(
                f"{driver} moved, and does not count after {START_SECONDS:g} s: see `sluice logs {driver}`"
            )
        time.sleep(_POLL)


def _counts(settings: Settings, driver: str) -> bool:
    process = moving.seen(settings, driver)
    said = jobs.members(settings, jobs.SPEED_LAYER).get(driver, {})
    return process is not None and said.get("pid") == process.pid and said.get("state") == "running"


def _shown(lent: Mapping[str, str]) -> str:
    return ", ".join(f"{topic} goes to {other}" for topic, other in sorted(lent.items()))
