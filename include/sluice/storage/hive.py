"""A thin store over the SQL endpoint, Spark Thrift Server: queries, tables and partitions.

It uses PyHive. Text in a statement can come from anyone who can send a request to a web server, so values are
never pasted into SQL: they are bound, and rendered by `literal`.
"""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pyhive import exc, hive
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException
from thrift_sasl import TSaslClientTransport

from sluice.runtime.sections import Hive as Where
from sluice.runtime.settings import Settings

SQL = Path(__file__).parent / "sql"
DATABASE = SQL / "1_create_database.sql"
# Columns that were added to a table later: CREATE TABLE IF NOT EXISTS does not add them to an older table. In
# older partitions they are null.
LATER_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "raw_files": {
        "forged": "BOOLEAN",
        "line_in_record": "INT",
        "unreadable": "STRING",
        "last_offset": "BIGINT",
    },
    "logs": {"line_in_record": "INT"},
    "task_results": {"texts": "MAP<STRING, STRING>", "errors": "MAP<STRING, DOUBLE>"},
}
CREATES = re.compile(r"\d+_create_(\w+)\.sql")
OWN = frozenset(found[1] for path in SQL.iterdir() if (found := CREATES.fullmatch(path.name)))
#: The table whose property names the catalogue, at random: `stack.health` asks for it.
MARKED, MARK = "logs", "sluice.catalogue"
# Rows in each round trip. With PyHive's own 1,000, half of the time is spent waiting.
FETCH_ROWS = 10_000
# "[CLASS] org.apache.spark.sql.SomeException: [CLASS] what happened", then the plan, the SQL or a stack.
NOISE_BEFORE = re.compile(r"\A(\[[A-Z_.0-9]+\] )?([a-z]\w*\.)+\w+(Exception|Error): ")
NOISE_AFTER = re.compile(r";?\n'|\n\s*== SQL|\n\s+at ")

Value = str | int | float | bool | date | datetime | None


#: The endpoint's message about a table that is not there, whatever its database.
MISSING = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (`.+?`) cannot be found")
#: Views that sluice.sql.keeper keeps: all results, and those of a task.
KEPT = re.compile(r"results|v_\w+")


class SqlUnavailable(ConnectionError):
    """The SQL endpoint does not answer."""


class SqlFailed(RuntimeError):
    """The SQL endpoint refused a statement."""

    def __init__(self, sql: str, message: str) -> None:
        super().__init__(f"{message}\n  in: {' '.join(sql.split())[:300]}")


