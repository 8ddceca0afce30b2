"""`GET /tasks/NAME/lines` as a program meets it; the search itself is a double over lines in memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sluice.lines.answer import TookTooLong
from sluice_lab.waiting import SECONDS, until
from tests.lines.test_answer import START
from tests.plugins.application import API, Login
from tests.plugins.searched import LINES, PERIOD, Search


@pytest.fixture
def client(client: TestClient, login: Login, search: Search) -> TestClient:
    """One for whom the double searches, logged in as one who may see lines."""
    login.as_("user")
    return client


def get(client: TestClient, **params: Any) -> Any:
    return client.get(f"{API}/tasks/sample/lines", params={"period": PERIOD, **params})


def test_lines_come_with_their_identity_and_with_what_they_are_behind(client: TestClient) -> None:
    found = get(client, limit=2).json()
    first, second = found.pop("lines")
    assert first == {
        "event_time": "2015-05-17T10:05:00Z",
        "host": "web1",
        "src_file": "access.log",
        "src_offset": 0,
        "kafka_partition": 0,
        "kafka_offset": 0,
        "line_in_record": 0,
        "arrival": "1970-01-01T00:00:00Z",
        "line": LINES[0].decode(),
    }
    assert second["line"] == LINES[1].decode()
    assert isinstance(found.pop("next"), str)
    assert found == {
        "task": "sample",
        "version": 1,
        "period": PERIOD,
        "metric": "count",
        "state": "open",
        "commit": 7,
        "run_id": None,
        "counted": 25,
        "found": None,
        "doubts": [],
    }


def test_pages_follow_each_other_as_of_one_commit(client: TestClient, search: Search) -> None:
    lines, after = [], None
    while True:
        page = get(client, limit=10, **({} if after is None else {"after": after})).json()
        lines += [each["line"] for each in page["lines"]]
        if (after := page["next"]) is None:
            break
    assert lines == [text.decode() for text in LINES]
    assert [commit for _, commit in search.asked] == [None, 7, 7]


def test_a_page_ends_before_it_gets_too_large(
    client: TestClient, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow.api import lines

    monkeypatch.setattr(lines, "PAGE_BYTES", 3 * len(LINES[0]))
    page = get(client).json()
    assert [each["line"] for each in page["lines"]] == [text.decode() for text in LINES[:3]]
    monkeypatch.setattr(lines, "PAGE_BYTES", 1)
    (only,) = get(client, after=page["next"]).json()["lines"]
    assert only["line"] == LINES[3].decode()


def test_a_count_needs_no_lines(client: TestClient, search: Search) -> None:
    page = get(client, count=True).json()
    assert (page["found"], page["counted"], page["lines"], page["next"]) == (25, 25, [], None)


def test_the_parameters_are_those_of_the_command(client: TestClient, search: Search) -> None:
    get(client, where=["status=200", "status=404"], metric="sum", version=1)
    ((asked, _),) = search.asked
    assert (asked.task, asked.period, asked.version, asked.metric) == ("sample", START, 1, "sum")
    assert [(each.dimension, each.values) for each in asked.where] == [("status", ("200", "404"))]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"period": "noon"}, "'noon' is no time"),
        ({"period": "2015-05-17T10:05:40Z"}, "the nearest is 2015-05-17T10:06:00Z"),
        ({"period": "9999-12-31"}, "less than"),
        ({"where": "colour=red"}, "choose of status"),
        ({"where": "colour"}, "write DIMENSION=VALUE"),
        ({"metric": "p99"}, "has no 'p99'"),
        ({"limit": 100_000}, "less than"),
        ({"after": "x"}, "give what `next`"),
        ({"after": "WzFd"}, "give what `next`"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client: TestClient, params: Any, said: str) -> None:
    response = get(client, **params)
    assert (response.status_code, said in response.text) == (422, True), response.text


def test_only_those_who_may_write_see_lines(client: TestClient, login: Login, search: Search) -> None:
    login.as_("viewer")
    assert get(client).status_code == 403
    assert search.asked == []


def test_a_search_that_takes_too_long_is_given_up(client: TestClient, search: Search) -> None:
    search.error = TookTooLong(30, 100, 7)
    response = get(client)
    assert (response.status_code, "7 of 100 files" in response.json()["detail"]) == (503, True)


@pytest.mark.slow
def test_no_more_searches_than_some_run_or_wait(client: TestClient, search: Search) -> None:
    from sluice_airflow.api.lines import AT_ONCE, WAITING

    search.held = threading.Event()
    codes: list[int] = []
    askers = [
        threading.Thread(target=lambda: codes.append(get(client).status_code))
        for _ in range(AT_ONCE + WAITING + 3)
    ]
    for asker in askers:
        asker.start()
    until(lambda: len(codes) == 3 and len(search.asked) == AT_ONCE, what="three are refused, and some search")
    assert codes == [503] * 3
    assert len(search.asked) == AT_ONCE
    assert client.get(f"{API}/tasks").status_code == 200  # others do not wait for them
    search.held.set()
    for asker in askers:
        asker.join(SECONDS)
    assert sorted(codes) == [200] * (AT_ONCE + WAITING) + [503] * 3
