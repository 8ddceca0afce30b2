from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.archive import footer as footers
from sluice.archive.file import COLUMNS, Place, of_loss, of_records
from sluice.archive.footer import UnreadableArchiveFile
from sluice.transmission.records import RECORDS

PLACE = Place("logs", "2c1e4e2a-0000-0000-0000-000000000000", 3)


def line(day: int) -> bytes:
    return b'10.0.0.1 - - [%02d/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17' % day


def batch(offsets: list[int], lines: list[bytes]) -> pa.RecordBatch:
    n = len(offsets)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(n, 3, np.int32)),
            pa.array(offsets, pa.int64()),
            pa.array([1_700_000_000_000 + o for o in offsets], pa.int64()),
            pa.array(["web1"] * n),
            pa.array(["access.2015-05-17.log"] * n),
            pa.array([o * 100 for o in offsets], pa.int64()),
            pa.array(lines, pa.binary()),
            pa.array([True] * n),
            pa.array(np.zeros(n, np.int32)),
        ],
        schema=RECORDS,
    )


def test_a_file_carries_its_records_and_says_all_about_them_in_its_footer() -> None:
    batches = [batch([5, 6], [line(17), line(18)]), batch([9, 10], [line(17), b"no time in here"])]
    made = of_records(PLACE, 5, batches, generation=7)

    said = footers.parse("f", made.data)
    assert said == made.footer
    assert (said.first, said.next, said.records, said.skipped) == (5, 11, 4, 2)
    assert said.days == {"2015-05-17": 2, "2015-05-18": 1}
    assert said.unparsed == 1
    assert (said.arrival_min, said.arrival_max) == (1_700_000_000_005, 1_700_000_000_010)
    assert (said.event_min, said.event_max) == (1_431_857_103_000, 1_431_943_503_000)
    assert (said.topic, said.topic_id, said.partition, said.generation) == ("logs", PLACE.topic_id, 3, 7)

    table = pq.read_table(pa.BufferReader(made.data))
    assert table.schema.names == COLUMNS.names
    assert table.column("offset").to_pylist() == [5, 6, 9, 10]
    assert table.column("line").to_pylist()[3] == b"no time in here"
    assert table.column("forged").to_pylist() == [True, True, True, True]


def test_a_file_begins_where_the_chain_ended_even_if_kafka_skipped_offsets() -> None:
    made = of_records(PLACE, 3, [batch([5], [line(17)])], generation=1)
    assert (made.footer.first, made.footer.next, made.footer.skipped) == (3, 6, 2)


def test_a_loss_is_a_file_without_records_that_covers_the_offsets() -> None:
    made = of_loss(PLACE, 100, 250, "deleted before it was archived", generation=2)
    said = footers.parse("f", made.data)
    assert (said.first, said.next, said.records, said.days) == (100, 250, 0, {})
    assert said.loss == "deleted before it was archived"
    table = pq.read_table(pa.BufferReader(made.data))
    assert len(table) == 0
    assert table.schema.names == COLUMNS.names


@pytest.mark.parametrize("offsets", [[4, 5], [6, 6], [7, 6]])
def test_records_out_of_order_are_a_fault_of_the_program(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="out of order"):
        of_records(PLACE, 5, [batch(offsets, [line(17)] * 2)], generation=1)


def test_two_files_of_the_same_records_differ_in_their_claim() -> None:
    batches = [batch([5], [line(17)])]
    one, other = (of_records(PLACE, 5, batches, generation=1) for _ in range(2))
    assert one.footer.claim != other.footer.claim


def test_a_footer_can_be_read_from_the_end_of_the_file_alone() -> None:
    lines = [line(17) + bytes(str(n), "ascii") * 50 for n in range(5000)]
    made = of_records(PLACE, 0, [batch(list(range(5000)), lines)], generation=1)
    tail = made.data[-footers.TAIL_BYTES :]
    assert footers.parse("f", tail) == made.footer


def test_a_file_that_is_no_archive_file_is_named() -> None:
    out = pa.BufferOutputStream()
    pq.write_table(COLUMNS.empty_table(), out)
    with pytest.raises(UnreadableArchiveFile, match=r"^/raw/x\.parquet: its footer cannot be read"):
        footers.parse("/raw/x.parquet", out.getvalue().to_pybytes())
