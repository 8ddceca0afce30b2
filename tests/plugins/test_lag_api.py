"""`GET /lag`: one look serves all who ask at once, and few may wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sluice_lab.waiting import until
from tests.monitoring.test_lag import report
from tests.plugins.application import API, Login


class Watched:
    """A double of the look, which takes as long as the test wants."""

    def __init__(self) -> None:
        self.taken, self.go_on = 0, threading.Event()
        self.shared: Any = None
        self.go_on.set()

    def __call__(self):
        self.taken += 1
        assert self.go_on.wait(120)
        return report()


@pytest.fixture
def watched(
    app: FastAPI,
    client: TestClient,
    login: Login,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Watched]:
    from sluice_airflow.api import lag, looks

    monkeypatch.setattr(looks, "FRESH_SECONDS", 3600.0)  # however long a test takes, one look is enough
    login.as_("viewer")
    double = Watched()
    shared = looks.Looks(double, "the lag")
    double.shared = shared
    app.dependency_overrides[lag.looks] = lambda: shared
    yield double
    double.go_on.set()


def test_a_viewer_sees_topics_members_partitions_and_rebalances(
    client: TestClient,
    watched: Watched,
) -> None:
    answer = client.get(f"{API}/lag").json()
    assert [each["records"] for each in answer["topics"]] == [150, 0]
    assert answer["members"][1]["member"] == "archiver-2"
    assert answer["partitions"][0]["catch_up"] == 10
    assert answer["rebalances"][0]["stood_still"] == 2.5
    assert answer["rebalances"][0]["by_partition"] == [{"partition": 1, "stood_still": 2.5}]
    assert answer["problems"] == [{"topic": "shop", "message": "Kafka does not say: gone"}]


def test_one_topic_is_shown_alone_and_an_unknown_one_is_not_there(
    client: TestClient,
    watched: Watched,
) -> None:
    assert len(client.get(f"{API}/lag?topic=logs").json()["partitions"]) == 3
    assert client.get(f"{API}/lag?topic=shop").json()["partitions"] == []
    assert client.get(f"{API}/lag?topic=none").status_code == 404
    assert watched.taken == 1, "the three asked while it was fresh"


def test_one_look_serves_all_who_ask_meanwhile_and_the_others_are_sent_away(
    client: TestClient,
    watched: Watched,
) -> None:
    from sluice_airflow.api import looks

    watched.go_on.clear()
    with ThreadPoolExecutor(looks.WAITING) as pool:
        waiting = [pool.submit(client.get, f"{API}/lag") for _ in range(looks.WAITING)]
        try:
            until(lambda: watched.taken == 1)
            until(lambda: watched.shared._places._value == 0)
            assert client.get(f"{API}/lag").status_code == 503
        finally:
            watched.go_on.set()
        assert [each.result().status_code for each in waiting] == [200] * looks.WAITING
    assert watched.taken == 1


def test_the_openapi_document_shows_an_example_of_the_answer(
    client: TestClient,
    watched: Watched,
) -> None:
    from sluice_airflow.api.lag import LagOut

    document = client.get(f"{API}/openapi.json").json()
    answer = document["paths"][f"{API}/lag"]["get"]["responses"]["200"]["content"]["application/json"]
    assert LagOut.model_validate(answer["example"]).topics[0].catch_up == 10
