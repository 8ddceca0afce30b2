"""`Client`: tasks, results, events and SQL of one platform, in the name of one user."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote, urlsplit

import pyarrow as pa

from sluice.client import listening
from sluice.client.errors import Refused, SluiceError
from sluice.client.models import Event, Task
from sluice.client.result_stream import ABOUT, Rows
from sluice.client.session import Session
from sluice.client.sql import Sql

#: The most rows that the server gives in an answer, and in a sorted one with those before it.
MOST_ROWS, MOST_SORTED = 10_000_000, 100_000
ARROW = "application/vnd.apache.arrow.stream"

#: A day or a time: ISO 8601, a date, a datetime (UTC unless it has a zone), or ms since 1970.
Moment = str | int | date | datetime
#: Conditions: {dimension: value or values}, or texts such as "status=404", "path^=/img/", "path~=[.]png$".
Where = Mapping[str, str | Sequence[str]] | Sequence[str] | str


class Client:
    """A platform, by the address of Airflow's pages, such as http://127.0.0.1:21080.

    It logs in with its first request. `sql_port` is the SQL endpoint's, which `sluice status` shows; without
    it there is no `sql`. `patience`: for how many seconds a busy server is asked again. `authority`: the file
    of the authority, if the address begins with https and this system does not know it. The SQL endpoint
    speaks TLS if the address begins with https; `sql_tls` says otherwise. Everything raises subclasses of
    `SluiceError`. A client is used by one thread at a time.
    """

    def __init__(
        self,
        url: str,
        user: str,
        password: str,
        *,
        sql_port: int | None = None,
        sql_host: str | None = None,
        database: str = "sluice",
        patience: float = 30.0,
        authority: str | None = None,
        sql_tls: bool | None = None,
    ) -> None:
        self._session = Session(url, user, password, patience, authority)
        host = sql_host or urlsplit(url).hostname or ""
        secured = url.startswith("https:") if sql_tls is None else sql_tls
        tls = ssl.create_default_context(cafile=authority) if secured and sql_port is not None else None
        self._sql = None if sql_port is None else Sql(host, sql_port, user, password, database, tls=tls)

    def tasks(self) -> list[Task]:
        """The tasks there are, by name."""
        return [Task.of(each) for each in self._session.get("/tasks").json()]

    def results(self, task: str, **asked: Any) -> pa.Table:
        """What a task counted: a row for each period and series; `to_pandas()` makes a data frame of it.

        The keywords are those of `batches`. `about(table)` says where each period came from.
        """
        with self._rows(task, asked) as rows:
            table = pa.Table.from_batches(list(rows), rows.schema).unify_dictionaries()
            return table.replace_schema_metadata({ABOUT: json.dumps(rows.about)})

    def batches(self, task: str, **asked: Any) -> Iterator[pa.RecordBatch]:
        """The same rows as they come, in batches, for more than fits into memory.

        since, until: a `Moment`; periods that start in [since, until).
        version: a version of the task; default: the current one.
        where: conditions, see `Where`.
        metrics: only these.
        top: "10:sum": only the 10 series with the largest sum; the others of a period are one, whose
          dimensions are null.
        rollup: dimensions to keep ("total": none), and a coarser period ("1h", "1d", "all").
        sort: columns; "sum:desc" has the largest first.
        limit, offset: a page. Without a limit all rows come.
        """
        with self._rows(task, asked) as rows:
            yield from rows

    def events(self, *tasks: str) -> Iterator[Event]:
        """When these tasks (none: all) have newer numbers, for ever.

        The first events say how things stand. It connects again after a break.
        """
        return listening.events(self._session, tasks)

    def sql(self, statement: str) -> pa.Table:
        """The answer to one SQL statement."""
        if self._sql is None:
            raise SluiceError("the client has no sql_port: give it the port of `sql` in `sluice status`")
        return self._sql.query(statement)

    def close(self) -> None:
        self._session.close()
        if self._sql is not None:
            self._sql.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _rows(self, task: str, asked: Mapping[str, Any]) -> Iterator[Rows]:
        parameters = _parameters(asked)
        headers = {"Accept": ARROW, "Accept-Encoding": "identity"}
        path = f"/tasks/{quote(task, safe='')}/results"
        with self._session.get(path, parameters, headers, stream=True) as answer:
            rows = Rows(answer)
            yield rows
            if rows.about.get("next") and asked.get("limit") is None:
                most = f"more than {parameters['limit']:,} rows"
                raise Refused(f"{task} has {most} here: ask for less time, or give a limit")


def about(table: pa.Table) -> dict[str, Any]:
    """What the server said of a table of results: `task`, `columns`, `periods` and `next`."""
    return cast(dict[str, Any], json.loads((table.schema.metadata or {}).get(ABOUT, b"{}")))


def _parameters(asked: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in asked.items() if value is not None}
    most = max(1, MOST_SORTED - given.get("offset", 0)) if given.get("sort") else MOST_ROWS
    given.setdefault("limit", most)
    for name in {"since", "until"} & given.keys():
        given[name] = _moment(given[name])
    for name in {"where"} & given.keys():
        given[name] = _conditions(given[name])
    for name in {"metrics", "rollup", "sort"} & given.keys():
        given[name] = given[name] if isinstance(given[name], str) else list(given[name])
    return given


def _moment(value: Moment) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _conditions(where: Where) -> list[str]:
    if isinstance(where, str):
        return [where]
    if not isinstance(where, Mapping):
        return list(where)
    named = {name: [given] if isinstance(given, str) else given for name, given in where.items()}
    return [f"{name}={value}" for name, values in named.items() for value in values]
