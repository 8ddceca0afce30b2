"""Counting again over REST and in the console: planned, asked for, refused; the archive is a double."""

from __future__ import annotations

import html
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from sluice.batch.rebuild import ask
from sluice.batch.rebuild.scope import PlannedDay
from sluice.runtime.days import begin_ms
from sluice.storage.tables import recounts
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.rebuilds import Rebuilds
from sluice.storage.tables.recounts import BlockDamage, Recounts
from sluice.tasks.store import TaskStore
from tests.batch.rebuild.test_scope import state
from tests.engine.samples import spec
from tests.plugins.application import API, Login
from tests.storage.booked import DAY, NEXT, expire

REST = f"{API}/topics/logs/rebuilds"
TASK, TOPIC = "/console/statistics/task/hits", "/console/topics/logs/rebuilds"
PART = "/console/topics/parts/rebuilds/logs"
OWN = {"origin": "http://127.0.0.1:21080"}
HOSTILE = "<script>alert(1)</script>\"'&"
BOTH = {"first": str(DAY), "last": str(NEXT)}
LOST = StatePeriod(1, 1, begin_ms(DAY), 1, 1, 5, 100)


@pytest.fixture
def book(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Rebuilds:
    """Two tasks with state of two days, of which the archive has three files each."""
    TaskStore(database).apply([spec(name="hits"), spec(name="sizes")], "ann")
    state(database, begin_ms(DAY), begin_ms(NEXT))
    state(database, begin_ms(DAY), task=2)
    monkeypatch.setattr(
        ask, "planned", lambda settings, topic, days: [PlannedDay(day, 3, 5_000, 3 << 20) for day in days]
    )
    return Rebuilds(database, patience=0)


@pytest.fixture
def ann(client: TestClient, login: Login, book: Rebuilds) -> TestClient:
    """A client of somebody who may write."""
    login.as_("user")
    client.headers.update(OWN)
    return client


def words(text: str) -> str:
    return " ".join(html.unescape(text).split())


def damage(database: sa.Engine, why: str = "block x is not in HBase") -> Recounts:
    listed = Recounts(database, "logs", patience=0)
    listed.set_aside([BlockDamage(LOST.key, why, LOST)])
    return listed


def test_over_rest_it_is_planned_asked_for_and_followed(ann: TestClient, book: Rebuilds) -> None:
    days = {"task": "hits", "from": str(DAY), "to": str(NEXT)}
    planned = ann.get(f"{REST}/plan", params=days).json()
    assert planned["tasks"] == [{"name": "hits", "version": "1v1", "periods": 2}]
    assert planned["days"][0] == {"day": str(DAY), "files": 3, "lines": 5_000, "bytes": 3 << 20}
    assert (planned["periods"], planned["lines"], planned["left_out"]) == (2, 10_000, "")
    assert ann.get(REST).json() == {"rebuilds": [], "set_aside": [], "more": False}
    asked = ann.post(REST, json=days)
    assert (asked.status_code, asked.json()["left_out"]) == (201, "")
    assert ann.post(REST, json=days).json() == asked.json()  # it has not begun
    assert ann.post(REST, json={}).json()["rebuild"]["versions"] == ["1v1", "2v1"]
    book.begin(1, [LOST.key], [DAY, NEXT])
    book.stage(1, DAY, [], 1_234)
    book.set_failed(1, "HDFS is away")
    every, found = (each for each in ann.get(REST).json()["rebuilds"])
    assert (every["id"], every["state"], every["from"], every["days"]) == (2, "requested", None, 0)
    assert (found["days"], found["done_days"], found["lines"], found["state"]) == (2, 1, 1_234, "counting")
    assert (found["error"], found["by"], found["to"]) == ("HDFS is away", "ann", str(NEXT))
    assert [each["id"] for each in ann.get(REST, params={"task": "sizes"}).json()["rebuilds"]] == [2]
    (entry, _) = ann.get(f"{API}/history", params={"what": "topic"}).json()
    assert (entry["who"], entry["action"]) == ("ann", "rebuilt")


@pytest.mark.parametrize(
    ("topic", "wanted", "refused"),
    [
        ("other", {}, (404, "there is no topic 'other'")),
        ("logs", {"task": "nosuch"}, (404, "nosuch")),
        ("logs", {"from": "2015-06-01"}, (404, "no state of days from 2015-06-01 to the last")),
        ("logs", {"from": str(NEXT), "to": str(DAY)}, (422, "the day from 2015-05-18 is after the day to")),
        ("logs", {"from": "soon"}, (422, "date")),
        ("logs", {"task": "sizes"}, (409, "retention deleted lines of their days from the archive")),
    ],
)
def test_over_rest_it_is_refused_with_the_reason(
    ann: TestClient, book: Rebuilds, topic: str, wanted: dict[str, str], refused: tuple[int, str]
) -> None:
    expire(book.engine, DAY)
    at = f"{API}/topics/{topic}/rebuilds"
    for answer in (ann.post(at, json=wanted), ann.get(f"{at}/plan", params=wanted)):
        assert (answer.status_code, refused[1] in answer.text) == (refused[0], True), answer.text
    assert book.newest("logs", 9) == []


def test_a_field_that_the_body_does_not_have_does_not_count_everything(
    ann: TestClient, book: Rebuilds
) -> None:
    assert ann.post(REST, json={"form": str(DAY)}).json()["problems"][0]["pointer"] == "/form"
    assert book.newest("logs", 9) == []


def test_over_rest_what_is_left_out_and_set_aside_is_said(ann: TestClient, book: Rebuilds) -> None:
    expire(book.engine, NEXT)
    assert ann.get(f"{REST}/plan").json()["left_out"].startswith("1 periods are left out")
    assert ann.post(REST, json={}).json()["left_out"].startswith("1 periods are left out")
    damage(book.engine)
    (aside,) = ann.get(REST).json()["set_aside"]
    assert (aside["version"], aside["period"], aside["why"]) == (
        *("1v1", "2015-05-17T00:00:00Z"),
        "block x is not in HBase",
    )
    assert (aside["rebuild"], aside["expired"]) == (None, False)
    assert ann.get(REST, params={"task": "sizes"}).json()["set_aside"] == []


def test_the_openapi_document_has_examples_of_rebuilds(ann: TestClient) -> None:
    paths = ann.get(f"{API}/openapi.json").json()["paths"]
    for path, method, code in (("", "get", "200"), ("", "post", "201"), ("/plan", "get", "200")):
        own = paths[f"{API}/topics/{{name}}/rebuilds{path}"][method]
        assert own["responses"][code]["content"]["application/json"]["example"]
        assert own["description"]


@pytest.mark.parametrize(("at", "versions"), [(TASK, ((1, 1),)), (TOPIC, ((1, 1), (2, 1)))])
def test_at_a_task_and_at_a_topic_it_is_planned_and_then_asked_for(
    ann: TestClient, book: Rebuilds, at: str, versions: Any
) -> None:
    to = at.replace("/task/hits", "/task/hits/rebuild")
    planned = ann.post(to, data={**BOTH, "do": "look"})
    assert planned.status_code == 200
    periods = len(versions) + 1
    assert f"{periods} periods, 2 days, 10,000 lines (doubles included); 6 files of 6.0 MiB" in planned.text
    assert ("hits" in planned.text, 'value="2015-05-17"' in planned.text) == (True, True)
    assert book.newest("logs", 9) == []
    asked = ann.post(to, data={**BOTH, "do": "ask"})
    assert "The rebuild was asked for" in asked.text
    (found,) = book.newest("logs", 9)
    assert (found.versions, found.first_day, found.requested_by) == (versions, DAY, "ann")
    assert ("waits for the DAG rebuild" in asked.text, "not begun" in asked.text) == (True, True)


@pytest.mark.parametrize("at", [f"{TASK}/rebuild", TOPIC])
@pytest.mark.parametrize("do", ["look", "ask"])
def test_on_a_page_it_is_refused_with_the_reason(ann: TestClient, book: Rebuilds, at: str, do: str) -> None:
    expire(book.engine, DAY)
    for days, said in (
        ({"first": "soon", "last": ""}, "Name days like 2015-05-17, or none."),
        ({"first": str(NEXT), "last": str(DAY)}, "the day from 2015-05-18 is after the day to 2015-05-17"),
        ({"first": "2015-06-01", "last": ""}, "no state of days from 2015-06-01 to the last"),
        ({"first": "", "last": str(DAY)}, "retention deleted lines of their days from the archive"),
    ):
        answer = ann.post(at, data={**days, "do": do})
        assert (answer.status_code, said in words(answer.text)) == (422, True), said
        assert f'value="{days["first"]}"' in answer.text
    assert book.newest("logs", 9) == []
    assert "It leaves out periods" in ann.post(at, data={"first": "", "last": "", "do": "ask"}).text


def test_the_list_has_progress_reason_who_and_what_was_set_aside(ann: TestClient, book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1), (2, 1), (9, 1)], DAY, NEXT, user="ann").id
    damage(book.engine, HOSTILE)
    aside = book.request("logs", None, user="sluice").id
    book.begin(asked, [LOST.key], [DAY, NEXT])
    book.stage(asked, DAY, [], 1_234)
    book.set_failed(asked, HOSTILE)
    for at in (TASK, TOPIC, PART, f"{PART}?task=hits"):
        text = ann.get(at).text
        assert "<script>alert" not in text
        said = words(text)
        assert ("1 of 2" in said, "1,234 lines" in said, "by ann" in said) == (True, True, True), at
        assert f"{HOSTILE}; it is tried again" in said
        assert ("Set aside by damage" in said, f"rebuild {asked}" in said) == (True, True)
        assert "hits, sizes, task 9, deleted" in said
        assert "data-running" in text
    assert f"rebuild {aside}" not in words(ann.get(TASK).text)  # it has nothing of the task
    assert "what damage set aside" in ann.get(TOPIC).text
    assert "Set aside by damage" not in ann.get(f"{PART}?task=sizes").text
    assert ann.get(f"{PART}?task=nosuch").status_code == 404


