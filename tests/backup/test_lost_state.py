"""Which periods are counted again: those in which a version's own lines lie, and no others."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.backup import lost_state
from sluice.backup.lost_state import ASK_AGAIN, WHY, lost_periods, set_aside, starts
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.storage.tables import erasures, recounts, schema
from sluice.storage.tables.alerts import open_alerts
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.period import Period
from tests.engine.samples import spec
from tests.tasks.database import sqlite

TOPIC, HOUR = "logs", 3_600_000
DAY = date(2024, 3, 31)  # on which summer begins in Europe
BEGIN = begin_ms(DAY)
AT = datetime(2026, 1, 5, tzinfo=UTC)


def file(first: int, days: dict[str, Any], *, partition: int = 0) -> dict[str, Any]:
    """A file of ten positions."""
    return {
        **{"topic": TOPIC, "topic_id": "id", "partition": partition, "first": first, "next": first + 10},
        **{"records": 10, "lines": 10, "bytes": 9, "arrival_min": 0, "arrival_max": 0, "unparsed": 0},
        **{"days": days, "generation": 1, "path": f"/raw/{partition}/{first}"},
    }


@pytest.fixture
def database() -> sa.Engine:
    """Task 1 has a version up to position 10 and one from there on, which was filled for the day before."""
    made = sqlite()
    stretch = [10, BEGIN + HOUR, BEGIN + HOUR + 5, BEGIN + 3 * HOUR, BEGIN + 3 * HOUR]
    before = str(date(2024, 3, 30))
    common = {"created_at": AT, "created_by": "ann"}
    rows = [
        (schema.tasks, {"id": 1, "name": "hits", "topic": TOPIC, "enabled": True, "version": 2}),
        *(
            (schema.task_versions, {"task_id": 1, "version": n, "spec": own.document(), "sets": {}, **common})
            for n, own in ((1, spec(name="hits", period="1h")), (2, spec(name="hits", period="1d")))
        ),
        (schema.task_ranges, range_(1, {}, {"0": 10, "1": 10})),
        (schema.task_ranges, range_(2, {"0": 10, "1": 10})),
        (schema.archive_files, file(0, {str(DAY): stretch})),
        (schema.archive_files, file(0, {before: 10}, partition=1)),
        (schema.archive_files, file(10, {str(DAY): stretch, "2020-01-01": 3})),
        (schema.backfill_days, {**filled(before), "lines": 1, "projected": True, "computed_at": AT}),
        (schema.dropped_days, {"topic": TOPIC, "day": date(2020, 1, 1), "dropped_at": AT}),
    ]
    with made.begin() as connection:
        for table, row in rows:
            connection.execute(sa.insert(table).values(row))
    return made


def range_(version: int, start: dict[str, int], end: dict[str, int] | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "task_id": 1,
        "version": version,
        "first_seq": version,
        "topic": TOPIC,
        "start": start,
    }
    return row if end is None else {**row, "end": end, "end_seq": version + 1}


def filled(day: str) -> dict[str, Any]:
    own = {"task_id": 1, "version": 2, "day": date.fromisoformat(day), "topic": TOPIC}
    return {**own, "backfill_id": 1, "revision": 1}


def test_a_version_has_the_periods_of_its_own_files_and_of_its_filled_days(database: sa.Engine) -> None:
    hours = [BEGIN + HOUR, BEGIN + 3 * HOUR]
    whole = [BEGIN - DAY_MS + n * HOUR for n in range(24)]  # of a file that says no stretches
    wanted = {(1, 1, start) for start in (*hours, *whole)} | {(1, 2, BEGIN - DAY_MS), (1, 2, BEGIN)}
    assert set(lost_periods(database, TOPIC)) == wanted


def test_they_are_set_aside_once_with_an_alert(database: sa.Engine) -> None:
    for _ in range(2):
        assert set_aside(database, TOPIC) == 28
    listed = Recounts(database, TOPIC)
    assert len(listed.all()) == len(listed.waiting()) == 28
    assert {each.why for each in listed.all()} == {WHY}
    assert {alert.name for alert in open_alerts(database, recounts.ALERTS)} == {
        "logs: task 1v1",
        "logs: task 1v2",
    }


def test_no_range_begins_or_ends_behind_the_archive(database: sa.Engine) -> None:
    t = schema.task_ranges.c
    query = sa.select(t.start, t.end).order_by(t.version)
    for ends, wanted in [
        ({0: 12, 1: 10}, [({}, {"0": 10, "1": 10}), ({"0": 10, "1": 10}, None)]),
        ({0: 7}, [({}, {"0": 7, "1": 0}), ({"0": 7, "1": 0}, None)]),  # nothing of the other one is archived
        ({0: 9}, [({}, {"0": 7, "1": 0}), ({"0": 7, "1": 0}, None)]),
    ]:
        lost_state.end_ranges_at(database, TOPIC, ends)
        with database.connect() as connection:
            assert [tuple(row) for row in connection.execute(query)] == wanted
            assert connection.scalar(sa.select(sa.func.count()).where(t.end.is_(None))) == 1


def test_what_ran_when_the_database_was_lost_is_over(database: sa.Engine) -> None:
    fields = {"task_id": 1, "version": 2, "topic": TOPIC, "first_day": DAY, "last_day": DAY}
    counts = dict.fromkeys(
        ("seq", "records", "doubled", "counted", "dead", "dead_letters", "redacted", "files"), 9
    )
    with database.begin() as connection:
        for state in ("requested", "running", "finished"):
            own = {**fields, "state": state, "requested_by": "ann", "done_days": 0}
            connection.execute(sa.insert(schema.backfills).values(own))
        connection.execute(sa.insert(schema.pruned).values(topic=TOPIC, **counts))
        for number, state in enumerate(("redacting", "redacted", "finished"), 4):
            own = {"id": number, "state": state, "topic": TOPIC, "dimension": "who", "requested_by": "ann"}
            own |= {"salt": b"s", "value_hash": b"h", "cut": {}, "days": [], "counts": {}, "requested_at": AT}
            connection.execute(sa.insert(schema.erasures).values(own))
        lost_state.forget_broken_off(connection)
        found = connection.execute(sa.select(schema.backfills.c.state, schema.backfills.c.message)).all()
        pruned = connection.execute(sa.select(schema.pruned)).one()._mapping
    assert [tuple(row) for row in found] == [("failed", ASK_AGAIN), ("failed", ASK_AGAIN), ("finished", None)]
    assert {**pruned} == {**dict.fromkeys(counts, 0), "topic": TOPIC, "files": 9}
    told = [each.message[:11] for each in open_alerts(database, erasures.ALERTS)]
    assert sorted(told) == ["erasure 4 o", "erasure 5 o"]


@given(
    st.sampled_from([Period(60), Period(7200, "Europe/Berlin"), Period(86400, "Europe/Berlin")]),
    st.lists(st.tuples(st.integers(0, 2 * DAY_MS), st.integers(0, 6 * HOUR)), max_size=5),
)
def test_starts_are_those_of_the_periods_of_all_instants(span: Period, found: list[tuple[int, int]]) -> None:
    stretches = [(BEGIN + first, BEGIN + first + length) for first, length in found]
    wanted = set()
    for first, last in stretches:
        instants = np.append(np.arange(first, last, 30_000), last)
        wanted |= set(span.starts(instants.astype(np.int64)).tolist())
    assert list(starts(span, stretches)) == sorted(wanted)