@dataclass(frozen=True)
class SqlRows:
    """A query's answer; timestamps are in UTC, maps and arrays are JSON text."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def scalar(self) -> Any:
        return self.rows[0][0]


class Hive:
    """One session at the SQL endpoint, opened when first needed; used by one thread at a time.

    tables: whether to be in the platform's database, which is made if it is missing.
    """

    def __init__(self, settings: Settings, *, tables: bool = True) -> None:
        self.settings = settings
        self._tables = tables
        self._connection: Any = None

    def query(self, sql: str, params: Mapping[str, Value] | None = None) -> SqlRows:
        """Run one statement, with ``%(name)s`` for a bound value.

        If any values are bound, ``%%`` stands for %. Raises SqlFailed, SqlUnavailable.
        """
        text = sql % {name: literal(value) for name, value in params.items()} if params else sql
        cursor = self._cursor(text)
        try:
            if cursor.description is None:
                return SqlRows([], [])
            return SqlRows([column[0] for column in cursor.description], cursor.fetchall())
        except exc.Error as error:
            raise SqlFailed(text, self._reason(error)) from error
        finally:
            cursor.close()

    def ensure_tables(self) -> None:
        """Create the missing database, tables and columns, and the mark by which the catalogue is known."""
        for path in sorted(SQL.glob("*.sql")):
            self.query(self._script(path))
            table = CREATES.fullmatch(path.name)
            if table and (columns := LATER_COLUMNS.get(table[1])):  # before a view asks for them
                self._add_columns(f"{self.settings.hive.database}.{table[1]}", columns)
        marked = f"{self.settings.hive.database}.{MARKED}"
        if MARK not in dict(self.query(f"SHOW TBLPROPERTIES {marked}").rows):
            self.query(f"ALTER TABLE {marked} SET TBLPROPERTIES ('{MARK}' = '{secrets.token_hex(8)}')")

    def columns(self, table: str) -> set[str]:
        """The names of a table's columns."""
        return {str(name) for (name,) in self.query(f"SHOW COLUMNS IN {table}").rows}

    def partitions(self, table: str) -> set[tuple[str, date]]:
        """The topic and day of each of a table's partitions."""
        rows = self.query(f"SHOW PARTITIONS {self.settings.hive.database}.{table}").rows
        names = (dict(part.split("=", 1) for part in name.split("/")) for (name,) in rows)
        return {(each["topic"], date.fromisoformat(each["day"])) for each in names}

    def days(self, table: str, topic: str) -> set[date]:
        """The days of which a table has a partition of that topic."""
        name = f"{self.settings.hive.database}.{table}"
        rows = self.query(f"SHOW PARTITIONS {name} PARTITION (topic = %(topic)s)", {"topic": topic}).rows
        return {date.fromisoformat(each.rpartition("day=")[2]) for (each,) in rows}

    def set_partition(self, table: str, topic: str, day: date, location: str) -> None:
        """Point a table's partition of that topic and day to the directory `location`.

        The metastore replaces the partition's data in one step, so a reader sees the old data or the new.
        """
        self.add_partition(table, topic, day, location)
        target = f"{self.settings.hive.database}.{table}"
        values = {"topic": topic, "day": day.isoformat(), "location": location}
        partition = "PARTITION (topic = %(topic)s, day = %(day)s)"
        self.query(f"ALTER TABLE {target} {partition} SET LOCATION %(location)s", values)

    def add_partition(self, table: str, topic: str, day: date, location: str) -> None:
        """As `set_partition`, but a partition that is there stays as it is."""
        target = f"{self.settings.hive.database}.{table}"
        values = {"topic": topic, "day": day.isoformat(), "location": location}
        partition = "PARTITION (topic = %(topic)s, day = %(day)s)"
        self.query(f"ALTER TABLE {target} ADD IF NOT EXISTS {partition} LOCATION %(location)s", values)

    def drop_partition(self, table: str, topic: str, day: date) -> None:
        """Forget a table's partition of that topic and day, if there is one; its files stay."""
        target = f"{self.settings.hive.database}.{table}"
        partition = "PARTITION (topic = %(topic)s, day = %(day)s)"
        self.query(
            f"ALTER TABLE {target} DROP IF EXISTS {partition}", {"topic": topic, "day": day.isoformat()}
        )

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may be gone, or an answer half read (Ctrl-C)
                connection.close()

    def __enter__(self) -> Hive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_columns(self, table: str, columns: Mapping[str, str]) -> None:
        there = self.columns(table)
        missing = {name: kind for name, kind in columns.items() if name not in there}
        if not missing:
            return
        added = ", ".join(f"{name} {kind}" for name, kind in missing.items())
        try:
            self.query(f"ALTER TABLE {table} ADD COLUMNS ({added})")
        except SqlFailed:  # if two bring-ups run at once, the other may have added them first
            if not missing.keys() <= self.columns(table):
                raise

    def _cursor(self, text: str) -> Any:
        """Run the statement and return its cursor; reconnect if the connection has broken."""
        if self._connection is not None:
            try:
                return self._execute(text)
            except (TTransportException, OSError):
                self.close()
        try:
            return self._execute(text)
        except SqlUnavailable:
            raise
        except (TTransportException, OSError) as error:
            self.close()
            raise self._unavailable(error) from error

    def _execute(self, text: str) -> Any:
        cursor = self._connect().cursor(arraysize=FETCH_ROWS)
        try:
            cursor.execute(text)
        except exc.Error as error:
            raise SqlFailed(text, self._reason(error)) from error
        return cursor

    def _connect(self) -> Any:
        if self._connection is None:
            where = self.settings.hive
            try:
                self._connection = connect(where, configuration={"spark.sql.session.timeZone": "UTC"})
                if self._tables:
                    with contextlib.closing(self._connection.cursor()) as cursor:
                        cursor.execute(self._script(DATABASE))
                        cursor.execute(f"USE {where.database}")
            except (TException, OSError, exc.Error) as error:
                self.close()
                raise self._unavailable(error) from error
        return self._connection

    def _script(self, path: Path) -> str:
        return path.read_text().format(
            database=self.settings.hive.database,
            warehouse=self.settings.hdfs.namenode + self.settings.hdfs.warehouse,
            raw=self.settings.hdfs.namenode + self.settings.hdfs.raw,
        )

    def _reason(self, error: Exception) -> str:
        """What the server says; if a table of the platform is missing, which one and how to get it back."""
        reason = _reason(error)
        found = MISSING.match(reason)
        *database, table = found[1].strip("`").split("`.`")[-2:] if found else [""]
        if database not in ([], [self.settings.hive.database]):
            return reason
        if table in OWN:
            return f"the table {table} is missing; `sluice up` makes it again, with all that was computed"
        if KEPT.fullmatch(table):
            return f"the view {table} is missing; if there is such a task, it is back within five minutes"
        return reason

    def _unavailable(self, error: Exception) -> SqlUnavailable:
        where = self.settings.hive
        return SqlUnavailable(
            f"the SQL endpoint at {where.host}:{where.port} does not answer ({str(error)[:200]}); "
            "see `sluice status` and `sluice logs sql`"
        )


