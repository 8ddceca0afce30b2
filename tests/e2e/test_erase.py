"""A person's lines are erased under the running platform: no part of it has them, and the layers agree."""

from __future__ import annotations

import datetime as dt
import subprocess

import pyarrow.parquet as pq
import pytest

from sluice.archive import layout
from sluice.archive.verification import places
from sluice.stack.airflow.rest_api import Airflow
from sluice.storage.hbase import RESULTS, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, dead_letters, erasures
from sluice.storage.tables.dead_letters import LetterFilter
from sluice_lab.access_lines import access_line, access_lines
from tests.archive.aged import age
from tests.e2e.running import TIMEOUT_SECONDS, TOPIC, Platform, expected

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

DAY = dt.date(2025, 11, 5)
PERSON = "203.0.113.77"
OWN_PATH = "/only-they-ask-for-this"
LINES = 30
NIGHT_SECONDS = 900.0


@pytest.fixture(scope="module")
def erased(platform: Platform) -> subprocess.CompletedProcess[str]:
    """The command's answer. The person's lines lie among others; one of them is a dead letter."""
    platform.write(DAY, access_lines(DAY, 200, seed=77))
    begin = dt.datetime.combine(DAY, dt.time(9), dt.UTC)
    own = [
        access_line(begin + dt.timedelta(minutes=n), client=PERSON, path=OWN_PATH, status="200", size="7")
        for n in range(LINES)
    ]
    platform.append(DAY, "".join(f"{line}\n" for line in [*own, f"{PERSON} has no time"]).encode())
    platform.drain()
    for place, claims in places(platform.settings, TOPIC):  # or the command waits for twenty minutes
        directory = layout.partition_directory(platform.settings, TOPIC, place.topic_id, place.partition)
        age(platform.settings, directory, claims.files(), days=1)
    return platform.sluice("erase", TOPIC, "--dimension", "client", "--value", "-", text=f"{PERSON}\n")


def test_no_part_has_the_lines_any_more(platform: Platform, erased: subprocess.CompletedProcess[str]) -> None:
    assert erased.returncode == 0, erased.stderr
    assert f"{LINES} had been counted, 1 were dead letters" in erased.stdout
    platform.assert_online_is_exact(DAY)
    with HBase.of(platform.settings) as hbase:
        rows = [row for row, _ in hbase.scan(RESULTS)]
    assert not [row for row in rows if PERSON.encode() in row or OWN_PATH.encode() in row]
    text = b""
    for _, claims in places(platform.settings, TOPIC):
        found = claims.standing()
        for file in [*found.files.values(), *(each.file for each in found.replaced)]:
            with pq.ParquetFile(claims.opened(file)) as opened:
                text += b"\n".join(opened.read(["line"])["line"].to_pylist())
    assert text
    assert PERSON.encode() not in text
    database = engine(platform.settings)
    letters = dead_letters.all_in_order(database, LetterFilter(TOPIC))
    assert not [each for each in letters if PERSON.encode() in each.line]
    assert alerts.open_alerts(database, erasures.ALERTS) == []
    verified = platform.sluice("archive", "verify", TOPIC, "--deep")
    assert verified.returncode == 0, verified.stdout
    assert PERSON not in platform.sluice("erase", "--list").stdout


def test_the_audit_names_them_and_lines_go_on_counting(
    platform: Platform, erased: subprocess.CompletedProcess[str]
) -> None:
    assert erased.returncode == 0, erased.stderr
    platform.write(DAY, access_lines(DAY, 40, seed=78), host="web2")
    hops = platform.drain()
    assert (hops.redacted, hops.lost) == (LINES + 1, 0)
    assert not [each for each in hops.disagreements if "redacted" in each or "event days" in each]
    platform.assert_online_is_exact(DAY)


@pytest.mark.long
def test_the_night_after_it_agrees(platform: Platform, erased: subprocess.CompletedProcess[str]) -> None:
    assert erased.returncode == 0, erased.stderr
    with Airflow(platform.settings) as airflow:
        runs = airflow.wait_backfill(airflow.backfill("nightly_batch", DAY, DAY), NIGHT_SECONDS)
        assert {run.state for run in runs} == {"success"}
        reconciled = airflow.wait_downstream("reconcile", runs, NIGHT_SECONDS)
    assert {run.state for run in reconciled} == {"success"}
    for task, wanted in expected(platform.written[DAY]).items():
        assert platform.counted(task, DAY, "published").values == wanted, task
