from __future__ import annotations

import dataclasses
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.archive import footer as footers
from sluice.archive.file import COLUMNS, STRETCHES, ArchivedPartition, of_loss, of_records
from sluice.archive.footer import Footer, UnreadableArchiveFile
from sluice.transmission.line_schema import LINE_SCHEMA
from tests.archive import local_archive
from tests.archive.local_archive import batch

PLACE = ArchivedPartition("logs", "2c1e4e2a-0000-0000-0000-000000000000", 3)


def line(day: int) -> bytes:
    return local_archive.line(day, second=3)


def test_a_file_carries_its_records_and_says_all_about_them_in_its_footer() -> None:
    batches = [batch([5, 6], [line(17), line(18)]), batch([9, 10], [line(17), b"no time in here"])]
    made = of_records(PLACE, 5, batches, generation=7)

    said = footers.parse("f", made.data)
    assert said == made.footer
    assert (said.first, said.next, said.records, said.skipped) == (5, 11, 4, 2)
    assert said.days == {"2015-05-17": 2, "2015-05-18": 1}
    assert said.times == {
        "2015-05-17": (1_431_857_103_000, 1_431_857_103_000),
        "2015-05-18": (1_431_943_503_000, 1_431_943_503_000),
    }
    assert said.unparsed == 1
    assert (said.arrival_min, said.arrival_max) == (1_700_000_000_005, 1_700_000_000_010)
    assert (said.event_min, said.event_max) == (1_431_857_103_000, 1_431_943_503_000)
    assert (said.topic, said.topic_id, said.partition, said.generation) == ("logs", PLACE.topic_id, 3, 7)

    table = pq.read_table(pa.BufferReader(made.data))
    assert table.schema.names == COLUMNS.names
    assert table.column("offset").to_pylist() == [5, 6, 9, 10]
    assert table.column("line").to_pylist()[3] == b"no time in here"
    assert table.column("forged").to_pylist() == [True, True, True, True]


def test_a_footer_that_says_no_times_is_still_read() -> None:
    footer = of_records(PLACE, 5, [batch([5], [line(17)])], generation=1).footer
    said = {name.encode(): text.encode() for name, text in footer.to_metadata().items()}
    del said[b"sluice.times"]
    assert Footer.from_metadata(said) == dataclasses.replace(footer, times={})


