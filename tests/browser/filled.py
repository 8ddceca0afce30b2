"""What stands in the database of the console's site: something of each kind, and with hostile texts."""

from __future__ import annotations

from datetime import date, timedelta

import sqlalchemy as sa

from sluice.runtime.days import begin_ms
from sluice.storage.tables import reconciled, recounts, schema
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.dashboards import Dashboards, PinnedChart
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.rebuilds import Rebuilds
from sluice.tasks.store import TaskStore
from tests.engine.samples import line, spec
from tests.plugins.test_quality_pages import DIFFERENCE, compared, computed, letter
from tests.results.stored import Stored

#: What is hostile in a path also is so in names of alerts and users.
HOSTILE = "<img/src=x/onerror=alert(1)>"
#: Charts that can be drawn, one of a task that is gone, and what is no chart's address.
CHARTS = (
    PinnedChart("All", "task=sample&last=all"),
    PinnedChart(
        HOSTILE, "task=sample&metric=count&metric=p50&split=path&top=2&last=all&shape=stack&compare=before"
    ),
    PinnedChart("By client", "task=sample&split=client&last=6h"),
    PinnedChart("Gone", "task=gone"),
    PinnedChart("Wrong", "task=sample&top=many"),
)
#: The newest lines of each topic.
LINES = [line(status="404"), line(path="/blog/a"), line(path=HOSTILE, size="-")]


def counted_again(database: sa.Engine) -> None:
    """State of two days, of which one is counted again; and a period that damage set aside."""
    first, book = date(2015, 5, 17), Rebuilds(database)
    days = [first, first + timedelta(days=1)]
    lost = (1, 1, begin_ms(days[1]))
    with database.begin() as connection:
        for day in days:
            row = {"topic": "logs", **vars(StatePeriod(1, 1, begin_ms(day), 1, 1, 5, 100))}
            connection.execute(sa.insert(schema.state_periods).values(**row))
        rows = [{**recounts.row_of("logs", lost), "why": HOSTILE}]
        recounts.put(connection, rows, {"switched": False})
    number = book.request("logs", [(1, 1)], *days, user=HOSTILE).id
    book.begin(number, [lost], days)
    book.stage(number, first, [], 1_234)
    book.set_failed(number, HOSTILE)


def fill(database: sa.Engine, layers: Stored) -> None:
    """Tasks of each state, days of each state, dead letters, an alert."""
    tasks = TaskStore(database)
    tasks.apply([layers.of.spec, spec(name="paused"), spec(name="broken", description=HOSTILE)], "ann")
    tasks.apply([spec(name="broken", period="1h", description=HOSTILE)], HOSTILE)
    tasks.pause("paused", "ann")
    tasks.set_aside(tasks.get("broken").task_id, 2, HOSTILE)
    days = {"first_day": date(2015, 5, 16), "last_day": date(2015, 5, 17)}
    Backfills(database).request(tasks.get("sample").task_id, 1, topic="logs", user=HOSTILE, **days)
    counted_again(database)
    for number in (17, 18, 19):
        computed(database, number)
    differing = DIFFERENCE | {"task": "sample (1v1)", "dimensions": {"path": HOSTILE}}
    found = {"tasks": {"sample (1v1)": [5, 1], "paused (2v1)": [5, 0]}, "differences": [differing]}
    reconciled.note(database, compared(17, "agrees", tasks=found["tasks"]))
    reconciled.note(database, compared(18, "superseded", message=HOSTILE))
    reconciled.note(database, compared(18, "differs", 2, **found))
    letter(database, 1, "no event time", HOSTILE.encode())
    letter(database, 2, "forged", b"a forged one", days_ago=1)
    Dashboards(database).create(HOSTILE, "Board", CHARTS, shared=True)
    Dashboards(database).create("ann", HOSTILE, CHARTS[:3], shared=True)
    with database.begin() as connection:
        connection.execute(sa.insert(schema.alerts).values(source="watch", name=HOSTILE, message=HOSTILE))
