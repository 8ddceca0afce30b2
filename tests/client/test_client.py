"""The client against the API behind a real server, with layers in memory (the stack: test_client_live.py).

That it logs in, waits and names errors is `session`; the answers' types are `models` and `result_stream`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from sluice.client import (
    Broken,
    Busy,
    Client,
    Event,
    LoginRefused,
    NotFound,
    Refused,
    SluiceError,
    Unreachable,
    about,
)
from sluice.client.sql import _table
from sluice.results.reader import read
from sluice.runtime.settings import ROOT
from sluice.tasks import parse_documents
from sluice.tasks.store import TaskStore
from tests.plugins.application import Login
from tests.plugins.served import served
from tests.plugins.test_events import Watched
from tests.plugins.test_results import GIVEN
from tests.plugins.test_told import look
from tests.results.questions import DAY_NUMBER, FIRST, SKETCHED, query, stored, task
from tests.results.stored import DAY, Stored

PASSWORD = "right"


class Server:
    """The API below /sluice, a log-in, and how often somebody logged in."""

    def __init__(self, api: Any, login: Login) -> None:
        self.login, self.log_ins, self.busy = login, 0, 0
        routes = [Route("/auth/token", self._log_in, methods=["POST"]), Mount("/sluice", self._guarded)]
        self.app, self._api = Starlette(routes=routes), api

    async def _log_in(self, request: Request) -> Response:
        given = await request.json()
        if given["password"] != PASSWORD:
            return JSONResponse({"detail": "the user or the password is wrong"}, 401)
        self.log_ins += 1
        self.login.as_("viewer", given["username"])
        return JSONResponse({"access_token": f"token-{self.log_ins}"}, 201)

    async def _guarded(self, scope: Any, receive: Any, send: Any) -> None:
        if self.busy:
            self.busy -= 1
            answer = JSONResponse({"detail": "too many"}, 503, {"Retry-After": "0"})
            await answer(scope, receive, send)
        else:
            await self._api(scope, receive, send)


@pytest.fixture
def layers(client: Any) -> Stored:
    from sluice_airflow.api import stores

    own = replace(stored(task(SKETCHED), GIVEN, frozenset({DAY_NUMBER})), block_bytes=3_000)
    client.app.dependency_overrides[stores.layers] = lambda: own
    return own


@pytest.fixture
def server(client: Any, login: Login, layers: Stored) -> Server:
    return Server(client.app, login)


class Door:
    """Leads to the app of the test that runs: a server for each test would take longer than the tests."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[Door, str]]:
    made = Door()
    with served(made) as at:
        yield made, at


@pytest.fixture
def address(door: tuple[Door, str], server: Server) -> str:
    door[0].app = server.app
    return door[1]


@pytest.fixture
def ann(address: str) -> Iterator[Client]:
    with Client(address, "ann", PASSWORD, patience=3) as made:
        yield made


def test_results_are_a_table(ann: Client, layers: Stored, server: Server) -> None:
    found = ann.results("sample")
    assert found.to_pylist() == read(layers, query())[0].table().to_pylist()
    assert len(found.to_pandas()) == 60
    assert about(found)["task"]["name"] == "sample"
    assert [each["state"] for each in about(found)["periods"]] == ["final", "open"]
    ann.results("sample")
    assert server.log_ins == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"since": date(2015, 5, 18)}, {"since": FIRST + DAY}),
        ({"since": datetime(2015, 5, 18, tzinfo=UTC)}, {"since": FIRST + DAY}),
        ({"since": FIRST + DAY, "until": "2015-05-19"}, {"since": FIRST + DAY, "until": FIRST + 2 * DAY}),
        ({"rollup": "client,1d"}, {"dimensions": ("client",), "period": "1d"}),
        ({"rollup": ["total", "all"]}, {"dimensions": (), "period": "all"}),
        ({"metrics": ["count", "sum"]}, {"metrics": ("count", "sum")}),
        ({"limit": 5, "offset": 3}, {"limit": 5, "offset": 3}),
        ({"version": None, "where": None}, {}),
    ],
)
def test_keywords_ask_what_a_query_asks(
    ann: Client, layers: Stored, asked: dict[str, Any], fields: dict[str, Any]
) -> None:
    wanted = read(layers, query(**fields))[0].table().to_pylist()
    assert ann.results("sample", **asked).to_pylist() == wanted
    assert [row for batch in ann.batches("sample", **asked) for row in batch.to_pylist()] == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["client=c1", ["client=c1"], {"client": "c1"}, {"client": ["c1"]}, {"client": ("c1", "none")}]
)
def test_conditions_may_be_written_in_several_ways(ann: Client, where: Any) -> None:
    assert set(ann.results("sample", where=where).column("client").to_pylist()) == {"c1"}


