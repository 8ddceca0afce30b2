"""Dashboards as a browser gets them: pinning, changing, sharing, and what of them can be drawn now."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from sluice.cli.demo.dashboard import CHARTS
from sluice.results.query import BadQuery
from sluice.runtime.settings import ROOT
from sluice.storage.tables import schema
from sluice.storage.tables.dashboards import MOST, MOST_CHARTS, Dashboards, PinnedChart
from sluice.tasks import parse_tasks
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec
from tests.plugins.application import Login
from tests.plugins.test_console import HOSTILE
from tests.results.questions import stored

BOARDS = "/console/dashboards"
FORM = {"origin": "http://127.0.0.1:21080", "content-type": "application/x-www-form-urlencoded"}
HITS, BYTES = PinnedChart("Hits", "task=hits"), PinnedChart("Bytes", "task=hits&metric=count&last=1h")


@pytest.fixture
def boards(client: TestClient, login: Login, database: sa.Engine) -> Dashboards:
    """A viewer is logged in, and there is a task."""
    TaskStore(database).apply([spec(name="hits")], "ann")
    login.as_("viewer")
    return Dashboards(database)


def sent(client: TestClient, path: str, given: Any) -> httpx.Response:
    """The answer to a form; given: its fields, as a mapping or as pairs."""
    body = str(httpx.QueryParams(given))
    answer: httpx.Response = client.post(
        f"{BOARDS}{path}", content=body, headers=FORM, follow_redirects=False
    )
    return answer


def alert(answer: httpx.Response) -> str:
    found = re.search(r'role="alert"[^>]*>([^<]*)<', answer.text)
    return unescape(found[1]) if found else ""


def test_a_viewer_pins_a_chart_to_a_new_dashboard_and_another_to_the_same(
    client: TestClient, boards: Dashboards
) -> None:
    asked = client.get(f"{BOARDS}/pin?task=hits&metric=count&metric=&since=&split=&where=&bare=true")
    assert 'name="address" value="task=hits&amp;metric=count"' in asked.text
    assert 'value="count of hits"' in asked.text
    given = {"address": "task=hits&metric=count", "title": "Hits", "dashboard": "new", "name": "Night"}
    answer = sent(client, "/pin", given)
    (made,) = boards.of("ann")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{BOARDS}/{made.id}?did=pinned#chart-1"
    more = {"address": "task=hits&last=1h", "title": "Again", "dashboard": str(made.id)}
    assert sent(client, "/pin", more).headers["location"].endswith("#chart-2")
    shown = client.get(f"{BOARDS}/{made.id}?did=pinned").text
    assert re.findall(r'data-address="([^"]+)"', shown) == [
        "task=hits&amp;metric=count",
        "task=hits&amp;last=1h",
    ]
    assert "Pinned, at the end." in shown


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"address": "task=nothing"}, 404, "there is no task"),
        ({"address": "metric=count"}, 422, "it names no task"),
        ({"address": "task=hits&top=many"}, 422, "no chart&#39;s: top"),
        ({"address": "&".join(["task=hits"] + ["where=a"] * 3_000)}, 422, "address: "),
        ({"address": "task=hits&" + "&".join(["where=" + "a" * 50] * 60)}, 422, "over 2000 characters"),
        ({"title": ""}, 422, "title: it is empty"),
        ({"title": "x" * 100}, 422, "at most 80"),
        ({"name": ""}, 422, "name: it is empty"),
        ({"dashboard": "77"}, 404, "there is no dashboard 77"),
        ({"dashboard": "9" * 40}, 422, "is no number"),
        ({"dashboard": "²"}, 422, "is no number"),
    ],
)
def test_what_cannot_be_pinned_is_refused_with_the_reason(
    client: TestClient, boards: Dashboards, changed: dict[str, str], status: int, said: str
) -> None:
    given = {"address": "task=hits", "title": "Hits", "dashboard": "new", "name": "Night"}
    answer = sent(client, "/pin", given | changed)
    assert answer.status_code == status
    assert said in answer.text
    assert boards.of("ann") == []


def test_a_full_dashboard_is_not_offered_and_takes_no_more(client: TestClient, boards: Dashboards) -> None:
    full = boards.create("ann", "Full", [HITS] * MOST_CHARTS)
    assert re.search(rf'value="{full.id}" disabled', client.get(f"{BOARDS}/pin?task=hits").text)
    answer = sent(client, "/pin", {"address": "task=hits", "title": "One more", "dashboard": str(full.id)})
    assert answer.status_code == 422
    assert "remove one" in alert(answer)
    assert 'value="One more"' in answer.text


@pytest.mark.slow
def test_a_dashboard_is_made_by_its_name_and_the_form_says_what_is_wrong_with_it(
    client: TestClient, boards: Dashboards
) -> None:
    assert "You have none yet" in client.get(BOARDS).text
    assert sent(client, "", {"name": "Night"}).status_code == 303
    again = sent(client, "", {"name": "Night"})
    assert again.status_code == 422
    assert "choose another name" in alert(again)
    for number in range(MOST - 1):
        boards.create("ann", f"Board {number}")
    assert "delete one first" in alert(sent(client, "", {"name": "Too many"}))


def test_charts_are_ordered_renamed_and_removed_at_once(client: TestClient, boards: Dashboards) -> None:
    made = boards.create("ann", "Night", [HITS, BYTES, PinnedChart("Other", "task=hits&last=all")])
    given = [("version", 1), ("name", "Day"), ("shared", "yes"), ("do", "save"), ("remove", 0)]
    given += [
        ("chart", 2),
        ("title", "First"),
        ("chart", 0),
        ("title", "Hits"),
        ("chart", 1),
        ("title", "Last"),
    ]
    answer = sent(client, f"/{made.id}/edit", given)
    assert answer.headers["location"] == f"{BOARDS}/{made.id}?did=saved"
    found = boards.get(made.id, "ann")
    assert (found.name, found.shared, found.version) == ("Day", True, 2)
    assert found.charts == (PinnedChart("First", "task=hits&last=all"), PinnedChart("Last", BYTES.address))


def test_without_a_script_a_button_moves_a_chart(client: TestClient, boards: Dashboards) -> None:
    made = boards.create("ann", "Night", [HITS, BYTES])
    rows = [("name", "Night"), ("chart", 0), ("title", "Hits"), ("chart", 1), ("title", "Bytes")]
    answer = sent(client, f"/{made.id}/edit", [("version", 1), *rows, ("do", "later 0")])
    assert answer.headers["location"] == f"{BOARDS}/{made.id}/edit"
    assert boards.get(made.id, "ann").charts == (BYTES, HITS)
    rows = [("name", "Night"), ("chart", 0), ("title", "Bytes"), ("chart", 1), ("title", "Hits")]
    sent(client, f"/{made.id}/edit", [("version", 2), *rows, ("do", "earlier 0")])  # it is the first already
    assert boards.get(made.id, "ann").charts == (BYTES, HITS)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("chart", 0), ("title", "Hits")],
        [("chart", 0), ("title", "Hits"), ("chart", 0), ("title", "Hits")],
        [("chart", 0), ("title", "Hits"), ("chart", 7), ("title", "Hits")],
        [("chart", 0), ("chart", 1), ("title", "Hits")],
        [("chart", "-1"), ("title", "Hits"), ("chart", 1), ("title", "Hits")],
    ],
)
def test_a_form_that_does_not_name_every_chart_once_changes_nothing(
    client: TestClient, boards: Dashboards, rows: list[tuple[str, Any]]
) -> None:
    made = boards.create("ann", "Night", [HITS, BYTES])
    answer = sent(client, f"/{made.id}/edit", [("version", 1), ("name", "Day"), ("do", "save"), *rows])
    assert answer.status_code == 422
    assert boards.get(made.id, "ann") == made


def test_the_second_of_two_is_told_and_sees_what_the_first_did(
    client: TestClient, boards: Dashboards
) -> None:
    made = boards.create("ann", "Night", [HITS])
    rows = [("version", 1), ("chart", 0), ("title", "Hits"), ("do", "save")]
    assert sent(client, f"/{made.id}/edit", [*rows, ("name", "First")]).status_code == 303
    second = sent(client, f"/{made.id}/edit", [*rows, ("name", "Second")])
    assert second.status_code == 412
    assert "'First' was changed elsewhere" in alert(second)
    assert 'name="version" value="2"' in second.text
    assert 'value="First"' in second.text
    late = sent(client, f"/{made.id}/delete", {"version": "1"})
    assert late.status_code == 412
    assert "was changed elsewhere" in alert(late)
    assert boards.get(made.id, "ann").name == "First"


def test_what_is_refused_stays_in_the_form(client: TestClient, boards: Dashboards) -> None:
    boards.create("ann", "Day")
    made = boards.create("ann", "Night", [HITS, BYTES])
    given = [("version", 1), ("name", "Day"), ("shared", "yes"), ("do", "save"), ("remove", 1)]
    given += [("chart", 1), ("title", "B"), ("chart", 0), ("title", "A")]
    answer = sent(client, f"/{made.id}/edit", given)
    assert answer.status_code == 422
    assert "choose another name" in alert(answer)
    assert re.findall(r'id="title-(\d)" name="title"[^>]*value="(\w)"', answer.text) == [
        ("1", "B"),
        ("0", "A"),
    ]
    assert re.search(r'name="remove" value="1" checked', answer.text)


def test_a_dashboard_is_deleted_after_a_question(client: TestClient, boards: Dashboards) -> None:
    made = boards.create("ann", "Night", [HITS], shared=True)
    question = client.get(f"{BOARDS}/{made.id}/delete").text
    assert "Delete Night?" in question
    assert "they lose it as well" in question
    assert sent(client, f"/{made.id}/delete", {"version": "1"}).headers["location"] == BOARDS
    assert boards.of("ann") == []
    assert client.get(f"{BOARDS}/{made.id}").status_code == 404


@pytest.mark.slow
def test_others_look_at_a_shared_dashboard_and_copy_it(
    client: TestClient, boards: Dashboards, login: Login
) -> None:
    shared, own = boards.create("ann", "Ours", [HITS], shared=True), boards.create("ann", "Mine", [HITS])
    login.as_("user", "bob")
    listed = client.get(BOARDS).text
    assert "Ours" in listed
    assert "Mine" not in listed
    shown = client.get(f"{BOARDS}/{shared.id}").text
    assert "by ann" in shown
    assert f"{BOARDS}/{shared.id}/edit" not in shown
    assert client.get(f"{BOARDS}/{own.id}").status_code == 404
    for path in ("edit", "delete"):
        assert client.get(f"{BOARDS}/{shared.id}/{path}").status_code == 404
        assert sent(client, f"/{shared.id}/{path}", {"version": "1"}).status_code == 404
    assert sent(client, f"/{own.id}/duplicate", {}).status_code == 404
    assert sent(client, f"/{shared.id}/duplicate", {}).status_code == 303
    (copied,) = boards.of("bob")
    assert (copied.name, copied.charts, copied.shared) == ("Ours", (HITS,), False)


def test_a_chart_that_can_no_longer_be_drawn_says_why_and_the_others_are_drawn(
    client: TestClient, boards: Dashboards, database: sa.Engine
) -> None:
    made = boards.create("ann", "Night", [HITS, PinnedChart("Gone", "task=gone"), BYTES])
    with database.begin() as connection:  # as an older release may have written it
        rows = [["Hits", "task=hits"], ["Gone", "task=gone"], ["Old", "task=hits&shape=cake"], ["No", "%00"]]
        connection.execute(sa.update(schema.dashboards).values(charts=rows))
    shown = client.get(f"{BOARDS}/{made.id}").text
    assert re.findall(r'data-address="([^"]+)"', shown) == ["task=hits"]
    assert "There is no task gone now" in shown
    assert "address: it is no chart&#39;s: shape" in shown
    assert shown.count("Remove it") == 3
    assert "address: it is no chart&#39;s: shape" in client.get(f"{BOARDS}/{made.id}/edit").text


@pytest.mark.slow
def test_hostile_names_and_addresses_stay_texts(client: TestClient, boards: Dashboards, login: Login) -> None:
    login.as_("viewer", HOSTILE)
    address = str(httpx.QueryParams({"task": "hits", "where": HOSTILE, "by": HOSTILE}))
    made = boards.create(
        HOSTILE, HOSTILE, [PinnedChart(HOSTILE, address), PinnedChart("x", HOSTILE)], shared=True
    )
    pages = [
        "",
        f"/{made.id}",
        f"/{made.id}/edit",
        f"/{made.id}/delete",
        f"/{made.id}?bare=true",
        f"/pin?{address}",
    ]
    for path in pages:
        answer = client.get(f"{BOARDS}{path}")
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text, path
        assert not re.search(r"<style|\sstyle=|\son\w+=\"|<script(?![^>]*\ssrc=)", answer.text), path


def test_without_the_frame_nothing_is_offered_but_the_charts(client: TestClient, boards: Dashboards) -> None:
    made = boards.create("ann", "Night", [HITS])
    bare = client.get(f"{BOARDS}/{made.id}?bare=true").text
    assert "<nav" not in bare
    assert "<form" not in bare
    assert f'href="{BOARDS}/{made.id}" target="_blank"' in bare
    assert 'data-address="task=hits"' in bare


def test_an_address_is_written_in_one_way_and_read_back() -> None:
    from sluice_airflow.console.chart_address import address_of, read_address, title_of

    text = (
        "shape=stack&task=hits&where=path%3D/a+b%26c&split=path&where=&top=5&since=2015-05-17&other=1&bare=1"
    )
    chart = read_address(text)
    assert address_of(chart) == "task=hits&split=path&where=path%3D%2Fa+b%26c&since=2015-05-17&shape=stack"
    assert read_address(address_of(chart)).where == ["path=/a b&c"]
    assert title_of(chart) == "hits by path where path=/a b&c"
    with pytest.raises(BadQuery, match="address"):
        read_address("task=hits&where=" + "&where=".join("a" * 3_000))


def test_the_charts_of_the_demo_can_be_drawn() -> None:
    from sluice_airflow.console.chart_address import address_of, read_address
    from sluice_airflow.console.chart_in import asked

    files = (ROOT / "include" / name for name in ("tasks.yaml", "examples/tasks.yaml"))
    tasks = {spec.name: ActiveTask(1, 1, spec) for file in files for spec in parse_tasks(file.read_text())}
    for title, address in CHARTS:
        chart = read_address(address)
        assert sorted(address_of(chart).split("&")) == sorted(address.split("&")), title
        assert asked(stored(tasks[chart.task], []), chart).query.metrics == tuple(chart.metric), title
