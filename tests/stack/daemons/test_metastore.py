"""The metastore's tables are found when the NameNode has another address, and without it there are none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import databases
from sluice.stack.daemons import hive
from sluice.stack.environment import environment, spark_defaults, spark_home

pytestmark = pytest.mark.stack

ADDRESSES = ("127.0.2.1", "10.0.0.1")
_ADD = """
INSERT INTO "SDS" ("SD_ID", "LOCATION", "NUM_BUCKETS", "IS_COMPRESSED", "IS_STOREDASSUBDIRECTORIES")
VALUES (%(id)s, %(location)s, 0, false, false)
"""


class Undone(RuntimeError):
    """The transaction ends, and nothing was changed."""


@pytest.fixture
def cursor(stack: Settings) -> Iterator[Any]:
    """Of the running metastore's database, in a transaction that is rolled back."""
    with suppress(Undone), databases.locked(stack.postgres.of(stack.postgres.metastore)) as found:
        yield found
        raise Undone


def locations(cursor: Any) -> list[str]:
    found: list[str] = []
    for table, column in hive._LOCATIONS:
        cursor.execute(f"""SELECT "{column}" FROM "{table}" WHERE "{column}" LIKE 'hdfs:%'""")
        found += [location for (location,) in cursor.fetchall()]
    return sorted(found)


def test_locations_of_the_built_in_hdfs_follow_it_and_others_stay(stack: Settings, cursor: Any) -> None:
    own = stack.hdfs.namenode
    first, second = (own.replace("127.0.0.1", address) for address in ADDRESSES)
    external = {f"{own}9/table", "hdfs://ours/table", "hdfs://10.0.0.1:8020/table"}
    for number, location in enumerate(sorted({*external, f"{second}/of/long/ago"})):
        cursor.execute(_ADD, {"id": 10_000_000 + number, "location": location})
    before = locations(cursor)
    hive.relocate(cursor, own)
    here = sorted(location.replace(second, own) for location in before)
    assert locations(cursor) == here
    hive.relocate(cursor, first)
    assert locations(cursor) == sorted(
        location if location in external else location.replace(own, first) for location in here
    )
    assert f"{first}{stack.hdfs.warehouse}" in locations(cursor)
    hive.relocate(cursor, own)
    assert locations(cursor) == here


def test_without_the_metastore_spark_makes_no_catalogue_of_its_own(stack: Settings, tmp_path: Path) -> None:
    command = [spark_home() / "bin" / "spark-sql", "--properties-file", spark_defaults(stack)]
    away = ["--master", "local[1]", "--conf", "spark.hadoop.hive.metastore.uris=", "-e", "SHOW DATABASES"]
    variables = {**environment(stack), "SPARK_CONF_DIR": str(tmp_path)}  # as if hive-site.xml were lost
    done = subprocess.run(
        [*map(str, command), *away], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "default" in done.stdout) == (1, False)
    assert "No suitable driver found for jdbc:none" in done.stderr
