"""The statements that run, over REST and in the console: each sees and ends their own, ops those of all."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from sluice_lab.waiting import until
from tests.plugins.application import API, Login
from tests.sql.alone import Endpoint
from tests.sql.limited import FOR_EVER, Running, endpoint, instance, runs

__all__ = ["endpoint", "instance"]  # fixtures

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("instance")
def test_over_rest_and_in_the_console_each_sees_and_ends_their_own_and_ops_all(
    endpoint: Endpoint,
    client: TestClient,
    login: Login,
) -> None:
    for ends in ("DELETE", "POST"):
        running = Running(endpoint, f"{FOR_EVER} -- <b>\x1b", "eve")
        (found,) = until(lambda: runs(endpoint))
        login.as_("user", "ann")
        assert client.get(f"{API}/sql/statements").json() == []
        assert client.delete(f"{API}/sql/statements/{found.id}").status_code == 404
        assert "Nothing runs" in client.get("/console/statements").text
        login.as_("viewer", "eve")
        assert [each["id"] for each in client.get(f"{API}/sql/statements").json()] == [found.id]
        login.as_("op", "olga")
        assert [each["user"] for each in client.get(f"{API}/sql/statements").json()] == ["eve"]
        page = client.get("/console/statements").text
        assert "&lt;b&gt;\\u001b" in page
        assert "<b>" not in page
        if ends == "DELETE":
            assert client.delete(f"{API}/sql/statements/{found.id}").json()["id"] == found.id
        else:
            own = {"origin": "http://127.0.0.1:21080"}
            done = client.post(f"/console/statements/{found.id}/cancel", headers=own, follow_redirects=False)
            assert done.status_code == 303
        (entry,) = client.get(f"{API}/history?limit=1").json()
        assert (entry["who"], entry["name"]) == ("olga", f"{found.id} of eve")
        assert "cancelled by an operator" in running.end()
