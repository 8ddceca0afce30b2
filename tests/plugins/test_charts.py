"""Charts as a browser gets them: the page, its data, and what an address may ask for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from sluice.results.periods import ALWAYS
from sluice.tasks.store import TaskStore
from tests.plugins.application import API, Login
from tests.plugins.test_console import HOSTILE
from tests.results.questions import DAY_NUMBER, FIRST, SKETCHED, stored, task
from tests.results.stored import Stored

HOUR = 3_600_000
#: Three days, an entry an hour: hour, client, path, bytes.
GIVEN = [(hour, hour % 3, hour % 5, hour % 7) for hour in range(72)]
DATA = "/console/charts/data"


@pytest.fixture
def layers(client: TestClient, login: Login, database: sa.Engine) -> Stored:
    """A task whose first day is published; a viewer is logged in."""
    from sluice_airflow.api import stores

    own = stored(task(SKETCHED), GIVEN, frozenset({DAY_NUMBER}))
    client.app.dependency_overrides[stores.layers] = lambda: own  # type: ignore[attr-defined]
    TaskStore(database).apply([own.of.spec], "ann")
    login.as_("viewer")
    return own


def drawn(client: TestClient, **asked: Any) -> dict[str, Any]:
    answer = client.get(DATA, params={"task": "sample", **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(client: TestClient, **asked: Any) -> str:
    answer: httpx.Response = client.get(DATA, params={"task": "sample", **asked})
    assert answer.status_code == 422, answer.text
    return str(answer.json()["problems"][0]["message"])


@pytest.mark.slow
def test_a_chart_without_a_wish_shows_the_last_day_that_has_results(
    client: TestClient, layers: Stored
) -> None:
    found = drawn(client)
    assert (found["since"], found["until"]) == (FIRST + 48 * HOUR, FIRST + 72 * HOUR)
    assert found["times"] == [FIRST + hour * HOUR for hour in range(48, 72)]
    assert [each["name"] for each in found["metrics"]] == ["count"]
    assert [each["values"]["count"] for each in found["series"]] == [[1] * 24]
    assert {found["states"][code] for code in found["stateOf"]} == {"open"}
    assert found["commit"] == layers.head


@pytest.mark.slow
def test_states_and_errors_come_with_the_values(client: TestClient, layers: Stored) -> None:
    found = drawn(client, last="all", metric="p50")
    assert [found["states"][code] for code in found["stateOf"]] == ["final"] * 24 + ["open"] * 48
    (series,) = found["series"]
    assert found["metrics"] == [{"name": "p50", "sketched": True, "adds": False}]
    assert len(series["errors"]["p50"]) == len(series["values"]["p50"]) == 72


@pytest.mark.slow
def test_a_chart_has_the_rows_that_the_results_have(client: TestClient, layers: Stored) -> None:
    found = drawn(
        client, split="path", top=2, metric=["count", "sum"], last="all", period="6h", where="client^="
    )
    rows = client.get(f"{API}/tasks/sample/results", params=parse_qsl(found["results"])).json()["rows"]
    cells = {
        (
            found["times"][place],
            *series["names"],
            series["values"]["count"][place],
            series["values"]["sum"][place],
        )
        for series in found["series"]
        for place in range(len(found["times"]))
        if series["values"]["count"][place] is not None
    }
    from sluice.results.written_query import moment

    assert cells == {(moment(row["period"]), row["path"], row["count"], row["sum"]) for row in rows}
    assert len(rows) > 20


@pytest.mark.slow
def test_the_time_before_and_the_week_before_have_the_same_length(client: TestClient, layers: Stored) -> None:
    before = drawn(client, compare="before")["earlier"]
    assert before["shift"] == 24 * HOUR
    assert before["times"] == [FIRST + hour * HOUR for hour in range(24, 48)]
    week = drawn(client, compare="week")["earlier"]
    assert (week["shift"], week["times"]) == (7 * 24 * HOUR, [])


def test_an_answer_says_what_it_cost(client: TestClient, layers: Stored) -> None:
    timing = client.get(DATA, params={"task": "sample"}).headers["server-timing"]
    assert re.fullmatch(r"cpu;dur=\d+\.\d", timing)


@pytest.mark.slow
def test_a_long_time_is_drawn_in_coarser_periods(client: TestClient, layers: Stored) -> None:
    found = drawn(client, since="2015-01-01", until="2016-01-01")
    assert (found["period"], found["ownPeriod"]) == ("6h", "1h")
    assert sum(found["series"][0]["values"]["count"]) == 72


def test_a_task_without_results_is_an_empty_chart(client: TestClient, layers: Stored) -> None:
    layers.rows = layers.rows.slice(0, 0)
    layers.final_days = frozenset()
    assert drawn(client)["times"] == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"metric": "nothing"}, "has no 'nothing'"),
        ({"metric": "top3"}, "lists cannot be drawn"),
        ({"split": "nothing"}, "has no 'nothing'"),
        ({"where": "nothing"}, "write DIMENSION=VALUE"),
        ({"where": "nothing=1"}, "has no 'nothing'"),
        ({"where": "path~=("}, "pattern"),
        ({"last": "soon"}, "write a number"),
        ({"since": "soon"}, "is no time"),
        ({"since": "9" * 18}, "beyond all times"),
        ({"since": "2015-05-18", "until": "2015-05-17"}, "swap them"),
        ({"period": "90s"}, "no multiple"),
        ({"period": "all"}, "is no period"),
        ({"top": "1000"}, "less than or equal to 100"),
        ({"shape": "cake"}, "pattern"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(
    client: TestClient, layers: Stored, asked: dict[str, str], message: str
) -> None:
    assert message in refused(client, **asked)


def test_the_page_offers_what_the_task_has_and_says_what_is_shown(client: TestClient, layers: Stored) -> None:
    text = client.get("/console/charts", params={"task": "sample", "metric": "sum", "split": "path"}).text
    checked = re.findall(r'name="(\w+)" value="(\w+)" checked', text)
    assert checked == [("metric", "sum"), ("split", "path")]
    assert "top3" not in text
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_the_lines_behind_a_point_are_offered_to_those_who_may_read_them(
    client: TestClient, layers: Stored, login: Login
) -> None:
    assert "data-may-read-lines" not in client.get("/console/charts?task=sample").text
    login.as_("user")
    assert "data-may-read-lines" in client.get("/console/charts?task=sample").text


def test_without_the_frame_there_is_no_navigation(client: TestClient, layers: Stored) -> None:
    assert "<nav" in client.get("/console/charts?task=sample").text
    bare = client.get("/console/charts?task=sample&bare=true").text
    assert "<nav" not in bare
    assert 'href="/console/charts?task=sample"' in bare


def test_without_a_task_the_page_lists_them(client: TestClient, layers: Stored) -> None:
    assert 'href="/console/charts?task=sample"' in client.get("/console/charts").text


def test_a_task_that_does_not_exist_is_a_page_that_says_so(client: TestClient, layers: Stored) -> None:
    answer = client.get("/console/charts", params={"task": HOSTILE})
    assert answer.status_code == 404
    assert "&lt;script&gt;alert" in answer.text
    assert "<script>alert" not in answer.text


def test_hostile_wishes_stay_texts(client: TestClient, layers: Stored) -> None:
    asked = {"task": "sample", "where": HOSTILE, "by": HOSTILE, "since": HOSTILE[:40], "last": HOSTILE[:20]}
    assert "<script>alert" not in client.get("/console/charts", params=asked).text


@pytest.mark.slow
def test_periods_at_the_edges_are_counted_as_a_whole(client: TestClient, layers: Stored) -> None:
    begin, end = FIRST + 7 * HOUR, FIRST + 20 * HOUR + 1
    found = drawn(client, since=begin, until=end, period="6h")
    assert (found["since"], found["until"]) == (FIRST + 6 * HOUR, FIRST + 24 * HOUR)
    assert found["times"] == [FIRST + hour * HOUR for hour in (6, 12, 18)]
    assert found["series"][0]["values"]["count"] == [6, 6, 6]
    assert drawn(client, since=begin + 1, until=begin + 2)["times"] == [begin]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_periods_at_the_ends_of_all_times_are_drawn(client: TestClient, layers: Stored, zone: str) -> None:
    layers.of = replace(layers.of, spec=layers.of.spec.model_copy(update={"timezone": zone}))
    found = drawn(client, since=ALWAYS.start, until=ALWAYS.stop - 1, period="7d", compare="before")
    assert sum(found["series"][0]["values"]["count"]) == 72
    assert found["earlier"]["times"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "end", "settled"),
    [(0, 24, True), (6, 18, True), (0, 25, False), (-1, 24, False), (24, 48, False), (72, 96, False)],
)
def test_a_chart_of_what_is_published_is_settled(
    client: TestClient, layers: Stored, begin: int, end: int, settled: bool
) -> None:
    asked = {"since": FIRST + begin * HOUR, "until": FIRST + end * HOUR}
    assert drawn(client, **asked)["settled"] is settled
    assert not drawn(client, **asked, compare="before")["settled"]  # nothing is known of that time
    layers.superseded = frozenset({DAY_NUMBER})
    assert not drawn(client, **asked)["settled"]


@pytest.mark.slow
def test_a_chart_that_ends_with_the_newest_results_is_never_settled(
    client: TestClient, layers: Stored
) -> None:
    layers.final_days = frozenset(range(DAY_NUMBER, DAY_NUMBER + 3))
    assert not drawn(client)["settled"]
    assert not drawn(client, since=FIRST)["settled"]
    assert drawn(client, since=FIRST, until=FIRST + 72 * HOUR)["settled"]
