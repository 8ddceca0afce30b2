"""A thin store over HBase's Thrift server, with batches of rows and retries.

Every operation here may be repeated (a put writes the same cells again, a delete deletes nothing more). So an
operation that fails on a broken connection, or on a region that is between two servers, is tried again on a
fresh connection until `patience` has passed. After a kill -9 of everything under HBase, its data could be
read again after 21-28 s.

Measured through Thrift: 233 single gets/s, so always batch; `python -m sluice_lab.bench hbase` has the rest.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import happybase
import pyarrow as pa
from Hbase_thrift import AlreadyExists, BatchMutation, Mutation
from Hbase_thrift import IOError as HBaseIOError
from thriftpy2.thrift import TException

from sluice.runtime.backoff import patient
from sluice.runtime.settings import Settings
from sluice.storage import mutations

STATE = "state"
RESULTS = "results"
FINALS = "finals"  # final blocks
STATE_FAMILY = b"s"
RESULT_FAMILY = b"r"
ONLINE = b"r:o"
FINAL = b"r:f"
# The stated errors of these two results; a result without one is exact.
ONLINE_ERROR = b"r:oe"
FINAL_ERROR = b"r:fe"
FINALS_FAMILY = b"f"
FINAL_BLOCK = b"f:b"

#: A scan's filter: cells come without their values.
NAMES_ONLY = "KeyOnlyFilter ()"

BATCH_ROWS = 5_000
# A region server answers a request for rows only until it has touched enough memory, counted by whole blocks
# and chunks, and is then asked for all that is left. After a kill 5,000 scattered rows at once took 40 rounds
# and 50 s; in calls of GET_ROWS they take 27 s, and what was read is kept if a call is given up (SOCKET_MS).
GET_ROWS = 250
# The rows of a scan's first page; after that the size of the rows is known.
FIRST_PAGE = 500
# Thrift frames are built in memory on both sides; a block of state has up to 256 KiB.
BATCH_BYTES = 8 << 20
SOCKET_MS = 30_000
PATIENCE_SECONDS = 120.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
# What the server says if a retry cannot help.
FINAL_ANSWERS = (
    "TableNotFoundException",
    "NoSuchColumnFamilyException",
    "IllegalArgument",
    "TableExistsException",
)
#: What a call over a broken connection raises.
_BROKEN = (OSError, EOFError, TException)

T = TypeVar("T")
Cells = Mapping[bytes, bytes]


class HBaseUnavailable(ConnectionError):
    """HBase's Thrift server did not answer within the store's patience."""

    def __init__(self, address: str, seconds: float, cause: Exception) -> None:
        super().__init__(
            f"HBase's Thrift server at {address} did not answer for {seconds:.0f} s ({type(cause).__name__}: "
            f"{str(cause)[:200]}); see `sluice status` and `sluice logs hbase`"
        )


class HBase:
    """One Thrift connection, used by one thread at a time, opened when first needed."""

    def __init__(
        self, host: str, port: int, *, patience: float = PATIENCE_SECONDS, socket_ms: int = SOCKET_MS
    ) -> None:
        self.host = host
        self.port = port
        self.patience = patience
        self.socket_ms = socket_ms
        self._connection: Any = None
        self._lock = threading.RLock()

    @classmethod
    def of(cls, settings: Settings, *, patience: float = PATIENCE_SECONDS) -> HBase:
        return cls(settings.hbase.host, settings.hbase.port, patience=patience)

    def put(self, table: str, rows: Iterable[tuple[bytes, Cells]], *, timestamp: int | None = None) -> int:
        """Write cells in batches; returns the number of rows.

        With a `timestamp` (ms), newer cells stay. Each batch is built while the previous one is being sent.
        """
        written = 0
        with _without_collector(), ThreadPoolExecutor(1, "hbase-put") as sender:
            under_way: Future[None] | None = None
            for chunk in _chunks(rows):
                batch = [_Row(row, cells) for row, cells in chunk]
                if under_way:
                    under_way.result()
                under_way = sender.submit(self._send, table, batch, timestamp)
                written += len(chunk)
            if under_way:
                under_way.result()
        return written

    def put_table(self, table: str, cells: pa.Table, *, timestamp: int) -> int:
        """Write cells as `put` does, from columns (`mutations.requests`), best sorted by row."""
        for request in mutations.requests(table, cells, timestamp, BATCH_ROWS, BATCH_BYTES):
            self._retry(partial(_send_request, request=request))
        return int(cells.num_rows)

    def rewrite(self, table: str, rows: Iterable[tuple[bytes, Cells, Sequence[bytes]]]) -> None:
        """Write cells and delete other columns of the same rows, in one request.

        The cells are written first.
        """
        self._send(table, [_Row(row, cells, gone) for row, cells, gone in rows], None)

    def get(
        self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] | None = None
    ) -> dict[bytes, dict[bytes, bytes]]:
        """The cells of the rows that exist; `columns` are full names (``s:x``) or a family (``s``)."""
        found: dict[bytes, dict[bytes, bytes]] = {}
        wanted = None if columns is None else list(columns)
        for begin in range(0, len(rows), GET_ROWS):
            chunk = list(rows[begin : begin + GET_ROWS])
            found.update(self._retry(partial(_rows, table=table, rows=chunk, columns=wanted)))
        return {row: cells for row, cells in found.items() if cells}

    def scan(
        self,
        table: str,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        stop: bytes | None = None,
        columns: Sequence[bytes] | None = None,
        row_filter: str | None = None,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """The rows in order, from `start` until before `stop`, or those with `prefix`.

        `row_filter` is in HBase's filter language and runs in the region server. Each page is read with its
        own scanner, because a scanner does not survive its server, while a page can be read again.
        """
        if prefix is not None:
            start, stop = prefix, after_prefix(prefix)
        wanted = None if columns is None else list(columns)
        left, most = limit, FIRST_PAGE
        while left is None or left > 0:
            size = most if left is None else min(left, most)
            page = self._retry(
                partial(
                    _page,
                    table=table,
                    start=start,
                    stop=stop,
                    columns=wanted,
                    row_filter=row_filter,
                    size=size,
                )
            )
            yield from page
            if len(page) < size:
                return
            most = min(BATCH_ROWS, max(1, BATCH_BYTES * size // sum(_size(*each) for each in page)))
            start = page[-1][0] + b"\0"
            left = None if left is None else left - len(page)

    def delete(
        self, table: str, rows: Iterable[tuple[bytes, Sequence[bytes]]], *, timestamp: int | None = None
    ) -> int:
        """Delete columns (or whole families) of rows, in batches; returns the number of rows.

        With a `timestamp` (ms), newer cells stay, and so do those that are written later with a newer one.
        Without one, HBase's own clock decides.
        """
        deleted = 0
        for some in _chunks((row, dict.fromkeys(columns, b"")) for row, columns in rows):
            chunk = [(row, [*columns]) for row, columns in some]
            self._retry(partial(_delete, table=table, rows=chunk, timestamp=timestamp))
            deleted += len(chunk)
        return deleted

    def create_table(self, table: str, families: Mapping[str, Mapping[str, Any]]) -> bool:
        """Create the table unless it exists; returns whether it was created."""

        def create(connection: Any) -> bool:
            if table.encode() in connection.tables():
                return False
            try:
                connection.create_table(table, {name: dict(options) for name, options in families.items()})
            except AlreadyExists:
                return False
            except HBaseIOError as error:
                if "TableExistsException" in _text(error):
                    return False
                raise
            return True

        return bool(self._retry(create))

    def drop_table(self, table: str) -> bool:
        def drop(connection: Any) -> bool:
            if table.encode() not in connection.tables():
                return False
            connection.delete_table(table, disable=True)
            return True

        return bool(self._retry(drop))

    def tables(self) -> list[str]:
        return [name.decode() for name in self._retry(lambda connection: connection.tables())]

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __enter__(self) -> HBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, table: str, batch: list[_Row], timestamp: int | None) -> None:
        def send(connection: Any) -> None:
            if timestamp is None:
                connection.client.mutateRows(table.encode(), batch, {})
            else:
                connection.client.mutateRowsTs(table.encode(), batch, timestamp, {})

        self._retry(send)

    def _retry(self, operation: Callable[[Any], T]) -> T:
        """Run the operation; on failure reconnect and repeat, for at most `patience` seconds."""

        def attempt() -> T:
            try:
                with _without_collector():
                    return operation(self._connected())
            except _BROKEN:
                self._drop_connection()
                raise

        again = patient(self.patience, _may_pass, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        with self._lock:
            try:
                return again(attempt)
            except _BROKEN as error:
                if not _may_pass(error):
                    raise
                raise HBaseUnavailable(f"{self.host}:{self.port}", self.patience, error) from error

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = happybase.Connection(
                self.host, self.port, timeout=self.socket_ms, transport="buffered", protocol="binary"
            )
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
        except _BROKEN:
            pass  # it was broken already


def ensure_tables(settings: Settings, *, patience: float = PATIENCE_SECONDS) -> None:
    """Create `state`, `results` and `finals` where they are missing.

    Each cell keeps one version: a block's versions are separate columns, and only a result's newest value
    counts.
    """
    with HBase.of(settings, patience=patience) as store:
        store.create_table(STATE, {"s": {"max_versions": 1}})
        store.create_table(RESULTS, {"r": {"max_versions": 1}})
        store.create_table(FINALS, {"f": {"max_versions": 1}})


def after_prefix(prefix: bytes) -> bytes | None:
    """The first row key after all that begin with `prefix`; None if nothing can follow."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _send_request(connection: Any, *, request: bytes) -> None:
    """Send a call that is encoded already, and wait for its answer."""
    client = connection.client
    client._oprot.trans.write(request)
    client._oprot.trans.flush()
    client._recv(mutations.METHOD)