@pytest.mark.slow
def test_sorted_results_and_hostile_values_come_as_they_are(ann: Client, layers: Stored) -> None:
    sums = ann.results("sample", sort="sum:desc").column("sum").to_pylist()
    assert sums == sorted(sums, reverse=True)
    assert ann.results("sample", where={"path": "/a&limit=1#?%00=+ \u00fc"[:6]}).num_rows == 0
    assert ann.results("sample", where={"path": "/a_b"}).num_rows == 12


def test_an_answer_without_rows_has_its_columns(ann: Client) -> None:
    found = ann.results("sample", since="2031-01-01")
    assert (found.num_rows, "count" in found.column_names, about(found)["periods"]) == (0, True, [])


def test_tasks_say_what_they_count(ann: Client, database: sa.Engine) -> None:
    store = TaskStore(database)
    store.apply([task(SKETCHED).spec], "test")
    (found,) = ann.tasks()
    assert (found.name, found.version, found.period, found.timezone) == ("sample", 1, "1h", "UTC")
    assert found.dimensions == ("client", "path")
    assert list(found.metrics) == SKETCHED
    assert found.description is None


def test_a_task_written_as_sql_says_what_it_counts(ann: Client, database: sa.Engine) -> None:
    text = "SELECT status, count(*) FROM logs GROUP BY status, period('60s', 'Europe/Berlin')"
    store = TaskStore(database)
    store.apply(parse_documents([{"name": "by_status", "description": "Hits", "sql": text}]), "test")
    (found,) = ann.tasks()
    assert (found.name, found.period, found.timezone) == ("by_status", "60s", "Europe/Berlin")
    assert (found.dimensions, found.metrics, found.description) == (("status",), ("count",), "Hits")


def test_errors_have_a_class_and_a_remedy(address: str, ann: Client, layers: Stored) -> None:
    with pytest.raises(Refused, match="has no 'colour': choose of client, path") as refused:
        ann.results("sample", where={"colour": "red"})
    assert refused.value.problems[0]["pointer"] == "/where"
    with pytest.raises(Refused, match="there is no parameter 'wher'"):
        ann.results("sample", wher="client=c1")
    with Client(address, "ann", "wrong") as wrong, pytest.raises(LoginRefused, match="password is wrong"):
        wrong.tasks()
    with (
        Client("http://127.0.0.1:9", "ann", PASSWORD) as nobody,
        pytest.raises(Unreachable, match="does not answer"),
    ):
        nobody.tasks()
    with pytest.raises(SluiceError, match="no sql_port"):
        ann.sql("SELECT 1")
    from sluice.tasks.store import UnknownTask

    def none(*args: Any) -> Any:
        raise UnknownTask("there is no task 'nothing'")

    layers.task = none  # type: ignore[method-assign]
    with pytest.raises(NotFound, match="no task 'nothing'"):
        ann.results("nothing")


@pytest.mark.slow
def test_a_busy_server_is_asked_again_for_a_while(address: str, ann: Client, server: Server) -> None:
    server.busy = 3
    assert ann.results("sample", limit=1).num_rows == 1
    server.busy = 1_000_000
    with Client(address, "ann", PASSWORD, patience=0.1) as hurried, pytest.raises(Busy, match="too many"):
        hurried.tasks()


@pytest.mark.slow
def test_a_token_that_is_too_old_is_replaced(ann: Client, server: Server, login: Login) -> None:
    ann.tasks()
    login.name = None
    assert ann.results("sample", limit=1).num_rows == 1
    assert server.log_ins == 2


