"""The queries of docs/analysts.md, as they stand there, by PyHive and Beeline, against awk over the log."""

from __future__ import annotations

import csv
import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pyhive import hive as pyhive

from sluice.runtime.jvm import java
from sluice.runtime.settings import ROOT, Settings
from sluice.stack.environment import spark_home
from sluice.stack.users import Users
from sluice.storage.hive import Hive
from tests.sql.site import Site

pytestmark = pytest.mark.stack

PAGE = (ROOT / "docs" / "analysts.md").read_text()
QUERIES = re.findall(r"^([^\n]+):\n\n```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
BY_TITLE = dict(QUERIES)
#: What awk says of a query's answer: the same rows, and here in the same form.
DAY = "substr($4, 2, 2) ~ /{}/"
AWK = {
    "Today's live numbers beside yesterday's final ones": (
        '$4 ~ /\\[(19|20)/ {n["2015-05-" substr($4, 2, 2) " " $9]++} END {for (s in n) print s, n[s], '
        '(substr(s, 9, 2) == "20" ? "open" : "final")}'
    ),
    "Bytes below one part of the site, by day": (
        '$7 ~ /^\\/presentations\\// {d = "2015-05-" substr($4, 2, 2); n[d]++; b[d] += $10; '
        'if ($10 + 0 > m[d]) m[d] = $10 + 0} END {for (d in n) printf "%s %d %d %d\\n", d, n[d], b[d], m[d]}'
    ),
    "Each hour of today beside the same hour of yesterday": (
        "{h = substr($4, 14, 2) + 0; d = substr($4, 2, 2); if (d == 20) t[h]++; if (d == 19) y[h]++} "
        'END {for (h in t) print h, t[h], (h in y ? y[h] : "None")}'
    ),
}


@pytest.fixture(scope="module")
def analyst(stack: Settings) -> Iterator[tuple[str, str]]:
    name = f"analyst-{uuid.uuid4().hex[:8]}"
    password = Users(stack).add(name, "viewer")
    yield name, password
    Users(stack).remove(name)


def words(rows: Any) -> list[list[str]]:
    """The rows as awk prints them, in order."""

    def word(value: object) -> str:
        return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)

    return sorted([word(value) for value in row] for row in rows)


def test_the_page_has_ten_queries() -> None:
    assert len(BY_TITLE) == len(QUERIES) == 10
    assert AWK.keys() <= BY_TITLE.keys()


@pytest.mark.usefixtures("sql")
@pytest.mark.parametrize("title", BY_TITLE)
def test_an_analyst_runs_each_query_by_pyhive(site: Site, analyst: tuple[str, str], title: str) -> None:
    where = {"host": site.settings.hive.host, "port": site.settings.hive.port}
    login = {"username": analyst[0], "password": analyst[1], "auth": "CUSTOM"}
    with (
        closing(pyhive.connect(**where, **login, database=site.settings.hive.database)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute(site.own(BY_TITLE[title]))
        rows = cursor.fetchall()
    assert rows
    if title in AWK:
        assert words(rows) == site.awk(AWK[title])


def test_beeline_shows_today_beside_yesterday_as_awk_does(
    site: Site, sql: Hive, analyst: tuple[str, str]
) -> None:
    title = "Today's live numbers beside yesterday's final ones"
    url = f"jdbc:hive2://{site.settings.hive.host}:{site.settings.hive.port}/{site.settings.hive.database}"
    beeline = [java(), "-cp", str(spark_home() / "jars" / "*"), "org.apache.hive.beeline.BeeLine"]
    statement = " ".join(site.own(BY_TITLE[title]).split())
    login = ["-u", url, "-n", analyst[0], "-p", analyst[1]]
    done = subprocess.run(
        [*beeline, *login, "--outputformat=csv2", "--silent=true", "-e", statement + ";"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [row for row in csv.reader(done.stdout.splitlines()) if row and row[0].startswith("2015")]
    assert sorted(rows) == site.awk(AWK[title])
