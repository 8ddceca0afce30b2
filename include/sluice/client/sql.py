"""Statements for the SQL endpoint, over PyHive, with Arrow tables as answers."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pyarrow as pa

from sluice.client.errors import SqlFailed, Unreachable

#: Rows in each round trip.
FETCH_ROWS = 10_000
_TYPES = {
    "BOOLEAN_TYPE": pa.bool_(),
    "TINYINT_TYPE": pa.int8(),
    "SMALLINT_TYPE": pa.int16(),
    "INT_TYPE": pa.int32(),
    "BIGINT_TYPE": pa.int64(),
    "FLOAT_TYPE": pa.float32(),
    "DOUBLE_TYPE": pa.float64(),
    "DATE_TYPE": pa.date32(),
    "TIMESTAMP_TYPE": pa.timestamp("us", tz="UTC"),
    "BINARY_TYPE": pa.binary(),
}


class Sql:
    """One session at the endpoint, opened when first needed.

    tls: how the endpoint's certificate is checked; None: it has none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        user: str,
        password: str,
        database: str,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host, self._port, self._user, self._password = host, port, user, password
        self._database, self._tls = database, tls
        self._connection: Any = None

    def query(self, statement: str) -> pa.Table:
        """The answer; times are in UTC, maps and arrays JSON text. Raises SqlFailed and Unreachable."""
        from pyhive import exc
        from thrift.Thrift import TException

        connection = self._connected()
        try:
            with closing(connection.cursor(arraysize=FETCH_ROWS)) as cursor:
                cursor.execute(statement)
                return _table(cursor)
        except exc.Error as error:
            raise SqlFailed(_reason(error)) from error
        except (TException, OSError) as error:
            self.close()
            raise self._unreachable(error) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is gone already
                connection.close()

    def _connected(self) -> Any:
        from pyhive import exc, hive
        from thrift.Thrift import TException

        if self._connection is None:
            try:
                self._connection = hive.connect(
                    thrift_transport=self._transport(),
                    username=self._user,
                    database=self._database,
                    configuration={"spark.sql.session.timeZone": "UTC"},
                )
            except (TException, OSError, exc.Error) as error:
                raise self._unreachable(error) from error
        return self._connection

    def _transport(self) -> Any:
        """As PyHive makes it, but TLS, for which it has no setting."""
        from pyhive import hive
        from thrift.transport.TSocket import TSocket
        from thrift_sasl import TSaslClientTransport

        plain = TSocket(self._host, self._port)
        if self._tls is not None:
            plain.open()
            plain.setHandle(self._tls.wrap_socket(plain.handle, server_hostname=self._host))
        login = self._user, self._password
        client = partial(hive.get_installed_sasl, self._host, "PLAIN", "hive", *login)
        return TSaslClientTransport(client, "PLAIN", plain)

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"the SQL endpoint at {self._host}:{self._port} does not answer, or refuses the user or the "
            f"password: {str(error)[:300]}"
        )


def _table(cursor: Any) -> pa.Table:
    """All rows of a cursor."""
    described = cursor.description or []
    schema = [(str(name), _TYPES.get(kind)) for name, kind, *_ in described]
    columns: list[list[Any]] = [[] for _ in schema]
    while described and (rows := cursor.fetchmany(FETCH_ROWS)):
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.extend(values)
    arrays = [_array(values, kind) for values, (_, kind) in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in schema])


def _array(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    if kind is None:  # texts, maps and arrays as JSON; decimals have a type of their own
        texts = all(value is None or isinstance(value, str) for value in values)
        return pa.array(values, pa.string() if texts else None)
    if pa.types.is_date(kind):  # PyHive leaves it a text
        return pa.array([None if value is None else str(value) for value in values], pa.string()).cast(kind)
    return pa.array(values, kind)


def _reason(error: Exception) -> str:
    status = getattr(error.args[0], "status", None) if error.args else None
    message = str(getattr(status, "errorMessage", None) or error)
    return message.removeprefix("Error running query: ").split("\n\tat ", 1)[0].strip()[:2000]
