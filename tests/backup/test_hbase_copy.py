"""HBase's cells are copied in two scans, the second of names alone, and come back as they were."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.backup import hbase_copy
from sluice.backup.hbase_copy import LONG_AGO, ROWS_A_GET
from sluice.backup.parts import BackupParts
from sluice.runtime.settings import Settings
from sluice.storage.hbase import RESULTS, STATE, HBase
from tests.backup.stores import CellsInMemory, silent

ROWS = st.dictionaries(
    st.binary(min_size=1, max_size=3),
    st.dictionaries(st.sampled_from([b"s:1.a", b"s:2.a", b"s:2.a+"]), st.binary(max_size=5), min_size=1),
    max_size=8,
)


def copied(hbase: CellsInMemory, parts: BackupParts, table: str = STATE) -> int:
    return hbase_copy.export(parts, "first", hbase.scan(table), silent)


@pytest.mark.slow
@given(ROWS, ROWS, st.sets(st.binary(min_size=1, max_size=3)))
def test_both_scans_together_have_each_cell_of_the_second(
    tmp_path_factory: object, before: dict, added: dict, swept: set
) -> None:
    folder = tmp_path_factory.mktemp("parts")  # type: ignore[attr-defined]
    hbase, parts = CellsInMemory({STATE: before}), BackupParts(folder)
    first = copied(hbase, parts)
    for row in swept:
        hbase.cells[STATE].pop(row, None)
    for row, cells in added.items():
        own = hbase.cells[STATE].setdefault(row, {})
        for name, value in cells.items():
            own.setdefault(name, before.get(row, {}).get(name, value))  # a column keeps its value for ever
    since = hbase_copy.export(parts, "since", hbase_copy.since(hbase, STATE, folder / "first"), silent)
    restored = CellsInMemory()
    written = [hbase_copy.put_cells(restored, STATE, folder / path, silent) for path in ("first", "since")]
    assert written == [first, since]
    assert restored.stamps == {STATE: None}
    there = restored.cells.get(STATE, {})
    for row, cells in hbase.cells[STATE].items():
        assert cells.items() <= there[row].items()
    known = {(row, name) for row, cells in before.items() for name in cells}
    new = {(row, name) for row, cells in hbase.cells[STATE].items() for name in cells} - known
    assert since == len(new)


def test_rows_are_read_again_a_few_at_a_time(tmp_path: Path) -> None:
    hbase, parts = CellsInMemory({STATE: {}}), BackupParts(tmp_path)
    assert copied(hbase, parts) == 0
    hbase.cells[STATE] = {b"%03d" % n: {b"s:1.a": b"x"} for n in range(2 * ROWS_A_GET + 1)}
    found = dict(hbase_copy.since(hbase, STATE, tmp_path / "first"))
    assert found == hbase.cells[STATE]
    assert [len(rows) for rows in hbase.gets] == [ROWS_A_GET, ROWS_A_GET, 1]


def test_a_large_table_is_copied_in_batches(tmp_path: Path) -> None:
    rows = {b"%03d" % n: {b"f:b": bytes(1 << 20)} for n in range(9)}
    parts, said = BackupParts(tmp_path), list[str]()
    written = hbase_copy.export(parts, "first", iter(rows.items()), said.append)
    assert written == len(rows)
    assert [text.split()[0] for text in said] == ["4", "8", "9"]
    back = CellsInMemory()
    hbase_copy.put_cells(back, "finals", tmp_path / "first", silent)
    assert back.cells["finals"] == rows


def test_a_restored_result_is_older_than_what_is_written_later(tmp_path: Path) -> None:
    hbase, parts = CellsInMemory({RESULTS: {b"7_404_count_1": {b"r:o": b"3"}}}), BackupParts(tmp_path)
    copied(hbase, parts, RESULTS)
    back = CellsInMemory()
    hbase_copy.put_cells(back, RESULTS, tmp_path / "first", silent)
    assert (back.cells, back.stamps) == (hbase.cells, {RESULTS: LONG_AGO})


@pytest.fixture
def tables(stack: Settings) -> Iterator[tuple[HBase, list[str]]]:
    names = [f"copy_{secrets.token_hex(4)}" for _ in range(2)]
    with HBase.of(stack) as hbase:
        for name in names:
            hbase.create_table(name, {"s": {"max_versions": 1}})
        yield hbase, names
        for name in names:
            hbase.drop_table(name)


@pytest.mark.stack
def test_a_table_of_the_real_hbase_comes_back_as_it_was(
    tables: tuple[HBase, list[str]], tmp_path: Path
) -> None:
    hbase, (one, two) = tables
    parts = BackupParts(tmp_path)
    hbase.put(one, [(b"%04d" % n, {b"s:1.a": bytes([n % 256]) * 2000}) for n in range(1200)])
    first = hbase_copy.export(parts, "first", hbase.scan(one), silent)
    hbase.rewrite(one, [(b"0007", {b"s:2.a": b"new"}, [b"s:1.a"]), (b"0008", {b"s:2.a+": b""}, [])])
    hbase.put(one, [(b"later", {b"s:2.a": b"new"})])
    since = hbase_copy.export(parts, "since", hbase_copy.since(hbase, one, tmp_path / "first"), silent)
    assert (first, since) == (1200, 3)
    written = sum(hbase_copy.put_cells(hbase, two, tmp_path / path, silent) for path in ("first", "since"))
    assert written == first + since
    wanted = dict(hbase.scan(one))
    wanted[b"0007"] = {b"s:1.a": bytes([7]) * 2000, **wanted[b"0007"]}  # replaced meanwhile: nobody reads it
    assert dict(hbase.scan(two)) == wanted
