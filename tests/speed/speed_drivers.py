"""For tests of several drivers: their processes, and topics to which lines come all the time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from sluice.runtime.settings import Settings
from sluice.storage.tables.speed_topics import SpeedTopics
from sluice.tasks.topics import DEFAULT_TOPIC
from sluice_lab.waiting import until
from tests.speed.speed_driver import SpeedTest, access_lines

FIRST, SECOND, NEVER_RUN = "speed_layer", "speed_layer-2", "speed_layer-3"
#: How long whatever a test waits for may take (seconds): a driver starts beside others.
PATIENCE = 600.0
#: So many lines are counted in the driver: what moves are tested with has no need of Spark's workers.
SMALL_BATCH = "1000000"
LINES = 40
PAUSE_SECONDS = 0.25


class DriversTest:
    """Two topics and two drivers in the running platform, with a database of their own.

    A third driver never runs. It has the platform's default topic, whose lines are not this test's.
    """

    def __init__(self, settings: Settings, home: Path) -> None:
        self.home = home
        first = SpeedTest(settings, home)
        self.topics = (first, SpeedTest(settings, home, beside=first))
        self.settings = first.settings
        self.table = SpeedTopics(first.engine)
        self.drivers: dict[str, subprocess.Popen[bytes]] = {}
        self.table.move({DEFAULT_TOPIC: NEVER_RUN}, "ann")

    def start(self, driver: str, drivers: int = 3, **more: str) -> None:
        """Start a driver; it dies at the crash points that are named in its folder `faults`.

        drivers: how many there should be; 0: as many as its settings.yaml says.
        """
        self.faults(driver).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(self.settings.root / "jobs" / "speed_layer.py"), "--member", driver]
        env = self.environment(drivers, SLUICE_FAULTS=str(self.faults(driver)), **more)
        with (self.home / f"{driver}.log").open("ab") as log:
            self.drivers[driver] = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def environment(self, drivers: int = 3, **more: str) -> dict[str, str]:
        """What a driver has in its environment."""
        env = {"SLUICE_SPEED__SMALL_BATCH": SMALL_BATCH, **more}
        if drivers:
            env["SLUICE_SPEED__DRIVERS"] = str(drivers)
        return self.topics[0].environment(**env)

    def faults(self, driver: str) -> Path:
        return self.home / "faults" / driver

    def stop(self, driver: str) -> int:
        self.drivers[driver].send_signal(signal.SIGTERM)
        return self.drivers[driver].wait(PATIENCE)

    def owner(self, topic: str) -> str | None:
        """The driver that counts the topic."""
        place = self.table.places().get(topic)
        return None if place is None else place.owner

    def move(self, topic: str, driver: str) -> None:
        """Move a topic, and wait until the driver counts lines of it."""
        self.table.move({topic: driver}, "ann")
        self.wait(topic, driver)

    def wait(self, topic: str, driver: str) -> None:
        """Wait until the driver has the topic, and commits."""
        until(lambda: self.owner(topic) == driver, PATIENCE)
        (test,) = (each for each in self.topics if each.topic == topic)
        before = test.committed()
        until(lambda: test.committed() > before, PATIENCE)

    @contextmanager
    def lines(self) -> Iterator[None]:
        """Lines come to both topics all the time."""
        over = threading.Event()
        thread = threading.Thread(target=self._send, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def check(self) -> None:
        """Wait until all lines are counted, and assert that each one counted once."""
        for test in self.topics:
            until(test.caught_up, PATIENCE)
            test.check()

    def close(self) -> None:
        for process in self.drivers.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        for test in reversed(self.topics):
            test.close()

    def gaps(self, topic: str) -> tuple[list[float], list[float]]:
        """Seconds between the topic's commits: of different writers, and of the same."""
        (test,) = (each for each in self.topics if each.topic == topic)
        changed, same = list[float](), list[float]()
        for before, after in pairwise(test.commits()):
            seconds = (after.committed_at - before.committed_at).total_seconds()
            (same if after.token == before.token else changed).append(seconds)
        return changed, same

    def _send(self, over: threading.Event) -> None:
        seed = 0
        while not over.wait(PAUSE_SECONDS):
            for test in self.topics:
                seed += 1
                test.append(access_lines(LINES, seed=seed))