def _rows(
    connection: Any, *, table: str, rows: list[bytes], columns: list[bytes] | None
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return list(connection.table(table).rows(rows, columns=columns))


def _delete(
    connection: Any, *, table: str, rows: list[tuple[bytes, list[bytes]]], timestamp: int | None
) -> None:
    batch = connection.table(table).batch(timestamp=timestamp)
    for row, columns in rows:
        batch.delete(row, columns=columns)
    batch.send()


def _page(
    connection: Any,
    *,
    table: str,
    start: bytes | None,
    stop: bytes | None,
    columns: list[bytes] | None,
    row_filter: str | None,
    size: int,
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    scanner = connection.table(table).scan(
        row_start=start, row_stop=stop, columns=columns, filter=row_filter, batch_size=size, limit=size
    )
    return list(scanner)


def _size(row: bytes, cells: Cells) -> int:
    return len(row) + sum(len(column) + len(value) for column, value in cells.items())


def _chunks(rows: Iterable[tuple[bytes, Cells]]) -> Iterator[list[tuple[bytes, Cells]]]:
    chunk: list[tuple[bytes, Cells]] = []
    size = 0
    for row, cells in rows:
        chunk.append((row, cells))
        size += _size(row, cells)
        if len(chunk) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def _without_collector() -> Iterator[None]:
    """Run without the collector of cyclic garbage.

    Thousands of rows have no cycles, and the search for some took two thirds of the client's time for a put.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:  # if several threads disable it, the first one enables it again
            gc.enable()


class _Cell:
    """A `Mutation` that writes a value.

    Thrift accepts any object with these fields. The generated classes would double the client's time for a
    put.
    """

    __slots__ = ("column", "value")
    thrift_spec = Mutation.thrift_spec
    isDelete = False
    writeToWAL = True

    def __init__(self, column: bytes, value: bytes) -> None:
        self.column = column
        self.value = value


class _Gone(_Cell):
    """A `Mutation` that deletes a column."""

    __slots__ = ()
    isDelete = True


class _Row:
    """A `BatchMutation`; it is not the generated class for the same reason."""

    __slots__ = ("mutations", "row")
    thrift_spec = BatchMutation.thrift_spec

    def __init__(self, row: bytes, cells: Cells, gone: Iterable[bytes] = ()) -> None:
        self.row = row
        self.mutations = [_Cell(column, value) for column, value in cells.items()]
        self.mutations += [_Gone(column, b"") for column in gone]


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, _BROKEN) and not any(answer in _text(error) for answer in FINAL_ANSWERS)


def _text(error: BaseException) -> str:
    message = getattr(error, "message", None)
    return (message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message or "")) + str(
        error
    )