def test_a_list_of_what_is_over_is_not_asked_for_again(ann: TestClient, book: Rebuilds) -> None:
    number = book.request("logs", [(1, 1)], user="ann").id
    book.begin(number, [LOST.key], [DAY])
    book.switch(number)
    assert "its results are being written" in ann.get(PART).text
    book.finish(number)
    found = ann.get(PART).text
    assert ("finished" in found, "data-running" in found) == (True, False)
    with book.engine.begin() as connection:
        recounts.put(connection, [{**recounts.row_of("logs", LOST.key), "why": "lost"}], {"switched": False})
    assert "data-running" in ann.get(PART).text
    Recounts(book.engine, "logs").expire([LOST.key])
    found = ann.get(PART).text
    assert ("cannot be counted again" in found, "data-running" in found) == (True, False)


def test_viewers_see_the_list_and_not_the_form(ann: TestClient, login: Login, book: Rebuilds) -> None:
    book.request("logs", [(1, 1)], user="bob")
    for role, form in (("user", True), ("viewer", False)):
        login.as_(role)
        for at in (TASK, TOPIC):
            text = ann.get(at).text
            assert ("by bob" in text, "What would be counted" in text) == (True, form), (at, role)
    for at in (f"{TASK}/rebuild", TOPIC):
        for do in ("look", "ask"):
            assert ann.post(at, data={**BOTH, "do": do}).status_code == 403
    assert ann.get("/console/topics/other/rebuilds").status_code == 404
    assert 'href="/console/topics/logs/rebuilds"' in ann.get("/console/topics").text
