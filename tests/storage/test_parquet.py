"""Parquet files in pieces: all pieces together have each row once."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.storage.parquet import Ranged, RowGroups, deal, read, table_files
from sluice.storage.stores import LocalStore, Stores
from tests.examples import examples

COLUMNS = {"number": pa.int64(), "line": pa.binary()}


def write(path: Path, numbers: list[int], group: int) -> None:
    table = pa.table({"number": numbers, "other": numbers, "line": [f"line {n}" for n in numbers]})
    pq.write_table(table, path, row_group_size=group)


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=4),
    st.integers(1, 6),
    st.integers(1, 20),
)
def test_each_row_is_in_one_share_however_many_there_are(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, int]], shares: int, lines: int
) -> None:
    folder, first = tmp_path_factory.mktemp("table"), 0
    for place, (rows, group) in enumerate(files):
        write(folder / f"{place}.parquet", list(range(first, first + rows)), group)
        first += rows
    dealt = deal(table_files(Stores(), str(folder)), shares)
    assert len(dealt) <= shares
    batches = [batch for share in dealt for batch in read(Stores(), share, COLUMNS, lines, 1 << 30)]
    found = pa.Table.from_batches(batches, pa.schema(list(COLUMNS.items()))).to_pydict()
    assert found == {"number": list(range(first)), "line": [f"line {n}".encode() for n in range(first)]}
    assert all(len(batch) <= lines for batch in batches)


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(1, 6))
def test_shares_are_equally_long(lengths: list[int], shares: int) -> None:
    dealt = deal([(str(n), length) for n, length in enumerate(lengths)], shares)
    sizes = [sum(piece.end - piece.begin for piece in share) for share in dealt]
    assert sum(sizes) == sum(lengths)
    assert not sizes or max(sizes) <= -(-sum(lengths) // shares)


def test_bytes_that_are_not_utf8_are_read_as_they_are_and_missing_columns_are_null(tmp_path: Path) -> None:
    line = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xff\x80b"]).buffers())
    pq.write_table(pa.table({"line": line}), tmp_path / "a.parquet")
    (share,) = deal(table_files(Stores(), str(tmp_path)), 1)
    (batch,) = read(Stores(), share, COLUMNS, 10, 1 << 30)
    assert batch.to_pylist() == [{"number": None, "line": b"a\xff\x80b"}]


@pytest.mark.slow
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_batch_of_long_lines_has_fewer(tmp_path: Path, dictionary: bool) -> None:
    """Even where the file is small because all lines are equal."""
    rows, long, size = 400, 50_000, 4 << 20
    lines = pa.array([b"x" * long] * rows)
    pq.write_table(pa.table({"line": lines}), tmp_path / "a.parquet", use_dictionary=dictionary)
    (share,) = deal(table_files(Stores(), str(tmp_path)), 1)
    found = list(read(Stores(), share, COLUMNS, 1_000, size))
    assert sum(len(batch) for batch in found) == rows
    assert max(len(batch) for batch in found) * long <= size


def test_a_short_dictionary_makes_no_short_batches(tmp_path: Path) -> None:
    rows = 100_000
    names = pa.array([b"web1", b"web2"] * (rows // 2))
    pq.write_table(pa.table({"line": names}), tmp_path / "a.parquet", use_dictionary=["line"])
    (share,) = deal(table_files(Stores(), str(tmp_path)), 1)
    assert len(list(read(Stores(), share, COLUMNS, rows, 32 << 20))) < 50


def test_what_readers_of_tables_skip_is_no_file_of_the_table(tmp_path: Path) -> None:
    for name in ("_SUCCESS", ".a.crc", "part-1.parquet"):
        (tmp_path / name).write_bytes(b"123")
    (tmp_path / "_temporary").mkdir()
    assert table_files(Stores(), str(tmp_path)) == [(f"{tmp_path}/part-1.parquet", 3)]


class CountingStore(LocalStore):
    """Notes which ranges are read."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int | None]] = []

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.ranges.append((offset, length))
        return super().read(path, offset, length)


@pytest.mark.slow
def test_only_the_columns_that_are_wanted_are_read_and_the_footer_once(tmp_path: Path) -> None:
    path, size = str(tmp_path / "a.parquet"), 200_000
    wide = pa.array([b"%d" % n + b"x" * 20 for n in range(size)])
    table = pa.table({"number": pa.array(range(size)), "wide": wide})
    pq.write_table(table, path, row_group_size=size // 2, use_dictionary=False, compression="none")
    store, length = CountingStore(), Path(path).stat().st_size
    with pq.ParquetFile(pa.PythonFile(Ranged(store, path, length), mode="r")) as file:
        assert file.read(["number"], use_threads=False).num_rows == size
    assert sum(size or 0 for _, size in store.ranges) < length / 2
    assert len(store.ranges) == 3  # the footer and two row groups


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1, 2, 3], 3)
    length = (tmp_path / "a.parquet").stat().st_size
    piece = RowGroups(str(tmp_path / "a.parquet"), length + 1, 0, length + 1)
    with pytest.raises(OSError, match=f"{length} of the {length + 1} bytes from 0 on are there"):
        list(read(Stores(), [piece], COLUMNS, 10, 1 << 30))


@given(st.binary(max_size=50), st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 60)), max_size=6))
def test_a_ranged_file_reads_as_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, reads: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "ranged"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.storage.parquet.TAIL_BYTES", 7)
        ranged, wanted = Ranged(LocalStore(), str(path), len(data)), io.BytesIO(data)
        for offset, size in reads:
            assert ranged.seek(offset) == wanted.seek(offset)
            assert ranged.read(size) == wanted.read(size)
        assert ranged.seek(-min(3, len(data)), io.SEEK_END) == wanted.seek(-min(3, len(data)), io.SEEK_END)
        assert ranged.read() == wanted.read()