def test_more_rows_than_come_at_once_are_no_whole_answer(
    ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.client import client as module

    monkeypatch.setattr(module, "MOST_ROWS", 10)
    with pytest.raises(Refused, match="more than 10 rows"):
        ann.results("sample")
    assert ann.results("sample", limit=10).num_rows == 10


@pytest.mark.parametrize("cut", [0, 10, -30, -400])
def test_an_answer_that_ends_half_way_is_no_answer(login: Login, cut: int) -> None:
    """A server that dies, or one that has sent everything but the last batch."""
    from sluice.results import formats

    own = pa.record_batch({"count": [1, 2, 3]})
    whole = b"".join(formats.arrow(own.schema, [own, own], lambda: {"next": None}))

    async def results(request: Request) -> Response:
        async def pieces() -> Any:
            yield whole[:cut]

        return StreamingResponse(pieces(), media_type="application/vnd.apache.arrow.stream")

    api = Starlette(routes=[Route("/api/v1/tasks/{name}/results", results)])
    with served(Server(api, login).app) as at, Client(at, "ann", PASSWORD) as own_client:
        with pytest.raises(Broken):
            own_client.results("sample")
        with pytest.raises(Broken):
            list(own_client.batches("sample"))


def test_what_is_no_sluice_is_said_to_be_none(login: Login) -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse("<html>")

    api = Starlette(routes=[Route("/api/v1/tasks/{name}/results", page)])
    with served(Server(api, login).app) as at, Client(at, "ann", PASSWORD) as own_client:
        with pytest.raises(Broken, match="no Arrow stream"):
            own_client.results("sample")
        with pytest.raises(NotFound):
            own_client.tasks()


def test_events_go_on_after_breaks_and_log_ins(
    ann: Client, client: Any, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jwt import InvalidTokenError

    from sluice.client import listening
    from sluice_airflow.api import hub, stores

    async def known(token: str) -> Login:
        if login.name is None:
            raise InvalidTokenError
        return login

    login.get_user_from_token = known  # type: ignore[attr-defined]
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(listening.events, "__defaults__", (0.05,))
    watched = Watched()
    own = hub.Hub(watched.look, seconds=0.02)
    client.app.dependency_overrides[stores.hub] = lambda: own
    events = ann.events()
    assert next(events) == Event("commit", "logs", {"hits": 1, "sizes": 3}, commit=1)
    login.name = None  # the session ends; the client logs in again and hears only what is new
    watched.now = look(2, {"hits": 2, "sizes": 1})
    assert next(events) == Event("commit", "logs", {"hits": 1}, commit=2)
    events.close()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["client.md"])
def test_the_page_does_what_it_says(
    page: str, address: str, client: Any, database: sa.Engine, layers: Stored
) -> None:
    """Its Python runs from top to bottom, against this server in place of the one it names."""
    from sluice_airflow.api import hub, stores

    TaskStore(database).apply([task(SKETCHED, name="bytes_by_path").spec], "test")
    looks = replace(look(1, {}), tasks={"bytes_by_path": ("logs", (1, 1))})
    own = hub.Hub(lambda: looks, seconds=0.02)
    client.app.dependency_overrides[stores.hub] = lambda: own
    space: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL):
        ours = block.replace("http://127.0.0.1:21080", address).replace('"PASSWORD"', repr(PASSWORD))
        exec(compile(ours, page, "exec"), space)  # noqa: S102
    assert space["table"].num_rows == len(space["frame"]) > 0
    assert {row["path"] for row in space["images"].to_pylist()} == {"/img/x.png"}
    assert space["rows"] == 60
    assert space["event"].commit == 1


class Cursor:
    """What PyHive gives for a statement."""

    description = [  # noqa: RUF012
        ("n", "BIGINT_TYPE"),
        ("day", "DATE_TYPE"),
        ("name", "STRING_TYPE"),
        ("tags", "MAP_TYPE"),
        ("at", "TIMESTAMP_TYPE"),
    ]

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        rows, self.rows = self.rows[:2], self.rows[2:]
        return rows


def test_sql_answers_have_the_types_that_the_endpoint_says() -> None:
    at = datetime(2015, 5, 17, 10)
    row = (1, "2015-05-17", "a", '{"b": 1}', at)
    found = _table(Cursor([row, (None,) * 5, row]))
    assert found.column("day").to_pylist() == [date(2015, 5, 17), None, date(2015, 5, 17)]
    assert found.column("at").to_pylist()[0] == at.replace(tzinfo=UTC)
    assert [str(each.type) for each in found.schema] == [
        "int64", "date32[day]", "string", "string", "timestamp[us, tz=UTC]",
    ]  # fmt: skip
    assert _table(Cursor([])).schema.names == ["n", "day", "name", "tags", "at"]


@pytest.mark.slow
def test_the_client_imports_nothing_heavy() -> None:
    code = "import sys, sluice.client; print(*{name.split('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = {"airflow", "pyspark", "pandas", "polars", "sqlalchemy", "pyhive", "pydantic", "numba"}
    assert not heavy & set(found.stdout.split())
