"""The metastore's tables are found when the NameNode has another address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import databases
from sluice.stack.daemons import hive

pytestmark = pytest.mark.stack

ELSEWHERE = "hdfs://127.0.2.1:21030"


class Undone(RuntimeError):
    """The transaction ends, and nothing was changed."""


@pytest.fixture
def cursor(stack: Settings) -> Iterator[Any]:
    """Of the running metastore's database, in a transaction that is rolled back."""
    with suppress(Undone), databases.locked(stack, "metastore") as found:
        yield found
        raise Undone


def locations(cursor: Any) -> list[str]:
    found: list[str] = []
    for table, column in hive._LOCATIONS:
        cursor.execute(f"""SELECT "{column}" FROM "{table}" WHERE "{column}" LIKE 'hdfs:%'""")
        found += [location for (location,) in cursor.fetchall()]
    return sorted(found)


def test_locations_of_the_built_in_hdfs_follow_it_and_others_stay(stack: Settings, cursor: Any) -> None:
    cursor.execute('SELECT max("SD_ID") FROM "SDS"')
    (other,) = cursor.fetchone()
    theirs = f"{stack.hdfs.namenode}9/table"  # another port, which begins with the same digits
    cursor.execute('UPDATE "SDS" SET "LOCATION" = %s WHERE "SD_ID" = %s', (theirs, other))
    before = locations(cursor)
    hive.relocate(cursor, stack.hdfs.namenode)
    assert locations(cursor) == before
    hive.relocate(cursor, ELSEWHERE)
    now = locations(cursor)
    assert now == sorted(
        location if location == theirs else location.replace(stack.hdfs.namenode, ELSEWHERE)
        for location in before
    )
    assert f"{ELSEWHERE}{stack.hdfs.warehouse}" in now
    hive.relocate(cursor, stack.hdfs.namenode)
    assert locations(cursor) == before
