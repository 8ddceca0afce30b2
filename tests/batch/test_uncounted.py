"""Days that the offline layer did not count become alerts, and these are cleared: `offline`."""

from __future__ import annotations

import secrets
from datetime import date

import pytest
import sqlalchemy as sa

from sluice.batch.offline import ALERTS, record_uncounted
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, schema
from sluice.storage.tables.uncounted import days_by_version

pytestmark = pytest.mark.stack


def test_versions_that_failed_are_known_by_day_until_they_are_computed(stack: Settings) -> None:
    database, topic = engine(stack), f"shop: {secrets.token_hex(4)}"
    first, second = date(2015, 5, 17), date(2015, 5, 18)

    def told() -> set[str]:
        found = (alert.message for alert in alerts.open_alerts(database, ALERTS))
        return {message.removeprefix(topic) for message in found if message.startswith(topic)}

    record_uncounted(database, topic, first, {(3, 1): "Broken: x", (4, 2): "Broken: y"})
    record_uncounted(database, topic, second, {(3, 1): "Broken: x"})
    assert days_by_version(database, topic) == {(3, 1): {first, second}, (4, 2): {first}}
    assert told() == {
        " 2015-05-17: task 3v1 could not be counted: Broken: x",
        " 2015-05-17: task 4v2 could not be counted: Broken: y",
        " 2015-05-18: task 3v1 could not be counted: Broken: x",
    }
    record_uncounted(database, topic, first, {})
    assert days_by_version(database, topic) == {(3, 1): {second}}
    assert days_by_version(database, "shop") == {}
    record_uncounted(database, topic, second, {})
    assert told() == set()


def test_a_version_that_fails_again_keeps_its_time_and_gets_the_new_reason(stack: Settings) -> None:
    database, topic, day = engine(stack), secrets.token_hex(4), date(2015, 5, 17)
    t = schema.uncounted.c
    row = sa.select(t.since, t.reason).where(t.topic == topic)
    record_uncounted(database, topic, day, {(3, 1): "Broken: x"})
    with database.connect() as connection:
        before = connection.execute(row).one()
    record_uncounted(database, topic, day, {(3, 1): "Broken: y"})
    with database.connect() as connection:
        after = connection.execute(row).one()
    assert (after.since, after.reason) == (before.since, "Broken: y")
    record_uncounted(database, topic, day, {})
