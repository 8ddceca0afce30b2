"""The console's pages in the real Airflow, on the real stores; what is asked of PostgreSQL alone."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import httpx
import pytest
import sqlalchemy as sa

from sluice.runtime.days import begin_ms
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import dead_letters, reconciled, schema
from sluice.storage.tables.calendar import days_of
from sluice.storage.tables.commit_progress import newest_commits
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.reconciled import DayCompared
from sluice.tasks.store import TaskStore
from tests.engine.samples import line, spec
from tests.plugins.live import logged_in

pytestmark = pytest.mark.stack


PAGES = "/sluice/console"
TABLES = (
    *(schema.dead_letters, schema.event_days, schema.day_comparisons, schema.reconciled_days),
    *(schema.archive_files, schema.state_periods),
)


@pytest.fixture
def topic(stack: Settings) -> Iterator[str]:
    """A topic that nobody else has; its rows are deleted afterwards."""
    unique = f"console-{uuid.uuid4().hex[:12]}"
    yield unique
    with engine(stack).begin() as connection:
        for table in TABLES:
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


def test_a_rebuild_is_planned_from_the_real_index_and_one_of_nothing_is_refused(
    stack: Settings, http: httpx.Client, name: str, topic: str
) -> None:
    database, day = engine(stack), date(2015, 5, 17)
    TaskStore(database).apply([spec(name=name, topic=topic)], "ann")
    state = StatePeriod(TaskStore(database).get(name).task_id, 1, begin_ms(day), 1, 1, 5, 100)
    file = {
        "topic_id": "id",
        "partition": 0,
        "first": 0,
        "next": 4,
        "records": 4,
        "lines": 12,
        "bytes": 1 << 20,
    }
    file |= {"arrival_min": 1, "arrival_max": 2, "days": {str(day): [9], "2015-05-18": 3}}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.state_periods).values(topic=topic, **vars(state)))
        rest = {"unparsed": 0, "generation": 0, "path": "/nowhere"}
        connection.execute(sa.insert(schema.archive_files).values(topic=topic, **file, **rest))
    at, form = f"/sluice/api/v1/topics/{topic}/rebuilds", f"{PAGES}/statistics/task/{name}/rebuild"
    with logged_in(stack, http, "user") as user:
        headers = user | {"origin": stack.airflow.url}
        planned = http.get(f"{at}/plan", headers=user).json()
        assert planned["days"] == [{"day": str(day), "files": 1, "lines": 9, "bytes": 1 << 20}]
        page = http.post(form, data={"first": str(day), "last": "", "do": "look"}, headers=headers)
        assert "1 periods, 1 days, 9 lines (doubles included); 1 files of 1.0 MiB" in page.text
        later = {"first": "2015-06-01", "last": "", "do": "ask"}
        refused = http.post(form, data=later, headers=headers)
        assert (refused.status_code, "no state of days from 2015-06-01" in refused.text) == (422, True)
        assert http.post(at, json={"from": "2015-06-01"}, headers=user).status_code == 404
        elsewhere = user | {"origin": "http://evil.example"}
        assert http.post(form, data=later, headers=elsewhere).status_code == 403
        assert http.get(at, headers=user).json()["rebuilds"] == []
    with logged_in(stack, http, "viewer") as viewer:
        assert http.post(at, json={}, headers=viewer).status_code == 403