class TlsSocket(TSocket):  # type: ignore[misc] # Thrift has no types
    """A connection over TLS; its certificate must be of the endpoint's authority, and for its host."""

    handle: Any

    def __init__(self, where: Where) -> None:
        super().__init__(where.host, where.port)
        self._context = ssl.create_default_context(cafile=where.root_certificate)

    def open(self) -> None:
        """Raises TTransportException."""
        super().open()
        try:
            self.handle = self._context.wrap_socket(self.handle, server_hostname=self.host)
        except OSError as error:
            self.close()
            raise TTransportException(TTransportException.NOT_OPEN, f"TLS: {error}", error) from error


def connect(where: Where, seconds: float | None = None, **options: Any) -> Any:
    """A PyHive connection to the SQL endpoint; an answer may take `seconds` (None: no limit)."""
    plain = TlsSocket(where) if where.root_certificate else TSocket(where.host, where.port)
    if seconds is not None:
        plain.setTimeout(int(seconds * 1000))
    if where.auth == "NOSASL":
        transport: Any = TBufferedTransport(plain)
    else:
        login = where.user, where.password or "x"  # SASL PLAIN needs one even if the server does not
        client = functools.partial(hive.get_pure_sasl_client, where.host, "PLAIN", "hive", *login)
        transport = TSaslClientTransport(client, "PLAIN", plain)
    return hive.connect(thrift_transport=transport, username=where.user, **options)


def literal(value: Value) -> str:
    """The value as a SQL literal that no text can break out of.

    All characters except ASCII letters, digits and a few marks are escaped. These include quotes and
    backslashes, and also the ``${...}`` that Spark would replace by a variable of the server before it parses
    the statement.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            text = "TRUE" if value else "FALSE"
        case int():
            text = str(value)
        case float():
            text = f"CAST('{value!r}' AS DOUBLE)"
        case datetime():
            text = f"TIMESTAMP '{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
        case date():
            text = f"DATE '{value.isoformat()}'"
        case str():
            text = "'" + "".join(map(_character, value)) + "'"
    return text


def _character(c: str) -> str:
    if c.isascii() and (c.isalnum() or c in " _-.,:/=+"):
        return c
    units = c.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _reason(error: Exception) -> str:
    """The server's message without the exception's class, the query plan and the stack trace."""
    status = getattr(error.args[0], "status", None) if error.args else None
    message = str(getattr(status, "errorMessage", None) or error).removeprefix("Error running query: ")
    message = NOISE_BEFORE.sub("", message)
    return NOISE_AFTER.split(message, maxsplit=1)[0].strip()[:2000]
