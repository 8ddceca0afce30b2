from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.archive import footer as footers
from sluice.archive import merging
from sluice.archive.contents import check_contents
from sluice.archive.file import COLUMNS, STRETCHES, ArchiveFile, of_records
from sluice.archive.footer import UnreadableArchiveFile
from tests.archive.local_archive import PLACE, batch, line


def part(first: int, lines: Sequence[bytes], following: int | None = None) -> ArchiveFile:
    offsets = range(first, first + len(lines))
    return of_records(PLACE, first, [batch(list(offsets), lines)], 1, following=following)


def merged(*parts: ArchiveFile) -> ArchiveFile:
    return merging.merged((f"/raw/{each.footer.name}", pa.BufferReader(each.data)) for each in parts)


def table(file: ArchiveFile) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(file.data)).read()


PARTS = [
    part(5, [line(17), line(18, 1), b"no time in here"]),
    part(8, [line(17, 9), b"\xff\x00\n"], following=20),
    part(20, [line(19)]),
]


def test_the_lines_are_the_same_byte_for_byte_and_the_footer_is_of_all() -> None:
    made = merged(*PARTS)
    assert table(made).equals(pa.concat_tables([table(each) for each in PARTS]))
    said = footers.parse("f", made.data)
    assert said == made.footer
    assert said.name == "00000000000000000005-00000000000000000021.parquet"
    assert (said.first, said.next, said.records, said.lines, said.skipped) == (5, 21, 6, 6, 10)
    assert (said.days, said.unparsed) == ({"2015-05-17": 2, "2015-05-18": 1, "2015-05-19": 1}, 2)
    assert said.times["2015-05-17"] == (1_431_857_100_000, 1_431_857_109_000)
    assert (said.arrival_min, said.arrival_max) == (1_700_000_000_005, 1_700_000_000_020)
    assert (said.event_min, said.event_max) == (1_431_857_100_000, 1_432_029_900_000)
    assert said.merged == 3
    check_contents("f", pa.BufferReader(made.data), said)


def test_row_groups_hold_a_file_s_worth_and_say_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "GROUP_BYTES", 1)
    made = merged(*PARTS)
    assert pq.ParquetFile(pa.BufferReader(made.data)).num_row_groups == 3
    spans = tuple((each.footer.event_min, each.footer.event_max) for each in PARTS)
    assert made.footer.groups == spans
    again = merged(made, part(21, [b"no time"]))
    assert again.footer.groups == (*spans, None)
    assert again.footer.merged == 4
    assert table(again).slice(0, 6).equals(table(made))


def test_files_of_before_blocks_and_proofs_are_merged_too() -> None:
    """They lack columns, and their footers lack what came later."""
    names = [name for name in COLUMNS.names if name not in ("forged", "line_in_record", "unreadable")]
    out = pa.BufferOutputStream()
    own = table(PARTS[0]).select(names)
    said = {
        n: v for n, v in PARTS[0].footer.to_metadata().items() if n not in ("sluice.times", "sluice.lines")
    }
    pq.write_table(own.replace_schema_metadata(said | {"sluice.version": "1"}), out)
    old = ArchiveFile(PARTS[0].footer, out.getvalue().to_pybytes())
    made = merged(old, PARTS[1])
    assert table(made).select(names).slice(0, 3).equals(own)
    assert table(made).column("line_in_record").slice(0, 3).null_count == 3
    assert made.footer.times["2015-05-18"] == (1_431_907_200_000, 1_431_943_501_000)  # up to its newest line
    check_contents("f", pa.BufferReader(made.data), made.footer)


def test_files_that_do_not_follow_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="offset 8 is followed by 20"):
        merged(PARTS[0], PARTS[2])


def test_a_file_with_fewer_lines_than_its_footer_says_is_refused() -> None:
    footer = dataclasses.replace(PARTS[1].footer, lines=9)
    out = pa.BufferOutputStream()
    pq.write_table(table(PARTS[1]).replace_schema_metadata(footer.to_metadata()), out)
    with pytest.raises(UnreadableArchiveFile, match="has 2 lines of 2 records, in order; its footer says 9"):
        merged(PARTS[0], ArchiveFile(footer, out.getvalue().to_pybytes()), PARTS[2])


@given(
    st.lists(
        st.lists(st.integers(0, 86_399).map(lambda s: b"%02d:%02d:%02d" % (s // 3600, s // 60 % 60, s % 60)),
                 min_size=1, max_size=9),
        min_size=2, max_size=6,
    )
)  # fmt: skip
def test_the_stretches_of_a_day_are_few_and_hold_all_its_lines(moments: list[list[bytes]]) -> None:
    parts: list[ArchiveFile] = []
    for own in moments:
        first = parts[-1].footer.next if parts else 0
        parts.append(part(first, [line(17).replace(b"10:05:00", at) for at in own]))
    said = merged(*parts).footer.times["2015-05-17"]
    spans = list(zip(said[::2], said[1::2], strict=True))
    assert len(spans) <= STRETCHES
    assert list(said) == sorted(said)
    for each in parts:
        for ms in each.footer.times["2015-05-17"]:
            assert any(first <= ms <= last for first, last in spans)
