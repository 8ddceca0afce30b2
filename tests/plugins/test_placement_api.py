"""`GET /placement/plan`: what would move now, and what is known of hosts and units."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.hosts.units.double import DictionaryUnits, Instance, made
from tests.plugins.application import API, Login


@pytest.fixture
def instance(app: FastAPI, client: TestClient, login: Login) -> Iterator[Instance]:
    from sluice_airflow.api import placement
    from sluice_airflow.api.looks import Looks
    from sluice_hosts.units import proposals

    login.as_("viewer")
    with made() as found:
        found.hosts(h1=8, h2=8)
        units = DictionaryUnits({"c1": "h1", "c2": "h1"})
        shared = Looks(lambda: proposals.propose(found.settings, found.database, [units]), "the plan")
        app.dependency_overrides[placement.looks] = lambda: shared
        yield found


def test_a_viewer_sees_the_plan_hosts_and_units(client: TestClient, instance: Instance) -> None:
    instance.loads({"collector:c1": 1.0, "collector:c2": 1.0})
    answer = client.get(f"{API}/placement/plan").json()
    (move,) = answer["moves"]
    assert (move["step"], move["source"], move["target"]) == (1, "h1", "h2")
    assert [host["state"] for host in answer["hosts"]] == ["open"] * 3
    shown = {unit["unit"]: (unit["host"], unit["movable"], unit["cpu"]) for unit in answer["units"]}
    assert shown["collector:c1"] == ("h1", True, 1.0)
    assert shown["collector:here"] == ("local", False, None)
    assert (answer["waiting"], answer["left"]) == (0, 100)


def test_hosts_that_cannot_be_used_are_an_answer(client: TestClient, instance: Instance) -> None:
    (instance.settings.home / "hosts.yaml").write_text("- {name: h1}\n")
    answer = client.get(f"{API}/placement/plan")
    assert answer.status_code == 409
    assert "hosts.yaml" in answer.text


def test_the_openapi_document_shows_an_example_of_the_answer(
    client: TestClient,
    instance: Instance,
) -> None:
    from sluice_airflow.api.placement import PlacementOut

    document = client.get(f"{API}/openapi.json").json()
    path = document["paths"][f"{API}/placement/plan"]
    answer = path["get"]["responses"]["200"]["content"]["application/json"]
    assert PlacementOut.model_validate(answer["example"]).moves[0].target == "gather1"
