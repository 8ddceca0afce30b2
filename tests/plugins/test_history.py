"""Who changed what, over REST and as a page: one's own, or for those who run the platform all of it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from sluice.tasks.lists import ValueLists
from tests.plugins.application import API, Login

PAGE = "/console/history"


@pytest.fixture(autouse=True)
def changes(database: sa.Engine) -> None:
    lists = ValueLists(database)
    lists.apply("good", ["<b>bold</b>"], "ann")
    lists.apply("bad", ["b"], "host:bob")


def names(client: TestClient, query: str = "") -> list[str]:
    answer = client.get(f"{API}/history{query}")
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()]


def test_everybody_sees_their_own_and_op_everything(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    assert names(client) == names(client, "?user=ann") == ["good"]
    assert client.get(f"{API}/history?user=host:bob").status_code == 403
    assert client.get(PAGE, params={"who": "host:bob"}).status_code == 403
    assert "host:bob" not in client.get(PAGE).text
    login.as_("op", "olga")
    assert names(client) == ["bad", "good"]
    assert names(client, "?user=host:bob&what=list&since=2015-05-17T00:00:00Z") == ["bad"]
    assert names(client, "?since=2999-05-17T00:00:00Z") == []
    assert "host:bob" in client.get(PAGE).text


def test_a_change_over_rest_says_who_and_from_where(
    client: TestClient,
    login: Login,
) -> None:
    login.as_("user", "eve")
    assert client.put(f"{API}/lists/new", json={"values": ["a"]}).status_code == 201
    (found,) = client.get(f"{API}/history").json()
    assert (found["who"], found["what"], found["name"], found["action"]) == ("eve", "list", "new", "created")
    assert found["origin"]


@pytest.mark.slow
def test_the_page_shows_values_as_text_and_older_ones_on_the_next(
    client: TestClient,
    login: Login,
    database: sa.Engine,
) -> None:
    login.as_("op")
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "<b>bold" not in page.text
    assert "&lt;b&gt;bold" in page.text
    lists = ValueLists(database)
    for number in range(100):
        lists.apply(f"list{number}", ["a"], "ann")
    first = client.get(PAGE).text
    assert "Older changes" in first
    assert "list99" in first
    assert "good" not in first
    assert "No changes" in client.get(PAGE, params={"who": "nobody"}).text
