"""HBase loses a block of state under the running platform: the other tasks go on, and it heals by itself."""

from __future__ import annotations

import datetime as dt

import httpx
import pytest

from sluice.state.blocks import period_prefix
from sluice.storage.hbase import STATE, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, recounts
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.store import TaskStore
from sluice_lab.access_lines import access_line, access_lines
from sluice_lab.waiting import until
from tests.batch.rebuild.paused import rebuilds_paused
from tests.e2e.running import HOUR, TIMEOUT_SECONDS, TOPIC, Platform, expected
from tests.plugins.live import API, logged_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

DAY = dt.date(2025, 9, 3)
TASK = "bytes_by_path"
SECONDS = 600.0


def lose(platform: Platform, *, most: int | None = None) -> list[int]:
    """Delete blocks of the task's newest periods of the day; returns the starts of these periods."""
    task = TaskStore(engine(platform.settings)).get(TASK)
    day = dt.datetime.combine(DAY, dt.time(), dt.UTC).timestamp() * 1000
    periods = CommitLog(engine(platform.settings), TOPIC).changed_since(0).snapshot.periods
    version = task.task_id, task.version
    own = sorted(key for key in periods if key[:2] == version and day <= key[2] < day + 24 * HOUR)
    wanted = own[-most:] if most else own
    with HBase.of(platform.settings) as hbase:
        for key in wanted:
            rows = list(hbase.scan(STATE, prefix=period_prefix(key)))
            assert rows
            hbase.delete(STATE, [(row, list(cells)) for row, cells in rows])
    return [key[2] for key in wanted]


def late(platform: Platform, start: int) -> None:
    """A late line of the period, from the other front-end."""
    at = dt.datetime.fromtimestamp(start / 1000 + 60, dt.UTC)
    text = access_line(at, client="10.0.0.1", path="/p/1", status="200", size="7")
    platform.write(DAY, [text], host="web2")


def healed(platform: Platform) -> bool:
    return not Recounts(engine(platform.settings), TOPIC).all()


def test_a_lost_block_stops_no_other_task_and_is_counted_again(platform: Platform) -> None:
    platform.write(DAY, access_lines(DAY, 600))
    platform.drain()
    platform.assert_online_is_exact(DAY)
    (start,) = lose(platform, most=1)
    with rebuilds_paused(platform.settings):
        late(platform, start)
        book = Recounts(engine(platform.settings), TOPIC)
        until(lambda: [each.period_start for each in book.all()] == [start], SECONDS, lambda: str(book.all()))
        platform.drain()  # the topic goes on
        wanted = expected(platform.written[DAY])
        for task in ("hits_by_status", "hits_by_client"):
            assert platform.counted(task, DAY, "online").values == wanted[task], task
        (alert,) = alerts.open_alerts(engine(platform.settings), recounts.ALERTS)
        assert TASK in alert.message
        assert "is being counted again from the archive" in alert.message
        shown = platform.sluice("results", TASK, "--from", str(DAY), "--to", str(DAY + dt.timedelta(days=1)))
        assert "1 period is being counted again from the archive" in shown.stderr
        assert "not in HBase" in platform.sluice("rebuild", TOPIC, "--list").stdout
    until(lambda: healed(platform), SECONDS, what="the period is counted again")
    platform.assert_online_is_exact(DAY)
    assert alerts.open_alerts(engine(platform.settings), recounts.ALERTS) == []


def test_all_blocks_of_a_task_are_counted_again_by_the_command(platform: Platform) -> None:
    days = ("--from", str(DAY), "--to", str(DAY))
    plan = platform.sluice("rebuild", TOPIC, "--task", TASK, *days, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert " 1 days, " in plan.stdout
    lose(platform)
    rebuilt = platform.sluice("rebuild", TOPIC, "--task", TASK, *days)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "finished: 1 days" in rebuilt.stdout
    platform.write(DAY, access_lines(DAY, 50, seed=5), host="web2")
    platform.drain()
    assert healed(platform)
    platform.assert_online_is_exact(DAY)


def test_by_the_button_a_task_is_counted_again_and_the_list_says_so(platform: Platform) -> None:
    """A short one: the day has been counted again before, by the command."""
    settings, days = platform.settings, {"first": str(DAY), "last": str(DAY)}
    page, rest = f"/sluice/console/statistics/task/{TASK}", f"{API}/topics/{TOPIC}/rebuilds"
    with (
        httpx.Client(base_url=settings.airflow.url, timeout=120, trust_env=False) as http,
        logged_in(settings, http, "user") as user,
    ):
        own = user | {"origin": settings.airflow.url}
        planned = http.post(f"{page}/rebuild", data={**days, "do": "look"}, headers=own)
        assert " 1 days, " in planned.text
        asked = http.post(f"{page}/rebuild", data={**days, "do": "ask"}, headers=own)
        assert (asked.status_code, asked.headers["location"]) == (303, f"{page}?did=rebuild")

        def newest() -> dict[str, object]:
            found: dict[str, object] = http.get(rest, params={"task": TASK}, headers=user).json()["rebuilds"][
                0
            ]
            return found

        until(lambda: newest()["state"] == "finished", SECONDS, lambda: str(newest()))
        assert (newest()["days"], newest()["done_days"], newest()["error"]) == (1, 1, "")
        assert "1 of 1" in http.get(page, headers=user).text
    platform.assert_online_is_exact(DAY)
