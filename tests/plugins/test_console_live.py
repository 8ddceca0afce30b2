"""The console's pages in the real Airflow, on the real stores; what is asked of PostgreSQL alone."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import httpx
import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import dead_letters, reconciled, schema
from sluice.storage.tables.calendar import days_of
from sluice.storage.tables.commit_progress import newest_commits
from sluice.storage.tables.reconciled import DayCompared
from sluice.tasks.store import TaskStore
from tests.engine.samples import line, spec
from tests.plugins.live import logged_in

pytestmark = pytest.mark.stack


PAGES = "/sluice/console"


@pytest.fixture
def topic(stack: Settings) -> Iterator[str]:
    """A topic that nobody else has; its rows are deleted afterwards."""
    unique = f"console-{uuid.uuid4().hex[:12]}"
    yield unique
    with engine(stack).begin() as connection:
        for table in (schema.dead_letters, schema.event_days, schema.day_comparisons, schema.reconciled_days):
            connection.execute(sa.delete(table).where(table.c.topic == unique))


def test_dead_letters_are_counted_by_their_day_in_utc(stack: Settings, topic: str) -> None:
    database = engine(stack)
    at = datetime(2015, 5, 17, 23, 59, tzinfo=UTC)
    rows = [
        {"topic": topic, "partition": 0, "offset": n, "reason": "forged", "bytes": 1, "line": b"x"}
        | {"arrived_at": at + timedelta(minutes=n)}
        for n in range(3)
    ]
    with database.begin() as connection:
        connection.execute(sa.text("SET LOCAL TIME ZONE 'Asia/Tokyo'"))
        connection.execute(sa.insert(schema.dead_letters), rows)
    found = dead_letters.by_reason(database, topic, at)
    assert found == {"forged": {date(2015, 5, 17): 1, date(2015, 5, 18): 2}}
    assert [each.offset for each in dead_letters.newest(database, topic, day=date(2015, 5, 18))] == [2, 1]
    assert newest_commits(database, [topic]) == {}


def test_a_comparison_with_a_nul_in_a_value_is_kept(stack: Settings, topic: str) -> None:
    database, day = engine(stack), date(2015, 5, 17)
    details = {"differences": [{"dimensions": {"path": "a\0b"}}], "tasks": {"hits (1v1)": (3, 1)}}
    reconciled.note(database, DayCompared(topic, day, datetime.now(UTC), "differs", 3, 1, details))
    with database.begin() as connection:
        row = {"topic": topic, "day": day, "partition": 0, "lines": 3, "last_offset": 5}
        connection.execute(sa.insert(schema.event_days).values(**row))
    ((found,),) = ([each.compared for each in days_of(database, topic, day, day)],)
    assert found is not None
    assert found.details["differences"][0]["dimensions"] == {"path": "a\ufffdb"}


def test_a_task_by_the_pages_forms_behind_the_real_login(
    stack: Settings, http: httpx.Client, name: str
) -> None:
    own = {"origin": stack.airflow.url}
    with logged_in(stack, http, "user") as user:
        headers = user | own
        for path in ("/statistics", "/statistics/new", "/quality", "/dead"):
            answer = http.get(PAGES + path, headers=user)
            assert (answer.status_code, "<h1>" in answer.text) == (200, True), path
        text = f"- name: {name}\n  topic: logs\n  period: 1m\n  metrics: [count]\n"
        draft = {"yaml": text, "written": "yaml", "lines": line().decode()}
        tried = http.post(f"{PAGES}/statistics/draft", data=draft | {"do": "yaml"}, headers=headers)
        assert "1 of 1 lines are counted" in tried.text
        review = http.post(f"{PAGES}/statistics/review", data=draft, headers=headers)
        assert "A new statistic" in review.text
        saved = http.post(f"{PAGES}/statistics/save", data=draft, headers=headers)
        assert (saved.status_code, saved.headers["location"]) == (
            303,
            f"{PAGES}/statistics/task/{name}?did=saved",
        )
        store = TaskStore(engine(stack))
        store.apply([spec(name=name, period="1h")], "bob")
        late = http.post(f"{PAGES}/statistics/save", data=draft, headers=headers)
        assert (late.status_code, "already, made by bob" in late.text) == (412, True)
        page = http.get(f"{PAGES}/statistics/task/{name}", headers=user).text
        assert re.search(r"edit\?version=1", page)
        elsewhere = user | {"origin": "http://evil.example"}
        assert http.post(f"{PAGES}/statistics/task/{name}/delete", headers=elsewhere).status_code == 403
        assert http.post(f"{PAGES}/statistics/task/{name}/delete", headers=headers).status_code == 303
    with logged_in(stack, http, "viewer") as viewer:
        assert http.post(f"{PAGES}/statistics/draft", headers=viewer | own).status_code == 403
