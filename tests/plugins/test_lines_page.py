"""The page of the lines behind a point; the search is a double over lines in memory."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.engine.samples import line
from tests.lines.test_answer import BEGIN
from tests.plugins.application import Login
from tests.plugins.searched import PERIOD, Search
from tests.plugins.test_console import HOSTILE


@pytest.fixture
def client(client: TestClient, login: Login, search: Search) -> TestClient:
    """One for whom the double searches, logged in as one who may see lines."""
    login.as_("user")
    return client


def page(client: TestClient, **more: Any) -> str:
    answer = client.get("/console/lines", params={"task": "sample", "period": PERIOD, **more})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_page_has_the_lines_and_says_what_the_result_counts(client: TestClient, search: Search) -> None:
    text = page(client)
    assert "The result counts 25 lines" in text
    assert "/24 HTTP" in text
    assert "The next ones" not in text


def test_a_long_list_goes_on_on_the_next_page(client: TestClient, search: Search) -> None:
    search.lines = [line(at=BEGIN, path=f"/{number}") for number in range(60)]
    text = page(client)
    assert ("/49 HTTP" in text, "/50 HTTP" in text) == (True, False)
    following = text.split('class="button" href="')[1].split('"')[0].replace("&amp;", "&")
    later = client.get(following).text
    assert ("/49 HTTP" in later, "/50 HTTP" in later) == (False, True)


def test_hostile_lines_are_shown_and_not_run(client: TestClient, search: Search) -> None:
    search.lines = [line(at=BEGIN, path=f"/{HOSTILE.replace(' ', '').replace(chr(34), '')}")]
    text = page(client)
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text


def test_who_may_only_read_is_refused(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    answer = client.get("/console/lines", params={"task": "sample", "period": PERIOD})
    assert answer.status_code == 403
    assert "ask for a role that may" in answer.text
