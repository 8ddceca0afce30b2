"""Beeline, PyHive and the client read what awk counts in the demo's log, yesterday's and today's at once."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyhive import hive as pyhive

from sluice.client import Client
from sluice.runtime.jvm import java
from sluice.runtime.settings import ROOT
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.environment import spark_home
from sluice.stack.users import Users
from sluice.storage.hive import Hive
from sluice.traffic import generate, replay
from sluice_lab.waiting import until
from tests.e2e.running import TIMEOUT_SECONDS, Platform
from tests.sql.conftest import TABLES_SECONDS, tables

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

#: A real access log, compressed, if there is one: beside the project or where this variable points.
REAL = Path(os.environ.get("SLUICE_TEST_LOG", ROOT.parent / "shared/data/apache_combined_10k.log.gz"))
GENERATED_LINES = 10_000
NIGHT_SECONDS = 900.0
VIEWS = ("v_hits_by_status", "v_bytes_by_path", "v_hits_by_client")

#: What each of the first tasks counted of both days: the task, the day, the series, hits, bytes, state.
STATEMENT = """
SELECT 'status', date_format(period, 'dd/MMM/yyyy'), status, sum(count), 0, max(state)
FROM v_hits_by_status WHERE {both} GROUP BY 2, 3
UNION ALL
SELECT 'path', date_format(period, 'dd/MMM/yyyy'), path, sum(count), cast(coalesce(sum(sum), 0) AS BIGINT),
  max(state)
FROM v_bytes_by_path WHERE {both} GROUP BY 2, 3
UNION ALL
SELECT 'client', date_format(period, 'dd/MMM/yyyy'), client, sum(count), 0, max(state)
FROM v_hits_by_client WHERE {both} GROUP BY 2, 3
"""
#: The same of the file. Fields are cut at single spaces, as the tasks cut them.
AWK = """
BEGIN { FS = "[ ]" }
{
  day = substr($4, 2, 11)
  hits["status\\t" day "\\t" $9]++
  hits["path\\t" day "\\t" $7]++
  if ($10 != "-") bytes["path\\t" day "\\t" $7] += $10
  if ($9 != 304) hits["client\\t" day "\\t" $1]++
}
END {
  for (each in hits) {
    split(each, part, "\\t")
    printf "%s\\t%d\\t%.0f\\t%s\\n", each, hits[each], bytes[each], part[2] == today ? "open" : "final"
  }
}
"""

Row = tuple[str, ...]


@dataclass(frozen=True)
class Log:
    """The lines of two days, as a file; the first is published."""

    file: Path
    yesterday: dt.date
    today: dt.date

    @property
    def statement(self) -> str:
        end = self.today + dt.timedelta(days=1)
        both = f"period >= DATE '{self.yesterday}' AND period < DATE '{end}'"
        return STATEMENT.format(both=both)


def last_two_days(folder: Path) -> Log:
    """The last two days of the demo's log."""
    whole = REAL
    if not whole.is_file():
        whole = folder / "generated.log"
        generate.write(whole, GENERATED_LINES)
    days: dict[dt.date, list[bytes]] = {}
    for line in replay.read_lines(whole):
        stamp = line.split(b"[", 1)[1][:11].decode()
        days.setdefault(dt.datetime.strptime(stamp, "%d/%b/%Y").date(), []).append(line)
    yesterday, today = sorted(days)[-2:]
    file = folder / "two-days.log"
    file.write_bytes(b"".join(line + b"\n" for day in (yesterday, today) for line in days[day]))
    return Log(file, yesterday, today)


@pytest.fixture(scope="module")
def log(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Log:
    """The platform has counted both days, and yesterday is published."""
    made = last_two_days(tmp_path_factory.mktemp("log"))
    replay.replay(platform.settings, made.file)
    platform.drain()
    with Airflow(platform.settings) as airflow:
        number = airflow.backfill("nightly_batch", made.yesterday, made.yesterday)
        nights = airflow.wait_backfill(number, NIGHT_SECONDS)
        reconciled = airflow.wait_downstream("reconcile", nights, NIGHT_SECONDS)
    assert {run.state for run in (*nights, *reconciled)} == {"success"}
    with Hive(platform.settings) as sql:
        until(lambda: set(VIEWS) <= tables(sql), poll=TABLES_SECONDS)
    return made


@pytest.fixture(scope="module")
def counted(log: Log) -> list[Row]:
    """The rows of the statement, as awk counts them."""
    command = ["awk", "-v", f"today={log.today:%d/%b/%Y}", AWK, str(log.file)]
    done = subprocess.run(command, capture_output=True, check=True)
    rows = sorted(tuple(row.split("\t")) for row in done.stdout.decode(errors="replace").splitlines())
    assert {row[-1] for row in rows} == {"final", "open"}
    assert {row[0] for row in rows} == {"status", "path", "client"}
    return rows


@pytest.fixture(scope="module")
def analyst(platform: Platform) -> Iterator[tuple[str, str]]:
    name = "analyst-of-both-days"
    yield name, Users(platform.settings).add(name, "viewer")
    Users(platform.settings).remove(name)


def test_pyhive(platform: Platform, analyst: tuple[str, str], log: Log, counted: list[Row]) -> None:
    where, (name, password) = platform.settings.hive, analyst
    login = {"username": name, "password": password, "auth": "CUSTOM", "database": where.database}
    with (
        closing(pyhive.connect(where.host, where.port, **login)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute(log.statement)
        assert sorted(tuple(str(value) for value in row) for row in cursor.fetchall()) == counted


def test_beeline(platform: Platform, analyst: tuple[str, str], log: Log, counted: list[Row]) -> None:
    where, (name, password) = platform.settings.hive, analyst
    beeline = [java(), "-cp", str(spark_home() / "jars" / "*"), "org.apache.hive.beeline.BeeLine"]
    login = ["-u", f"jdbc:hive2://{where.host}:{where.port}/{where.database}", "-n", name, "-p", password]
    shown = ["--outputformat=tsv2", "--silent=true", "--showHeader=false"]
    done = subprocess.run(
        [*beeline, *login, *shown, "-e", " ".join(log.statement.split()) + ";"],
        capture_output=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [tuple(row.split("\t")) for row in done.stdout.decode(errors="replace").splitlines()]
    assert sorted(row for row in rows if len(row) > 1) == counted


def test_the_client(platform: Platform, analyst: tuple[str, str], log: Log, counted: list[Row]) -> None:
    """By SQL, and without it: the same numbers over REST."""
    settings = platform.settings
    with Client(settings.airflow.url, *analyst, sql_port=settings.hive.port) as client:
        by_sql = client.sql(log.statement)
        end = log.today + dt.timedelta(days=1)
        by_rest = client.results("hits_by_status", since=log.yesterday, until=end, rollup="status,1d")
    columns = [column.to_pylist() for column in by_sql.columns]
    assert sorted(tuple(str(value) for value in row) for row in zip(*columns, strict=True)) == counted
    rows = sorted(
        ("status", f"{row['period']:%d/%b/%Y}", row["status"], str(row["count"]), "0", row["state"])
        for row in by_rest.to_pylist()
    )
    assert rows == [row for row in counted if row[0] == "status"]
