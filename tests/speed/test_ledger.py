from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.speed.ledger import BadLedger, ByteLedger
from tests.examples import examples

Row = tuple[int, int]  # file, number of the line in it

#: Every file has the same lines: line n covers the bytes [start[n], start[n + 1]).
LENGTHS = [10, 1, 7, 300, 2, 5, 80, 3, 9, 41]
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
FILES = [("web1", "/a.log"), ("web1", "/b.log"), ("web2", "/a.log")]

batches = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, len(LENGTHS) - 1)), max_size=12), max_size=5
)


def columns(rows: list[Row]) -> tuple[pa.Array, pa.Array, np.ndarray, np.ndarray]:
    hosts, files = ([FILES[f][n] for f, _ in rows] for n in (0, 1))
    at = np.array([n for _, n in rows], np.int64)
    return pa.array(hosts, pa.string()), pa.array(files, pa.string()), STARTS[at], STARTS[at + 1]


def claim(ledger: ByteLedger, rows: list[Row]) -> list[bool]:
    return ledger.claim(*columns(rows)).tolist()


def content(ledger: ByteLedger) -> dict[tuple[str, str], list[list[int]]]:
    return {
        (r["host"], r["src_file"]): np.column_stack(
            [np.frombuffer(r["starts"], "<i8"), np.frombuffer(r["ends"], "<i8")]
        ).tolist()
        for r in ledger.to_rows()
    }


@examples(30)
@given(batches)
def test_each_line_is_new_once(found: list[list[Row]]) -> None:
    ledger, model = ByteLedger(), set[Row]()
    for rows in found:
        expected = []
        for row in rows:
            expected.append(row not in model)
            model.add(row)
        assert claim(ledger, rows) == expected
        assert not any(claim(ledger, rows))
    for number, file in enumerate(FILES):
        lines = {n for f, n in model if f == number}
        assert ledger.covered(*file) == sum(LENGTHS[n] for n in lines)
        holes = {b for a, z in ledger.holes(*file, int(STARTS[-1])) for b in range(a, z)}
        assert holes == {b for n in set(range(10)) - lines for b in range(STARTS[n], STARTS[n + 1])}


#: Records: a file, the number of the first line, and how many lines there are.
records = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 10)), max_size=8)


@given(records, records, records)
def test_records_taken_as_runs_are_claimed_like_their_lines(
    elsewhere: list[tuple[int, int, int]], before: list[tuple[int, int, int]], now: list[tuple[int, int, int]]
) -> None:
    def lines(some: list[tuple[int, int, int]]) -> list[Row]:
        return [(file, n) for file, at, size in some for n in range(at, min(at + size, len(LENGTHS)))]

    def runs(some: list[tuple[int, int, int]]) -> np.ndarray:
        sizes = [min(size, len(LENGTHS) - at) for _, at, size in some]
        return (np.cumsum(sizes) - sizes).astype(np.int64)

    known, ledger, model = ByteLedger(), ByteLedger(), set(lines(elsewhere))
    claim(known, lines(elsewhere))
    for some in (before, now):
        expected = []
        for row in lines(some):
            expected.append(row not in model)
            model.add(row)
        assert ledger.claim(*columns(lines(some)), runs=runs(some), known=known).tolist() == expected
    own = ByteLedger()
    claim(own, [row for row in lines(before + now) if row not in lines(elsewhere)])
    assert content(ledger) == content(own)


@examples(30)
@given(batches)
def test_the_order_and_the_split_do_not_matter(found: list[list[Row]]) -> None:
    whole, parts = ByteLedger(), ByteLedger()
    everything = [row for rows in found for row in rows]
    if everything:
        whole.add(*columns(everything))
    for rows in reversed(found):
        part = ByteLedger()
        claim(part, rows)
        parts.update(ByteLedger.from_table(part.to_table()))
    assert content(parts) == content(whole)
    assert content(ByteLedger.from_rows(whole.to_rows())) == content(whole)


def test_lines_that_touch_are_one_interval() -> None:
    ledger = ByteLedger()
    claim(ledger, [(0, n) for n in (9, 0, 5, 1, 4, 2, 8, 3, 7, 6)])
    assert content(ledger) == {FILES[0]: [[0, int(STARTS[-1])]]}


def test_a_hole_is_named() -> None:
    ledger = ByteLedger()
    claim(ledger, [(0, 1), (0, 3)])
    assert ledger.holes(*FILES[0], 330).tolist() == [[0, 10], [11, 18], [318, 330]]
    assert ledger.holes(*FILES[0], 15).tolist() == [[0, 10], [11, 15]]
    assert ledger.holes(*FILES[0], 5).tolist() == [[0, 5]]
    assert ledger.holes(*FILES[1], 7).tolist() == [[0, 7]]
    assert ledger.holes(*FILES[1], 0).tolist() == []


def test_lines_without_identity_are_always_new() -> None:
    ledger = ByteLedger()
    hosts = pa.array(["web1", None, "web1", "web1"])
    files = pa.array(["/a.log", "/a.log", None, "/a.log"])
    starts = pa.array([0, 0, 0, None], pa.int64())
    ends = np.array([5, 5, 5, 5])
    for expected in ([True] * 4, [False, True, True, True]):
        assert ledger.claim(hosts, files, starts, ends).tolist() == expected
    assert content(ledger) == {("web1", "/a.log"): [[0, 5]]}


def test_a_part_of_the_ledger() -> None:
    ledger = ByteLedger()
    claim(ledger, [(0, 0), (1, 0), (2, 0)])
    assert ledger.only([FILES[1], ("none", "/x")]).files() == [FILES[1]]
    assert ledger.files() == sorted(FILES)


def test_a_change_of_a_part_does_not_change_the_whole() -> None:
    ledger = ByteLedger()
    claim(ledger, [(0, 0)])
    part = ledger.only([FILES[0]])
    claim(part, [(0, 1)])
    assert ledger.covered(*FILES[0]) == LENGTHS[0]


def test_damage_is_refused() -> None:
    row = {"host": "web1", "src_file": "/a.log"}
    one, two = (np.array(v, "<i8").tobytes() for v in ([0, 10], [20, 30]))
    with pytest.raises(BadLedger, match=r"web1:/a\.log is damaged"):
        ByteLedger.from_rows([{**row, "starts": one, "ends": two}])


def test_empty() -> None:
    ledger = ByteLedger.from_table(ByteLedger().to_table())
    assert claim(ledger, []) == []
    assert ledger.to_rows() == []
    assert ledger.covered("web1", "/a.log") == 0


def test_the_end_of_what_was_counted() -> None:
    ledger = ByteLedger()
    hosts, files, starts, ends = columns([(0, 3), (0, 1)])
    ledger.add(hosts, files, starts, ends)
    assert ledger.end(*FILES[0]) == STARTS[4]
    assert ledger.end(*FILES[1]) == 0
