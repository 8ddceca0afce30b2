"""The pages about quality and dead letters; the login and the stores are doubles."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from sluice.stack.airflow import rest_api
from sluice.storage.tables import dead_letters, history, reconciled, schema, tallies
from sluice.storage.tables.reconciled import KEPT, DayCompared
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from sluice_airflow.console import dead
from tests.engine.samples import spec
from tests.plugins.application import Login

HOSTILE = "<script>alert(1)</script>\"'&\0"
AT = datetime(2015, 5, 19, 1, tzinfo=UTC)
DIFFERENCE = {
    "task": "hits (1v1)",
    "period": "2015-05-17T10:00:00Z",
    "dimensions": {"status": HOSTILE},
    "metric": "count",
    "online": "17",
    "offline": None,
}


def day(number: int) -> date:
    return date(2015, 5, number)


def computed(database: sa.Engine, number: int, **changes: Any) -> None:
    """Note lines of the day, and that it was computed."""
    lines = {"topic": "logs", "day": day(number), "partition": 0, "lines": 100, "last_offset": 5}
    values = {"topic": "logs", "day": day(number), "cut": {"0": 6}, "run_id": "r", "tasks_seq": 1}
    values |= {"computed_at": AT, "raw_lines": 100, "lines": 99, **changes}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.event_days).values(**lines))
        connection.execute(sa.insert(schema.days).values(**values))


def compared(number: int, outcome: str, hours: int = 1, **details: Any) -> DayCompared:
    return DayCompared("logs", day(number), AT + timedelta(hours=hours), outcome, 10, 1, details)


@pytest.fixture
def days(database: sa.Engine) -> None:
    """A topic with a day in each state, and two tasks."""
    TaskStore(database).apply([spec(name="hits"), spec(name="sizes")], "ann")
    published = {"published_cut": {"0": 6}, "published_at": AT + timedelta(hours=2)}
    computed(database, 17, **published)
    computed(database, 18)
    found = {"tasks": {"hits (1v1)": [5, 1], "sizes (2v1)": [5, 0]}, "differences": [DIFFERENCE]}
    reconciled.note(database, compared(18, "superseded", message="a line came"))
    reconciled.note(database, compared(18, "differs", 2, **found))
    computed(database, 19, cut={"0": 5})
    computed(database, 20)
    with database.begin() as connection:
        row = {"topic": "logs", "day": day(21), "partition": 0, "lines": 3, "last_offset": 5}
        connection.execute(sa.insert(schema.event_days).values(**row))
        missing = {"topic": "logs", "day": day(17), "task_id": 2, "version": 1, "reason": "it raised"}
        connection.execute(sa.insert(schema.uncounted).values(**missing))


def cells(text: str, name: str) -> dict[int, str]:
    row = re.search(rf'<th scope="row">(?:<a [^>]*>)?{name}.*?</tr>', text, re.S)
    assert row is not None
    return {int(n): state for n, state in re.findall(r'unseen">2015-05-(\d+): ([^<]+)<', row[0])}


def test_the_calendar_tells_the_days_of_each_task(client: TestClient, login: Login, days: None) -> None:
    login.as_("viewer")
    text = client.get("/console/quality").text  # the newest month with lines
    every = {17: "agrees", 18: "differs", 19: "superseded", 20: "open", 21: "not computed"}
    assert cells(text, "All of logs") == every
    assert cells(text, "hits") == every
    assert cells(text, "sizes") == {**every, 17: "not computed", 18: "agrees"}
    other = client.get("/console/quality", params={"month": "2015-06"}).text
    assert "No lines in this month" in other
    assert "hits" not in cells_of_names(client.get("/console/quality", params={"q": "size"}).text)


@pytest.mark.slow
def test_a_published_day_that_differs_when_it_is_compared_again_is_said_to_differ(
    client: TestClient, login: Login, database: sa.Engine, days: None
) -> None:
    login.as_("viewer")
    reconciled.note(database, compared(17, "agrees", 1))  # a moment before it was published
    assert cells(client.get("/console/quality").text, "All of logs")[17] == "agrees"
    reconciled.note(database, compared(17, "differs", 3))
    assert cells(client.get("/console/quality").text, "All of logs")[17] == "differs"
    reconciled.note(database, compared(17, "agrees", 4))
    assert cells(client.get("/console/quality").text, "All of logs")[17] == "agrees"


def cells_of_names(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>([^<]+)', text)


@pytest.mark.slow
def test_a_day_that_differs_shows_the_series_and_earlier_comparisons(
    client: TestClient, login: Login, days: None
) -> None:
    login.as_("viewer")
    asked = {"topic": "logs", "day": "2015-05-18"}
    text = client.get("/console/quality/day", params=asked).text
    assert "<script>alert" not in text
    found = re.search(r"<tr><th scope=\"row\">hits \(1v1\)</th><td>2015.*?</tr>", text, re.S)
    assert found is not None
    for part in ("status = &lt;script&gt;", ">17<", ">none<", ">equal<"):
        assert part in found[0]
    (earlier,) = [each for each in re.findall(r'href="(\?topic=[^"]+run=[^"]+)"', text) if "T02" in each]
    old = client.get("/console/quality/day" + earlier.replace("&amp;", "&"))
    assert (old.status_code, "a line came" in old.text) == (200, True)
    missing = client.get("/console/quality/day", params={**asked, "run": "2015-05-19T00:00:00Z"})
    assert missing.status_code == 404


@pytest.mark.slow
def test_a_day_is_computed_again_by_those_who_may(
    client: TestClient, login: Login, days: None, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:

    triggered: list[Any] = []

    class Airflow:
        def __init__(self, settings: Any, for_user: str) -> None:
            self.for_user = for_user

        def __enter__(self) -> Airflow:
            return self

        def __exit__(self, *error: object) -> None: ...
        def trigger(self, dag: str, conf: Any) -> str:
            triggered.append((self.for_user, dag, conf))
            return "run"

    monkeypatch.setattr(rest_api, "Airflow", Airflow)
    client.headers.update({"origin": "http://127.0.0.1:21080"})
    asked = {"topic": "logs", "day": "2015-05-18"}
    login.as_("viewer")
    assert "Compute the day again" not in client.get("/console/quality/day", params=asked).text
    assert client.post("/console/quality/day", data=asked).status_code == 403
    login.as_("user")
    assert "Compute the day again" in client.get("/console/quality/day", params=asked).text
    assert "was started" in client.post("/console/quality/day", data=asked).text
    assert triggered == [("ann", "nightly_batch", {"day": "2015-05-18", "topics": ["logs"]})]
    (noted,) = history.entries(database, what="days")
    assert (noted.who, noted.what, noted.name, noted.after) == ("ann", "days", "2015-05-18", "logs")
    for wrong, code in (({"day": "soon"}, 422), ({"day": "2999-01-01"}, 422), ({"topic": "x"}, 404)):
        assert client.post("/console/quality/day", data={**asked, **wrong}).status_code == code


def test_a_days_newest_comparisons_are_kept(database: sa.Engine) -> None:
    for hours in range(KEPT + 3):
        reconciled.note(database, compared(17, "agrees", hours))
    kept = reconciled.of_day(database, "logs", day(17))
    assert [each.run_at.hour for each in kept[:2]] == [23, 22]
    assert len(kept) == KEPT


def letter(database: sa.Engine, offset: int, reason: str, line: bytes, days_ago: int = 0) -> None:
    values = {"topic": "logs", "partition": 0, "offset": offset, "reason": reason, "bytes": len(line)}
    values |= {"line": line, "arrived_at": datetime.now(UTC) - timedelta(days=days_ago)}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.dead_letters).values(**values))


def test_dead_letters_by_reason_and_day_with_what_was_tried(
    client: TestClient, login: Login, database: sa.Engine
) -> None:
    login.as_("user")
    assert "No dead letters" in client.get("/console/dead").text
    letter(database, 1, "no event time", HOSTILE.encode() + b"\xff")
    letter(database, 2, "forged", b"a forged one")
    letter(database, 3, "line over 9 bytes", b"a long line", days_ago=2)
    text = client.get("/console/dead").text
    assert "<script>alert" not in text
    assert "No time in brackets" in text
    assert "whose proof is wrong" in text
    assert "11 bytes: line over 9 bytes" in text
    only = client.get("/console/dead", params={"reason": "forged"}).text
    assert ("a forged one" in only, "a long line" in only) == (True, False)
    old = (datetime.now(UTC) - timedelta(days=2)).date()
    of_day = client.get("/console/dead", params={"day": str(old)}).text
    assert ("a forged one" in of_day, "a long line" in of_day) == (False, True)


def test_what_was_tried_names_the_topics_own_time(
    client: TestClient, login: Login, database: sa.Engine
) -> None:
    login.as_("user")
    time = {"extract": {"field": "at"}, "format": "iso8601"}
    from sluice.tasks import TopicSpec

    TopicStore(database).apply(
        TopicSpec.model_validate({"name": "logs", "format": "json", "time": time}), "ann"
    )
    letter(database, 1, "no event time", b'{"at": "yesterday"}')
    letter(database, 2, "no event time", b"no json")
    text = client.get("/console/dead").text
    assert "field &#39;at&#39;: &#39;yesterday&#39; is no time of the format &#39;iso8601&#39;" in text
    assert "field &#39;at&#39;: nothing is there" in text


def test_a_reader_sees_how_many_dead_letters_but_not_the_lines(
    client: TestClient, login: Login, database: sa.Engine
) -> None:
    login.as_("viewer")
    letter(database, 1, "no event time", b"secret")
    text = client.get("/console/dead").text
    assert ("secret" in text, "no event time" in text) == (False, True)


@pytest.mark.slow
def test_what_tasks_skip_is_shown_with_samples(client: TestClient, login: Login, database: sa.Engine) -> None:
    TaskStore(database).apply([spec(name="hits"), spec(name="sizes")], "ann")
    place = {"day": day(17), "task_id": 1, "version": 1}
    numbers = {"counted": 1200, "filtered": 30, "unmatched": 4, "too_long": 5}
    line = {"partition": 0, "offset": 7, "line_in_record": 0, "bytes": 9, "line": HOSTILE.encode()}
    with database.begin() as connection:
        tallies.add(connection, "logs", [{**place, **numbers}])
        for task, reason in ((1, "path: nothing was extracted"), (0, "not a line of an access log")):
            version = {"task_id": task, "version": min(task, 1)}
            one = {**place, **line, **version, "kind": "unmatched", "reason": reason}
            tallies.add_samples(connection, "logs", [one])
            tallies.add(connection, "logs", [{**place, **version, **numbers}] if not task else [])
    login.as_("user")
    for address, reason in (
        ("/console/dead", "not a line of an access log"),
        ("/console/statistics/task/hits", "path: nothing was extracted"),
    ):
        text = client.get(address).text
        assert reason in text
        assert "<script>alert" not in text
        assert re.search(r"4 unmatched,\s+5 too long", text)
    assert "statistics/task/hits" in client.get("/console/dead").text
    assert "statistics/task/sizes" not in client.get("/console/dead").text
    login.as_("viewer")
    for address in ("/console/dead", "/console/statistics/task/hits"):
        assert "alert(1)" not in client.get(address).text


def test_a_day_that_an_earlier_release_counted_says_that_nothing_was_counted_then(
    client: TestClient, login: Login, days: None, database: sa.Engine
) -> None:
    login.as_("viewer")
    skipped = {"hits (1v1)": {"unmatched": 17, "too_long": 3}}
    for hours, found, text in ((3, None, "Not counted then"), (4, {}, "None."), (5, skipped, ">17<")):
        reconciled.note(database, compared(18, "agrees", hours, skipped=found))
        assert text in client.get("/console/quality/day?topic=logs&day=2015-05-18").text


def test_only_the_newest_dead_letters_are_counted_and_the_page_says_so(
    client: TestClient, login: Login, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    login.as_("viewer")
    for number in range(4):
        letter(database, number, "forged", b"x", days_ago=number)
    assert "There are more" not in client.get("/console/dead").text
    for module in (dead_letters, dead):
        monkeypatch.setattr(module, "MOST", 3)
    text = client.get("/console/dead").text
    assert "There are more: only the newest 3 are counted" in text
    days = [(datetime.now(UTC) - timedelta(days=number)).date() for number in range(3)]
    assert dead_letters.by_reason(database, "logs", AT) == {"forged": dict.fromkeys(days, 1)}


def test_a_reason_is_looked_for_only_in_the_days_of_the_table(
    client: TestClient, login: Login, database: sa.Engine
) -> None:
    login.as_("user")
    letter(database, 1, "forged", b"an old one", days_ago=20)
    assert "an old one" in client.get("/console/dead").text
    assert "None of the last 14 days" in client.get("/console/dead?reason=forged").text
    day = (datetime.now(UTC) - timedelta(days=20)).date()
    assert "an old one" in client.get(f"/console/dead?reason=forged&day={day}").text


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ("/console/dead?topic=a%20b", 404, "no task reads a topic"),
        ("/console/dead?topic=other", 404, "no task reads a topic"),
        ("/console/dead?day=9999-12-31", 422, "day: Input should be less than or equal to 9998-12-31"),
        ("/console/dead?day=0001-01-01", 422, "day: Input should be greater than or equal to 1970-01-01"),
        (
            "/console/quality?month=9999-12",
            422,
            "month: 9999-12 is beyond all months: write one from 1970-01",
        ),
        ("/console/quality?month=0001-01", 422, "month: 0001-01 is beyond all months"),
        ("/console/quality/day?topic=logs&day=9999-12-31", 422, "day: Input should be less than"),
    ],
)
def test_a_topic_or_a_time_that_cannot_be_is_told(
    client: TestClient, login: Login, asked: str, code: int, said: str
) -> None:
    login.as_("viewer")
    answer = client.get(asked)
    assert (answer.status_code, said in answer.text) == (code, True)


def test_with_all_connections_taken_a_page_says_when_to_ask_again(client: TestClient, login: Login) -> None:
    from sluice_airflow.api import stores

    login.as_("viewer")
    busy = sa.create_engine(
        "sqlite://", poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    client.app.dependency_overrides[stores.database] = lambda: busy  # type: ignore[attr-defined]
    with busy.connect():
        answer = client.get("/console/dead")
        assert client.get("/api/v1/tasks").status_code == 503
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert "all connections to PostgreSQL are busy" in answer.text
