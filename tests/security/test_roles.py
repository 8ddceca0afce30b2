"""Who may do what: each role, and nobody, at each route of Sluice's API and at Airflow's main ones."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import get_args

import httpx
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.users import Role, Users
from tests.engine.samples import line
from tests.security.routes import SLUICE, airflow_routes, sluice_routes

pytestmark = pytest.mark.stack

ROLES: tuple[Role, ...] = get_args(Role)  # least first
VIEWER, USER, OP, ADMIN = ROLES
NOBODY = "nobody"
SAYS_NO = {401, 403}
NUMBER, NAME = re.compile(r"\{(try_number|asset_id)\}"), re.compile(r"\{[^}]*\}")
#: The least role that a route of Sluice's API serves.
SLUICE_SERVES: dict[tuple[str, str], Role] = {
    ("GET", "/api/v1/openapi.json"): VIEWER,
    ("GET", "/metrics"): VIEWER,
    ("GET", "/api/v1/tasks"): VIEWER,
    ("POST", "/api/v1/tasks"): USER,
    ("POST", "/api/v1/diff"): VIEWER,
    ("POST", "/api/v1/test"): VIEWER,
    ("POST", "/api/v1/tasks/{name}:pause"): USER,
    ("POST", "/api/v1/tasks/{name}:resume"): USER,
    ("GET", "/api/v1/tasks/{name}/history"): VIEWER,
    ("GET", "/api/v1/tasks/{name}/grouping"): VIEWER,
    ("GET", "/api/v1/tasks/{name}/hotkeys"): VIEWER,
    ("GET", "/api/v1/tasks/{name}/lines"): USER,
    ("GET", "/api/v1/tasks/{name}/results"): VIEWER,
    ("GET", "/api/v1/tasks/{name}/events"): VIEWER,
    ("GET", "/api/v1/events"): VIEWER,
    ("POST", "/api/v1/tasks/{name}/test"): VIEWER,
    ("GET", "/api/v1/tasks/{name}"): VIEWER,
    ("PUT", "/api/v1/tasks/{name}"): USER,
    ("DELETE", "/api/v1/tasks/{name}"): USER,
    ("GET", "/api/v1/lists"): VIEWER,
    ("GET", "/api/v1/lists/{name}"): VIEWER,
    ("PUT", "/api/v1/lists/{name}"): USER,
    ("DELETE", "/api/v1/lists/{name}"): USER,
    ("GET", "/api/v1/topics"): VIEWER,
    ("GET", "/api/v1/topics/{name}"): VIEWER,
    ("PUT", "/api/v1/topics/{name}"): USER,
    ("DELETE", "/api/v1/topics/{name}"): USER,
    ("GET", "/api/v1/topics/{name}/rebuilds"): VIEWER,
    ("GET", "/api/v1/topics/{name}/rebuilds/plan"): VIEWER,
    ("POST", "/api/v1/topics/{name}/rebuilds"): USER,
    ("GET", "/api/v1/lag"): VIEWER,
    ("GET", "/api/v1/sql/statements"): VIEWER,
    ("DELETE", "/api/v1/sql/statements/{statement}"): VIEWER,
    ("POST", "/api/v1/sql/password"): VIEWER,
    ("GET", "/console/statements"): VIEWER,
    ("POST", "/console/statements/password"): VIEWER,
    ("GET", "/console/topics"): VIEWER,
    ("GET", "/console/topics/{name}/delete"): USER,
    ("POST", "/console/topics/{name}/delete"): USER,
    ("GET", "/console/topics/{name}/rebuilds"): VIEWER,
    ("POST", "/console/topics/{name}/rebuilds"): USER,
    ("GET", "/console/topics/parts/rebuilds/{name}"): VIEWER,
    ("POST", "/console/statements/{statement}/cancel"): VIEWER,
    ("GET", "/api/v1/history"): VIEWER,
    ("GET", "/api/v1/placement/plan"): VIEWER,
    ("GET", "/console/static/{digest}/{name}"): VIEWER,
    ("GET", "/console/"): VIEWER,
    ("GET", "/console/parts/newest"): VIEWER,
    ("GET", "/console/charts"): VIEWER,
    ("GET", "/console/charts/data"): VIEWER,
    ("GET", "/console/dashboards"): VIEWER,
    ("POST", "/console/dashboards"): VIEWER,
    ("GET", "/console/dashboards/pin"): VIEWER,
    ("POST", "/console/dashboards/pin"): VIEWER,
    ("GET", "/console/dashboards/{number}"): VIEWER,
    ("GET", "/console/dashboards/{number}/edit"): VIEWER,
    ("POST", "/console/dashboards/{number}/edit"): VIEWER,
    ("POST", "/console/dashboards/{number}/duplicate"): VIEWER,
    ("GET", "/console/dashboards/{number}/delete"): VIEWER,
    ("POST", "/console/dashboards/{number}/delete"): VIEWER,
    ("GET", "/console/lines"): USER,
    ("GET", "/console/statistics"): VIEWER,
    ("GET", "/console/statistics/new"): USER,
    ("GET", "/console/statistics/task/{name}/edit"): USER,
    ("POST", "/console/statistics/draft"): USER,
    ("POST", "/console/statistics/review"): USER,
    ("POST", "/console/statistics/save"): USER,
    ("GET", "/console/statistics/task/{name}"): VIEWER,
    ("GET", "/console/statistics/parts/backfills/{name}"): VIEWER,
    ("POST", "/console/statistics/task/{name}/pause"): USER,
    ("POST", "/console/statistics/task/{name}/resume"): USER,
    ("GET", "/console/statistics/task/{name}/delete"): USER,
    ("POST", "/console/statistics/task/{name}/delete"): USER,
    ("POST", "/console/statistics/task/{name}/backfill"): USER,
    ("POST", "/console/statistics/task/{name}/rebuild"): USER,
    ("GET", "/console/quality"): VIEWER,
    ("GET", "/console/quality/day"): VIEWER,
    ("POST", "/console/quality/day"): USER,
    ("GET", "/console/dead"): VIEWER,
    ("GET", "/console/history"): VIEWER,
    ("GET", "/console/platform"): VIEWER,
    ("GET", "/console/platform/now"): VIEWER,
    ("GET", "/console/platform/tables"): VIEWER,
    ("GET", "/console/runbook"): VIEWER,
    ("GET", "/console/{rest:path}"): VIEWER,
}
DAG = "/api/v2/dags/{dag_id}"
RUNS = f"{DAG}/dagRuns"
#: The same of Airflow's API: what docs/security.md promises of each role.
AIRFLOW_SERVES: dict[tuple[str, str], Role] = {
    ("GET", "/api/v2/dags"): VIEWER,
    ("GET", DAG): VIEWER,
    ("PATCH", DAG): USER,
    ("DELETE", DAG): USER,
    ("GET", RUNS): VIEWER,
    ("POST", RUNS): USER,
    ("PATCH", f"{RUNS}/{{dag_run_id}}"): USER,
    ("DELETE", f"{RUNS}/{{dag_run_id}}"): USER,
    ("POST", f"{RUNS}/{{dag_run_id}}/clear"): USER,
    ("POST", f"{DAG}/clearTaskInstances"): USER,
    ("GET", f"{RUNS}/{{dag_run_id}}/taskInstances/{{task_id}}/logs/{{try_number}}"): VIEWER,
    ("POST", "/api/v2/backfills"): USER,
    ("GET", "/api/v2/connections"): OP,
    ("POST", "/api/v2/connections"): OP,
    ("GET", "/api/v2/connections/{connection_id}"): OP,
    ("PATCH", "/api/v2/connections/{connection_id}"): OP,
    ("DELETE", "/api/v2/connections/{connection_id}"): OP,
    ("GET", "/api/v2/variables"): OP,
    ("POST", "/api/v2/variables"): OP,
    ("GET", "/api/v2/variables/{variable_key:path}"): OP,
    ("PATCH", "/api/v2/variables/{variable_key:path}"): OP,
    ("DELETE", "/api/v2/variables/{variable_key:path}"): OP,
    ("GET", "/api/v2/pools"): VIEWER,
    ("POST", "/api/v2/pools"): OP,
    ("PATCH", "/api/v2/pools/{pool_name:path}"): OP,
    ("DELETE", "/api/v2/pools/{pool_name:path}"): OP,
    ("GET", "/api/v2/assets"): VIEWER,
    ("POST", "/api/v2/assets/events"): OP,
    ("DELETE", "/api/v2/assets/{asset_id}/queuedEvents"): OP,
    ("GET", "/api/v2/importErrors"): VIEWER,
    ("GET", "/api/v2/eventLogs"): VIEWER,
}
Logins = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def http(stack: Settings) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.airflow.url, timeout=120, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def logins(stack: Settings, http: httpx.Client) -> Iterator[Logins]:
    """The headers of a user of each role, and of nobody."""
    users, made = Users(stack), {NOBODY: {}}
    with ExitStack() as stack_of_users:
        for role in ROLES:
            name = f"{role}-{uuid.uuid4().hex[:8]}"
            login = {"username": name, "password": users.add(name, role)}
            stack_of_users.callback(users.remove, name)
            token = http.post("/auth/token", json=login).json()["access_token"]
            made[role] = {"Authorization": f"Bearer {token}"}
        yield made


def served(http: httpx.Client, login: dict[str, str], method: str, path: str) -> int:
    """The status of a request for something that does not exist, with a body that holds nothing."""
    place = NAME.sub("no-such-thing", NUMBER.sub("-1", path))
    body = {} if method in ("POST", "PUT", "PATCH") else None
    with http.stream(method, place, json=body, headers=login) as answer:  # that of events has no end
        assert answer.status_code < 500, (method, place, answer.read()[:300])
        return answer.status_code


def least(http: httpx.Client, logins: Logins, method: str, path: str) -> str:
    """The least role that is served there; asserts that the higher ones are, and how others are refused."""
    said = {who: served(http, login, method, path) for who, login in logins.items()}
    assert said[NOBODY] == 401, (method, path, said)
    may = [role for role in ROLES if said[role] not in SAYS_NO]
    assert tuple(may) == ROLES[len(ROLES) - len(may) :], (method, path, said)
    assert {said[role] for role in ROLES if role not in may} <= {403}, (method, path, said)
    return may[0] if may else "none"


def test_every_route_of_sluice_s_api_serves_the_roles_that_it_should(
    http: httpx.Client, logins: Logins
) -> None:
    routes = sluice_routes()
    assert len(routes) == len(set(routes))
    found = {(method, path): least(http, logins, method, SLUICE + path) for method, path in routes}
    assert found == SLUICE_SERVES


def test_airflow_s_main_routes_serve_the_roles_that_the_page_says(http: httpx.Client, logins: Logins) -> None:
    assert set(AIRFLOW_SERVES) <= set(airflow_routes())
    found = {(method, path): least(http, logins, method, path) for method, path in AIRFLOW_SERVES}
    assert found == AIRFLOW_SERVES


def test_live_lines_are_not_for_viewers(http: httpx.Client, logins: Logins) -> None:
    task = {"name": "tried", "topic": "logs", "period": "1m", "metrics": ["count"]}
    given, live = {"task": task, "lines": [line().decode()]}, {"task": task}
    for role in ROLES:
        tried = http.post(f"{SLUICE}/api/v1/test", json=given, headers=logins[role])
        assert tried.status_code == 200, (role, tried.text)
        tried = http.post(f"{SLUICE}/api/v1/test", json=live, headers=logins[role])
        assert tried.status_code == (403 if role == VIEWER else 200), (role, tried.text)


def test_nobody_s_right_outlives_the_user(stack: Settings, http: httpx.Client) -> None:
    users, name = Users(stack), f"gone-{uuid.uuid4().hex[:8]}"
    password = users.add(name, ADMIN)

    def logged_in() -> dict[str, str]:
        token = http.post("/auth/token", json={"username": name, "password": password}).json()["access_token"]
        return {"Authorization": f"Bearer {token}"}

    def minted(headers: dict[str, str]) -> dict[str, str]:
        token = http.post("/ui/auth/token", json={}, headers=headers).json()["access_token"]
        return {"Authorization": f"Bearer {token}"}

    first = logged_in()
    tokens = [first, minted(first)]
    assert [http.get("/api/v2/connections", headers=each).status_code for each in tokens] == [200] * 2
    users.set_role(name, VIEWER)
    viewer = logged_in()
    tokens += [viewer, minted(viewer)]
    assert [http.get("/api/v2/dags", headers=each).status_code for each in tokens] == [401, 401, 200, 200]
    assert http.get("/api/v2/connections", headers=viewer).status_code == 403
    http.get("/api/v2/auth/logout", headers=viewer)
    tokens.append(logged_in())
    assert [http.get("/api/v2/dags", headers=each).status_code for each in tokens[2:]] == [401, 401, 200]
    password = users.set_password(name)
    tokens.append(logged_in())
    assert [http.get("/api/v2/dags", headers=each).status_code for each in tokens[4:]] == [401, 200]
    users.remove(name)
    password = users.add(name, ADMIN)  # another person
    assert {http.get("/api/v2/dags", headers=each).status_code for each in tokens} == {401}
    users.remove(name)