@given(st.lists(st.tuples(st.sampled_from([17, 18]), st.integers(0, 86_399)), min_size=1, max_size=40))
def test_the_times_of_a_day_are_few_stretches_that_hold_all_its_lines(moments: list[tuple[int, int]]) -> None:
    stamps = [b"%02d:%02d:%02d" % (s // 3600, s // 60 % 60, s % 60) for _, s in moments]
    lines = [line(day).replace(b"10:05:03", at) for (day, _), at in zip(moments, stamps, strict=True)]
    footer = of_records(PLACE, 5, [batch([*range(5, 5 + len(lines))], lines)], generation=1).footer
    for day in (17, 18):
        own = sorted(1_431_820_800 + (day - 17) * 86_400 + s for d, s in moments if d == day)
        ends = [ms // 1000 for ms in footer.times.get(f"2015-05-{day}", ())]
        assert ends == sorted(ends)
        assert len(ends) <= 2 * STRETCHES
        stretches = [*zip(ends[::2], ends[1::2], strict=True)]
        assert all(any(first <= s <= last for first, last in stretches) for s in own)
        assert set(ends) <= set(own)
        # What lies between two stretches is wider than every gap within one, so they tell the most.
        between = [b - a for a, b in zip(ends[1::2], ends[2::2], strict=False)]
        gaps = sorted((b - a for a, b in pairwise(own)), reverse=True)
        assert sorted(between, reverse=True) == [gap for gap in gaps[: STRETCHES - 1] if gap > 60]


def test_a_file_without_a_time_has_no_stretches() -> None:
    assert of_records(PLACE, 5, [batch([5], [b"no time"])], generation=1).footer.times == {}


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


def blocks(sizes: dict[int, int]) -> pa.RecordBatch:
    """Records of so many lines, by offset."""
    offsets = [offset for offset, size in sizes.items() for _ in range(size)]
    places = [n for size in sizes.values() for n in range(size)]
    whole = batch(offsets, [line(17)] * len(offsets))
    return whole.set_column(8, LINE_SCHEMA.field("line_in_record"), pa.array(places, pa.int32()))


def test_a_footer_counts_records_and_the_lines_in_them() -> None:
    made = of_records(PLACE, 4, [blocks({5: 3, 6: 1, 9: 2})], generation=1)
    said = footers.parse("f", made.data)
    assert (said.first, said.next, said.records, said.lines, said.skipped) == (4, 10, 3, 6, 3)
    assert said.days == {"2015-05-17": 6}
    table = pq.read_table(pa.BufferReader(made.data))
    assert table.column("line_in_record").to_pylist() == [0, 1, 2, 0, 0, 1]


def test_a_range_that_cannot_be_read_leaves_no_gap_and_counts_as_its_records() -> None:
    whole = batch([5, 6, 10], [line(17), b"\0bytes", line(17)])
    whole = whole.set_column(
        10, LINE_SCHEMA.field("last_offset"), pa.array([None, 8, None], pa.int64())
    ).set_column(9, LINE_SCHEMA.field("unreadable"), pa.array([None, "undecodable: broken", None]))
    made = of_records(PLACE, 4, [whole], generation=1)
    said = footers.parse("f", made.data)
    assert (said.first, said.next, said.records, said.lines, said.skipped) == (4, 11, 5, 3, 2)
    only = of_records(PLACE, 6, [whole.slice(1, 1)], generation=1).footer
    assert (only.first, only.next, only.records, only.lines, only.skipped) == (6, 9, 3, 1, 0)
    rows = pq.read_table(pa.BufferReader(made.data)).select(["unreadable", "last_offset"]).to_pylist()
    assert rows[1] == {"unreadable": "undecodable: broken", "last_offset": 8}
    overlapping = batch([5, 6, 8], [line(17)] * 3).set_column(
        10, LINE_SCHEMA.field("last_offset"), pa.array([None, 8, None], pa.int64())
    )
    with pytest.raises(ValueError, match="out of order"):
        of_records(PLACE, 4, [overlapping], generation=1)


@pytest.mark.parametrize("begin", [1, 2])
def test_a_record_without_its_first_line_is_a_fault_of_the_program(begin: int) -> None:
    with pytest.raises(ValueError, match="out of order"):
        of_records(PLACE, 5, [blocks({5: 3}).slice(begin)], generation=1)


def test_a_file_of_version_1_has_a_line_a_record() -> None:
    """As the archiver wrote them while each record was a line."""
    said = of_records(PLACE, 5, [batch([5, 6, 9], [line(17)] * 3)], generation=1).footer
    metadata = {k: v for k, v in said.to_metadata().items() if k != "sluice.lines"} | {"sluice.version": "1"}
    old = [name for name in COLUMNS.names if name != "line_in_record"]
    table = pa.table({name: [] for name in old}).replace_schema_metadata(metadata)
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    read = footers.parse("f", out.getvalue().to_pybytes())
    assert (read.version, read.records, read.lines, read.skipped) == (1, 3, 3, 2)


def test_a_footer_of_a_version_to_come_is_refused() -> None:
    said = of_records(PLACE, 5, [batch([5], [line(17)])], generation=1).footer
    metadata = {k.encode(): v.encode() for k, v in (said.to_metadata() | {"sluice.version": "3"}).items()}
    with pytest.raises(ValueError, match=r"sluice\.version is 3"):
        footers.Footer.from_metadata(metadata)


def test_a_file_that_is_no_archive_file_is_named() -> None:
    out = pa.BufferOutputStream()
    pq.write_table(COLUMNS.empty_table(), out)
    with pytest.raises(UnreadableArchiveFile, match=r"^/raw/x\.parquet: its footer cannot be read"):
        footers.parse("/raw/x.parquet", out.getvalue().to_pybytes())
