"""Connections of the state's tasks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sluice.speed.state_pass import Connections


def test_each_thread_has_one_connection_of_its_own() -> None:
    stores = Connections("127.0.0.1", 1, "postgresql://nobody@127.0.0.1:1/none")
    with ThreadPoolExecutor(1) as other:
        there, again = (other.submit(stores.hbase).result() for _ in range(2))
    assert stores.hbase() is stores.hbase()
    assert there is again
    assert there is not stores.hbase()
    assert Connections("127.0.0.1", 2, "").hbase().port == 2
