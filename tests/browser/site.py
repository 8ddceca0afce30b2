"""The console on a server of its own, over stores in memory and with a double of the login."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.responses import HTMLResponse

from sluice.batch.rebuild import ask
from sluice.batch.rebuild.scope import PlannedDay
from sluice.monitoring.flow.platform import Pictures
from sluice.monitoring.flow.seen import FlowAnswers
from sluice.runtime.throttle import Rate
from sluice.state.finals import BLOCK_BYTES
from sluice.storage.tables.news import NewsSnapshot, Published, TopicNews
from sluice.tasks.store import TaskStore
from tests.browser.filled import HOSTILE, LINES, fill
from tests.monitoring.flow.made import hurting
from tests.plugins.application import Login
from tests.plugins.served import served
from tests.results.questions import DAY_NUMBER, SKETCHED, stored, task
from tests.results.stored import COMMIT, Stored
from tests.tasks.database import sqlite

HOURS = 72
FINAL = frozenset({DAY_NUMBER, DAY_NUMBER + 1})
#: Files, lines and bytes that each day of a rebuild would read.
READ = (3, 5_000, 1 << 20)
#: As Airflow shows a view of a plugin.
FRAME = """<!doctype html><html lang="en"><head><title>frame</title></head><body>
<iframe title="Sluice" sandbox="allow-scripts allow-same-origin allow-forms allow-downloads"
 width="1000" height="700" src="/console/charts?task=sample"></iframe></body></html>"""


@dataclass
class Site:
    """The server, and what a test changes of what it shows."""

    url: str
    login: Login
    layers: Stored
    database: sa.Engine
    commit: int = COMMIT  # as of which the layers are
    deaf: bool = False  # nobody may listen to events
    seen: FlowAnswers = field(default_factory=lambda: hurting(HOSTILE))  # of the platform

    def count(self, lines: int) -> None:
        """So many more lines of a new period come, and are committed."""
        fresh = stored(self.layers.of, [*entries(), *[(HOURS, 1, 1, 50)] * lines], FINAL)
        self.layers.rows = fresh.rows
        self.layers.head += 1
        self.commit += 1


def entries() -> list[tuple[int, int, int, int]]:
    """Lines of three days, with a gap of three hours: hour, client, path, bytes."""
    found = []
    for hour in range(HOURS):
        if hour not in range(30, 33):
            lines = 12 + round(8 * math.sin(hour / 24 * 2 * math.pi))
            found += [(hour, each % 3, min(each % 7, 4), 7 * each % 900) for each in range(lines)]
    return found


def without_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pages ask of Kafka and of the archive's index."""
    from sluice_airflow.console import editor

    monkeypatch.setattr(editor, "sample", lambda settings, topic, count: LINES)
    monkeypatch.setattr(
        ask, "planned", lambda settings, topic, days: [PlannedDay(day, 3, 5_000, 1 << 20) for day in days]
    )


@contextmanager
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with a task that has results, of each state, and with things that are wrong."""
    from airflow.api_fastapi.core_api.security import get_user

    from sluice_airflow.api import app as module
    from sluice_airflow.api import hub, security, stores
    from sluice_airflow.api.reads import Reads, TooManyReaders
    from sluice_airflow.console import editor, platform

    login, database = Login(), sqlite(threads=True)
    layers = stored(task(SKETCHED), entries(), FINAL)
    layers.superseded, layers.block_bytes = frozenset({DAY_NUMBER + 1}), BLOCK_BYTES
    own = Site("", login, layers, database)

    async def known(token: str) -> Login:
        return login

    login.get_user_from_token = known  # type: ignore[attr-defined]
    login.as_("user", HOSTILE)
    monkeypatch.setattr(security, "get_auth_manager", lambda: login)
    # A site has what a server keeps for all of its users to itself: tries, listeners and places of reads.
    monkeypatch.setattr(editor, "RATE", Rate(editor.PER_MINUTE))
    monkeypatch.setattr(security, "RATE", Rate(security.PER_MINUTE))
    without_daemons(monkeypatch)
    fill(database, layers)

    def look() -> NewsSnapshot:
        keys = {each.name: ("logs", each.key) for each in TaskStore(database).list()}
        return NewsSnapshot(keys, {"logs": TopicNews(own.commit, {(1, 1): own.commit}, 0, Published())})

    class Told(hub.Hub):
        def join(self) -> Any:
            if own.deaf:
                raise TooManyReaders("32 listen already", 15)
            return super().join()

    listeners, places = Told(look, seconds=0.1), Reads()
    shown = Pictures(lambda: own.seen)
    app = module.make_app()
    app.dependency_overrides = {
        get_user: login.user,
        stores.database: lambda: database,
        stores.layers: lambda: layers,
        stores.hub: lambda: listeners,
        stores.reads: lambda: places,
        platform.platform: lambda: shown,
    }
    app.add_api_route("/frame", lambda: HTMLResponse(FRAME))
    with served(app) as own.url:
        yield own
