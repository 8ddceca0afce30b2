"""What is new, on SQLite: which commit changed which task last, and what was published."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from sluice.storage.tables import schema
from sluice.storage.tables.news import News
from sluice.storage.tables.past import TopicPast
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec
from tests.storage.booked import commit
from tests.tasks.database import sqlite

DAY = date(2015, 5, 17)
AT = datetime(2015, 5, 18, 1, tzinfo=UTC)
HITS, SIZES = (1, 1), (2, 1)


@pytest.fixture
def database() -> sa.Engine:
    engine = sqlite()
    TaskStore(engine).apply([spec(name="hits"), spec(name="sizes"), spec(name="other", topic="shop")], "test")
    return engine


def change(database: sa.Engine, version: tuple[int, int], start: int, seq: int) -> None:
    """Let commit `seq` change a period of the version."""
    t = schema.state_periods
    key = {"topic": "logs", "task_id": version[0], "version": version[1], "period_start": start}
    with database.begin() as connection:
        connection.execute(sa.delete(t).where(*(t.c[name] == value for name, value in key.items())))
        connection.execute(sa.insert(t).values(**key, layout=1, since=1, seq=seq, bytes=1))


def publish(database: sa.Engine, day: date, at: datetime) -> None:
    t = schema.days
    with database.begin() as connection:
        connection.execute(sa.delete(t).where(t.c.day == day))
        values = {"cut": {}, "run_id": "r", "tasks_seq": 1, "raw_lines": 0, "lines": 0, "published_at": at}
        connection.execute(sa.insert(t).values(topic="logs", day=day, **values))


def test_tasks_are_those_that_live_at_their_current_versions(database: sa.Engine) -> None:
    store, news, other = TaskStore(database), News(database), {"other": ("shop", (3, 1))}
    assert dict(news.look().tasks) == {
        "hits": ("logs", HITS),
        "sizes": ("logs", SIZES),
        **other,
    }
    store.apply([spec(name="hits", period="5m")], "test")
    store.delete("sizes", "test")
    assert dict(news.look().tasks) == {"hits": ("logs", (1, 2)), **other}


def test_a_commit_is_news_for_the_tasks_that_it_changed(database: sa.Engine) -> None:
    news = News(database)
    assert news.look().topics["logs"].commit == 0
    for seq, version in ((1, HITS), (2, SIZES), (3, HITS)):
        commit(database, seq, seq, seq + 1)
        change(database, version, 60_000 * seq, seq)
        assert news.look().topics["logs"].changed[version] == seq
    found = news.look().topics["logs"]
    assert (found.commit, dict(found.changed), found.since) == (3, {HITS: 3, SIZES: 2}, 0)
    assert news.look() == news.look()
    late = News(database).look().topics["logs"]
    assert (late.commit, dict(late.changed), late.since) == (3, {}, 3)


def test_what_changed_between_two_looks_is_found_by_the_second(database: sa.Engine) -> None:
    news = News(database)
    news.look()
    for seq in range(1, 6):
        commit(database, seq, seq, seq + 1)
        change(database, HITS if seq < 4 else SIZES, 0 if seq < 3 else 60_000, seq)
    assert dict(news.look().topics["logs"].changed) == {HITS: 3, SIZES: 5}


def test_each_publication_is_news_also_one_whose_transaction_was_slow(database: sa.Engine) -> None:
    news = News(database)
    assert news.look().topics["logs"].published.digest == ""
    seen = set()
    for day, at in (
        (DAY, AT),
        (DAY + timedelta(days=1), AT + timedelta(hours=1)),
        (DAY, AT + timedelta(minutes=1)),  # it began before the one that is already there
    ):
        publish(database, day, at)
        seen.add(news.look().topics["logs"].published.digest)
    assert len(seen) == 3
    assert news.look().topics["logs"].published.day == DAY + timedelta(days=1)


def test_a_database_that_was_made_again_is_looked_at_as_new(database: sa.Engine) -> None:
    news = News(database)
    news.look()
    commit(database, 9, 0, 1)
    change(database, HITS, 0, 9)
    assert news.look().topics["logs"].commit == 9
    with database.begin() as connection:
        connection.execute(sa.delete(schema.commits))
    commit(database, 2, 0, 1)
    found = news.look().topics["logs"]
    assert (found.commit, found.since, dict(found.changed)) == (2, 2, {})


def fill(database: sa.Engine, version: tuple[int, int], day: date, revision: int) -> None:
    """Let a backfill fill a day of the version, as the topic's change `revision`."""
    t, r = schema.backfill_days, schema.backfill_revisions
    key = {"task_id": version[0], "version": version[1], "day": day}
    with database.begin() as connection:
        connection.execute(sa.delete(t).where(*(t.c[name] == value for name, value in key.items())))
        values = {"topic": "logs", "backfill_id": 1, "revision": revision, "lines": 1, "projected": False}
        connection.execute(sa.insert(t).values(**key, **values))
        connection.execute(sa.delete(r))
        connection.execute(sa.insert(r).values(topic="logs", revision=revision))


def test_each_filled_day_is_news_at_its_last_revision(database: sa.Engine) -> None:
    news, next_day = News(database), DAY + timedelta(days=1)
    assert news.look().topics["logs"].past == TopicPast()
    fill(database, HITS, DAY, 1)
    fill(database, SIZES, DAY, 2)
    assert news.look().topics["logs"].past == TopicPast(2, {(HITS, DAY): 1, (SIZES, DAY): 2})
    fill(database, HITS, next_day, 3)
    fill(database, HITS, DAY, 4)
    past = news.look().topics["logs"].past
    assert past == TopicPast(4, {(HITS, DAY): 4, (SIZES, DAY): 2, (HITS, next_day): 3})
    assert News(database).look().topics["logs"].past == past


def test_a_published_day_is_superseded_until_it_is_published_again(database: sa.Engine) -> None:
    news = News(database)
    computed = {"computed_at": AT - timedelta(minutes=1), "cut": {"0": 10}, "published_cut": {"0": 10}}
    for day in (DAY, DAY + timedelta(days=1)):
        publish(database, day, AT)
    with database.begin() as connection:
        connection.execute(sa.update(schema.days).values(**computed))
    assert news.look().topics["logs"].past.superseded == ()
    late = {"topic": "logs", "day": DAY, "partition": 0, "lines": 1, "last_offset": 10}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.event_days).values(**late))
    commit(database, 1, 0, 11)
    assert news.look().topics["logs"].past.superseded == (DAY,)
    again = {"cut": {"0": 11}, "computed_at": AT + timedelta(hours=1)}
    with database.begin() as connection:  # it was computed, and is not published yet
        connection.execute(sa.update(schema.days).where(schema.days.c.day == DAY).values(**again))
    commit(database, 2, 11, 12)
    assert news.look().topics["logs"].past.superseded == (DAY,)
    published = {"published_cut": {"0": 11}, "published_at": AT + timedelta(hours=2)}
    with database.begin() as connection:
        connection.execute(sa.update(schema.days).where(schema.days.c.day == DAY).values(**published))
    assert news.look().topics["logs"].past.superseded == ()
