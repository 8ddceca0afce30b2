"""What the watch does beside restarting: it looks at the platform, and keeps a sample a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sluice.monitoring import aside_pieces, damaged_files, figures, namenode_heap, sampled, watch_progress
from sluice.monitoring.disk_trend import DiskTrends
from sluice.runtime.settings import Settings
from sluice.stack import jobs, tls
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, samples

SAMPLE_SECONDS = 60.0
#: The source of the alert, and how long before the end it is raised: the instance renews its own earlier.
CERTIFICATES, SOON = "tls", timedelta(days=14)


class Observer:
    """Called with the daemons' problems after each round of the watch; returns at once.

    It works in a thread of its own, because an agent or a broker that hangs must not keep the watch from
    restarting daemons. A round that comes while the one before is still at work is left out.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._thread: threading.Thread | None = None
        self._sampled = -SAMPLE_SECONDS
        self._disks = DiskTrends(settings)

    def __call__(self, problems: Mapping[str, str]) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self.observe, args=(problems,), daemon=True)
            self._thread.start()

    def observe(self, problems: Mapping[str, str]) -> None:
        """Look once, and keep a sample if one is due."""
        for step in (partial(self._look, problems), self._sample):
            try:
                step()
            except (OSError, SQLAlchemyError) as error:  # a full disk; a database that restarts
                self._say(f"the figures are not kept: {str(error).splitlines()[0]}")

    def _look(self, problems: Mapping[str, str]) -> None:
        watch_progress.write(self._settings, watch_progress.collect(self._settings, problems, self._say))

    def _sample(self) -> None:
        if time.monotonic() - self._sampled < SAMPLE_SECONDS:
            return
        now = datetime.now(UTC)
        self._disks.tell(engine(self._settings), now)
        document = figures.read(self._settings, now.timestamp()).document()
        document |= sampled.hot(jobs.speed_layer(self._settings))
        with engine(self._settings).connect() as connection:
            document |= sampled.hops(connection)
        samples.add(engine(self._settings), now, document)
        self._sampled = time.monotonic()
        _tell_of_certificate(self._settings, engine(self._settings))
        namenode_heap.tell(self._settings, engine(self._settings))
        damaged_files.tell(self._settings, engine(self._settings))
        aside_pieces.tell(self._settings, engine(self._settings))


def _tell_of_certificate(settings: Settings, database: sa.Engine) -> None:
    """Alert before the doors' certificate ends: with it everybody's log-ins end, the platform's too."""
    alerts.sync(database, CERTIFICATES, dict(ending_certificate(settings)))


def ending_certificate(settings: Settings) -> Iterator[tuple[str, str]]:
    """The alert's name and message, if the doors show a certificate that ends soon, or has."""
    try:
        until = tls.shown(settings).until if tls.doors(settings) else None
    except FileNotFoundError:  # nothing shows one yet
        return
    if until is None or until > datetime.now(UTC) + SOON:
        return
    verb = "ends" if until > datetime.now(UTC) else "ended"
    if own := settings.tls.certificate:
        remedy = f"put a new one into {own}, with its key, and it is taken up within the hour"
    else:
        remedy = "`sluice up` makes a new one, and says so if it cannot"
    yield "certificate", f"the certificate of the doors {verb} on {until:%Y-%m-%d %H:%M} UTC: {remedy}"
