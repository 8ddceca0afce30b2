"""Requests are byte for byte those that the Thrift library makes of objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import happybase  # noqa: F401 - makes the next import work
import pyarrow as pa
from Hbase_thrift import BatchMutation, Hbase, Mutation
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport.memory import TMemoryBuffer

from sluice.storage.mutations import METHOD, ROW, requests

WHOLE = 1 << 30
NAMES = ("r:o", "r:oe")
Row = tuple[bytes, Mapping[str, bytes | None]]


def table_of(rows: Sequence[Row]) -> pa.Table:
    cells = {name: pa.array([values[name] for _, values in rows], pa.binary()) for name in NAMES}
    return pa.table({ROW: pa.array([row for row, _ in rows], pa.binary()), **cells})


def expected(table: str, rows: Sequence[Row], timestamp: int) -> bytes:
    """The request by the Thrift library."""
    batches = [
        BatchMutation(
            row=row,
            mutations=[
                Mutation(isDelete=False, column=name.encode(), value=value, writeToWAL=True)
                for name in NAMES
                if (value := values[name]) is not None
            ],
        )
        for row, values in rows
    ]
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.write_message_begin(METHOD, TMessageType.CALL, 0)
    arguments = {"tableName": table.encode(), "rowBatches": batches, "timestamp": timestamp, "attributes": {}}
    Hbase.mutateRowsTs_args(**arguments).write(protocol)
    protocol.write_message_end()
    return bytes(buffer.getvalue())


values = st.none() | st.binary(max_size=300)
cells = st.tuples(st.binary(max_size=300), st.fixed_dictionaries(dict.fromkeys(NAMES, values)))


@given(rows=st.lists(cells, min_size=1, max_size=20), timestamp=st.integers(0, 2**62))
def test_a_request_is_what_the_library_makes_of_the_same_rows(rows: Sequence[Row], timestamp: int) -> None:
    assert list(requests("results", table_of(rows), timestamp, 100, WHOLE)) == [
        expected("results", rows, timestamp)
    ]


@given(rows=st.lists(cells, max_size=20), most=st.integers(1, 7), size=st.integers(1, 2_000))
def test_requests_are_bounded_and_hold_all_rows_in_order(rows: Sequence[Row], most: int, size: int) -> None:
    bodies = [expected("t", rows[n : n + 1], 5) for n in range(len(rows))]
    empty = len(expected("t", [], 5))
    begin = 0
    for request in requests("t", table_of(rows), 5, most, size):
        end = next(n for n in range(begin + 1, len(rows) + 1) if request == expected("t", rows[begin:n], 5))
        assert end - begin <= most
        assert end - begin == 1 or sum(len(body) - empty for body in bodies[begin:end]) <= size
        begin = end
    assert begin == len(rows)


def test_a_table_in_pieces_is_one_request() -> None:
    rows: list[Row] = [(b"%d" % n, {"r:o": b"x", "r:oe": None}) for n in range(6)]
    pieces = pa.concat_tables([table_of(rows[:2]), table_of(rows[2:])]).slice(1)
    assert list(requests("t", pieces, 5, 100, WHOLE)) == [expected("t", rows[1:], 5)]
