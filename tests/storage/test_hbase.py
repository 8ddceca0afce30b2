from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sluice.runtime.settings import Settings
from sluice.storage.hbase import HBase, HBaseUnavailable, after_prefix, ensure_tables


def test_the_key_that_follows_a_prefix() -> None:
    assert after_prefix(b"1v2_") == b"1v2`"
    assert after_prefix(b"a\xff\xff") == b"b"
    assert after_prefix(b"\xff") is None


def test_a_server_that_stays_away_is_named() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(HBaseUnavailable, match=f"127.0.0.1:{port} did not answer"):
        HBase("127.0.0.1", port, patience=0.3).tables()
    rows = [(b"r%05d" % n, {b"c:a": b"1"}) for n in range(12_000)]
    with pytest.raises(HBaseUnavailable, match=f"127.0.0.1:{port} did not answer"):
        HBase("127.0.0.1", port, patience=0.3).put("t", rows)


@pytest.fixture
def table(stack: Settings) -> Iterator[tuple[HBase, str]]:
    name = f"storage_{secrets.token_hex(4)}"
    with HBase.of(stack, patience=30) as store:
        assert store.create_table(name, {"c": {"max_versions": 1}})
        assert not store.create_table(name, {"c": {"max_versions": 1}})
        yield store, name
        store.drop_table(name)


@pytest.mark.stack
def test_rows_go_in_and_come_out(table: tuple[HBase, str]) -> None:
    store, name = table
    rows = [(b"r%05d" % n, {b"c:a": b"%d" % n, b"c:b": b"x"}) for n in range(12_000)]
    assert store.put(name, rows) == 12_000
    assert store.get(name, [b"r00007", b"r99999"], [b"c:a"]) == {b"r00007": {b"c:a": b"7"}}
    assert store.get(name, []) == {}
    scanned = list(store.scan(name))
    assert [row for row, _ in scanned] == [row for row, _ in rows]
    assert [row for row, _ in store.scan(name, prefix=b"r0001", columns=[b"c:a"])] == [
        b"r%05d" % n for n in range(10, 20)
    ]
    assert len(list(store.scan(name, start=b"r00100", stop=b"r00200", limit=5))) == 5
    store.delete(name, [(b"r00007", [b"c:a"]), (b"r00008", [b"c"])])
    assert store.get(name, [b"r00007", b"r00008"]) == {b"r00007": {b"c:b": b"x"}}


@pytest.mark.stack
def test_an_older_timestamp_does_not_cover_a_newer_cell(table: tuple[HBase, str]) -> None:
    store, name = table
    store.put(name, [(b"r", {b"c:a": b"new"})], timestamp=2_000)
    store.put(name, [(b"r", {b"c:a": b"old"})], timestamp=1_000)
    assert store.get(name, [b"r"]) == {b"r": {b"c:a": b"new"}}


@pytest.mark.stack
def test_a_deletion_with_a_time_leaves_what_is_newer_or_comes_later(table: tuple[HBase, str]) -> None:
    store, name = table
    store.put(name, [(b"r", {b"c:a": b"old"}), (b"s", {b"c:a": b"old"})], timestamp=1_000)
    store.put(name, [(b"s", {b"c:a": b"newer"})], timestamp=1_002)
    assert store.delete(name, [(b"r", [b"c"]), (b"s", [b"c"])], timestamp=1_001) == 2
    assert store.get(name, [b"r", b"s"]) == {b"s": {b"c:a": b"newer"}}
    store.put(name, [(b"r", {b"c:a": b"later"})], timestamp=1_002)
    assert store.get(name, [b"r"]) == {b"r": {b"c:a": b"later"}}


@pytest.mark.stack
def test_a_table_of_cells_goes_in_as_rows_do(table: tuple[HBase, str]) -> None:
    store, name = table
    numbers = range(12_000)
    cells = pa.table(
        {
            "row": pa.array([b"r%05d" % n for n in numbers]),
            "c:a": pa.array([str(n) for n in numbers]),
            "c:b": pa.array(["x" if n % 2 else None for n in numbers]),
        }
    )
    assert store.put_table(name, cells, timestamp=2_000) == 12_000
    assert store.put_table(name, cells.slice(7, 1), timestamp=1_000) == 1
    assert store.put_table(name, cells.slice(0, 0), timestamp=3_000) == 0
    assert dict(store.scan(name)) == {
        b"r%05d" % n: {b"c:a": b"%d" % n} | ({b"c:b": b"x"} if n % 2 else {}) for n in numbers
    }
    late = pa.table({"row": pa.array([b"r00007"]), "c:a": pa.array(["old"])})
    store.put_table(name, late, timestamp=1_000)
    assert store.get(name, [b"r00007"], [b"c:a"]) == {b"r00007": {b"c:a": b"7"}}


@pytest.mark.stack
def test_an_error_that_no_retry_fixes_is_raised_at_once(stack: Settings) -> None:
    from Hbase_thrift import IOError as HBaseIOError

    with HBase.of(stack, patience=30) as store, pytest.raises(HBaseIOError, match="TableNotFoundException"):
        list(store.scan("no_such_table"))


@pytest.mark.stack
def test_the_platforms_tables_are_there_once(stack: Settings) -> None:
    ensure_tables(stack)
    ensure_tables(stack)
    with HBase.of(stack) as store:
        assert {"state", "results"} <= set(store.tables())


class CuttingProxy:
    """A network that cuts each of the first connections after some bytes from the client."""

    def __init__(self, host: str, port: int, cuts: list[int]) -> None:
        self.target, self.cuts = (host, port), cuts
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            upstream = socket.create_connection(self.target)
            limit = self.cuts.pop(0) if self.cuts else None
            threading.Thread(target=self._pump, args=(client, upstream, limit), daemon=True).start()
            threading.Thread(target=self._pump, args=(upstream, client, None), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                passed += len(data)
                if limit is not None and passed > limit:
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.stack
def test_a_cut_connection_costs_a_retry_but_no_row(table: tuple[HBase, str], stack: Settings) -> None:
    _, name = table
    proxy = CuttingProxy(stack.hbase.host, stack.hbase.port, [50_000, 0, 3_000])
    rows = [(b"r%05d" % n, {b"c:a": b"%d" % n}) for n in range(6_000)]
    with HBase("127.0.0.1", proxy.port, patience=30) as shaky:
        shaky.put(name, rows)
        assert dict(shaky.scan(name)) == dict(rows)
    proxy.server.close()
    assert proxy.cuts == []
